package leader_test

import (
	"math"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A simField is a field of the configuration and the values that the simulation
// gives it: the default, something in between, and the extremes that Validate
// accepts, as far as an election can go on with them.
type simField struct {
	name   string
	shared bool // the candidates of a group agree on it
	levels []func(w *simWorld, c *leader.ElectionConfig)
}

const endless = time.Duration(math.MaxInt64)

// setting returns a level that sets one field to a constant.
func setting[T any](field func(*leader.ElectionConfig) *T, value T) func(*simWorld, *leader.ElectionConfig) {
	return func(_ *simWorld, c *leader.ElectionConfig) { *field(c) = value }
}

// settings are levels that set one field to constants.
func settings[T any](field func(*leader.ElectionConfig) *T, values ...T) (levels []func(*simWorld, *leader.ElectionConfig)) {
	for _, v := range values {
		levels = append(levels, setting(field, v))
	}
	return levels
}

// leases are levels that set one field to parts of the TTL.
func leases(field func(*leader.ElectionConfig) *time.Duration, parts ...float64) (levels []func(*simWorld, *leader.ElectionConfig)) {
	for _, p := range parts {
		levels = append(levels, func(w *simWorld, c *leader.ElectionConfig) { *field(c) = time.Duration(p * float64(w.ttl)) })
	}
	return levels
}

type (
	simConfig = leader.ElectionConfig
	simLevels = []func(*simWorld, *leader.ElectionConfig)
)

func someTTL(w *simWorld, c *simConfig) {
	c.TTL = time.Duration(500+w.rng.IntN(2500)) * time.Millisecond
}

// demoteInTime gives most of the work enough time to stop.
func demoteInTime(w *simWorld, c *simConfig) { c.DemoteTimeout = w.drain }

// simFields are all fields that change what an election does. Heartbeats, time
// limits and delays of a nanosecond, and delays without end, are valid and left
// out: with the former a schedule never ends, and with the latter nobody need
// ever lead again.
var simFields = []simField{
	{"TTL", true, simLevels{
		func(_ *simWorld, c *simConfig) { c.TTL = leader.MinTTL },
		someTTL, someTTL, someTTL,
		func(_ *simWorld, c *simConfig) { c.TTL = leader.MaxTTL },
	}},
	{"ClockDrift", true, settings(func(c *simConfig) *float64 { return &c.ClockDrift }, math.SmallestNonzeroFloat64, 0, 0.3)},
	{"AcquireGrace", true, settings(func(c *simConfig) *leader.AcquireGrace { return &c.AcquireGrace }, leader.GraceAuto, leader.GraceOn, leader.GraceOff)},
	{"VersionPolicy", true, settings(func(c *simConfig) *leader.VersionPolicy { return &c.VersionPolicy }, leader.PreferAny, leader.PreferOlder, leader.PreferNewer)},
	// Of all or of none, and mostly of none: those who back off take no offers.
	{"Campaign.Backoff", true, leases(func(c *simConfig) *time.Duration { return &c.Campaign.Backoff }, 0, 0, 0, .05)},
	{"Campaign.MaxBackoff", true, leases(func(c *simConfig) *time.Duration { return &c.Campaign.MaxBackoff }, .05, .25)},

	{"ForeignTTL", false, simLevels{
		func(*simWorld, *simConfig) {},
		func(w *simWorld, c *simConfig) { c.ForeignTTL = w.ttl },
		func(w *simWorld, c *simConfig) { c.ForeignTTL = min(2*w.ttl, leader.MaxTTL) },
	}},
	{"HeartbeatInterval", false, leases(func(c *simConfig) *time.Duration { return &c.HeartbeatInterval }, .1, .25, 1./3)},
	{"ConnectionTimeout", false, leases(func(c *simConfig) *time.Duration { return &c.ConnectionTimeout }, 0, 0, 0, .005, .1, 1)},
	{"DisconnectGracePeriod", false, append(
		leases(func(c *simConfig) *time.Duration { return &c.DisconnectGracePeriod }, 0, .25),
		settings(func(c *simConfig) *time.Duration { return &c.DisconnectGracePeriod }, 1, endless)...)},
	{"DemoteTimeout", false, append(
		settings(func(c *simConfig) *time.Duration { return &c.DemoteTimeout }, 1, endless),
		simLevels{demoteInTime, demoteInTime}...)},
	{"DeleteOnStop", false, settings(func(c *simConfig) *bool { return &c.DeleteOnStop }, false, true)},
	{"RetryConfig.MaxAttempts", false, settings(func(c *simConfig) *int { return &c.RetryConfig.MaxAttempts }, 0, 0, 1, math.MaxInt)},
	{"RetryConfig.InitialBackoff", false, leases(func(c *simConfig) *time.Duration { return &c.RetryConfig.InitialBackoff }, 0, .005, .25)},
	{"RetryConfig.MaxBackoff", false, leases(func(c *simConfig) *time.Duration { return &c.RetryConfig.MaxBackoff }, 0, .25, 1)},
	{"RetryConfig.BackoffMultiplier", false, settings(func(c *simConfig) *float64 { return &c.RetryConfig.BackoffMultiplier }, 0, 1, math.MaxFloat64)},
	{"RetryConfig.Jitter", false, settings(func(c *simConfig) *float64 { return &c.RetryConfig.Jitter }, 0, math.SmallestNonzeroFloat64, 1)},
	{"Campaign.Splay", false, leases(func(c *simConfig) *time.Duration { return &c.Campaign.Splay }, 0, .05, 1)},
	{"Priority", false, settings(func(c *simConfig) *int { return &c.Priority }, 0, 1, math.MinInt, math.MaxInt)},
	{"Version", false, settings(func(c *simConfig) *string { return &c.Version }, "1.0.0", "v1.20.0-rc.1", "2")},
	{"AllowPriorityTakeover", false, settings(func(c *simConfig) *bool { return &c.AllowPriorityTakeover }, true, true, false)},
	{"MinTenure", false, append(
		leases(func(c *simConfig) *time.Duration { return &c.MinTenure }, 0, 2),
		settings(func(c *simConfig) *time.Duration { return &c.MinTenure }, 1, endless)...)},
	{"HealthCheckInterval", false, append(
		leases(func(c *simConfig) *time.Duration { return &c.HealthCheckInterval }, 0, .1, 2),
		func(_ *simWorld, c *simConfig) { c.HealthChecker = nil })},
	{"HealthCheckTimeout", false, settings(func(c *simConfig) *time.Duration { return &c.HealthCheckTimeout }, 0, 1)},
	{"MaxConsecutiveFailures", false, settings(func(c *simConfig) *int { return &c.MaxConsecutiveFailures }, 0, 1, 1, math.MaxInt)},
	{"Fencing.ValidationInterval", false, append(
		leases(func(c *simConfig) *time.Duration { return &c.Fencing.ValidationInterval }, 0, .3),
		setting(func(c *simConfig) *time.Duration { return &c.Fencing.ValidationInterval }, endless))},
	{"Fencing.ValidateOnCriticalOps", false, settings(func(c *simConfig) *bool { return &c.Fencing.ValidateOnCriticalOps }, false, true)},
	{"Fencing.CacheToken", false, settings(func(c *simConfig) *bool { return &c.Fencing.CacheToken }, false, true)},
}

// A simChoice is a level of each field.
type simChoice []int

// chooseShared draws what the candidates of a group agree on.
func (w *simWorld) chooseShared() (c leader.ElectionConfig) {
	w.choice = make(simChoice, len(simFields))
	for i, f := range simFields {
		if f.shared {
			w.choice[i] = w.rng.IntN(len(f.levels))
			f.levels[w.choice[i]](w, &c)
			w.ttl = c.TTL // the first, by which the others are measured
		}
	}
	return c
}

// choose draws the rest of a candidate's configuration.
func (w *simWorld) choose(c *leader.ElectionConfig) {
	choice := append(simChoice(nil), w.choice...)
	for i, f := range simFields {
		if f.shared || w.alike && (f.name == "Priority" || f.name == "Version") {
			continue // and else the first level
		}
		choice[i] = int(w.draw(int64(len(f.levels))))
		f.levels[choice[i]](w, c)
	}
	if w.uneven() {
		// What nobody of the group wrote may hide the longest lease. The levels
		// are not these then, and meet nothing.
		c.TTL, c.ForeignTTL = w.lease(), w.longest
		c.HeartbeatInterval = time.Duration(float64(c.HeartbeatInterval) / float64(w.ttl) * float64(c.TTL)).Truncate(time.Microsecond)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pairs.add(choice)
}

// A simPair is two fields, the former one first, each at a level.
type simPair struct{ field, level, other, otherLevel int }

// simPairs counts the pairs that occurred in one configuration.
type simPairs map[simPair]int

func (p simPairs) add(c simChoice) {
	for i := range c {
		for j := range i {
			p[simPair{j, c[j], i, c[i]}]++
		}
	}
}

// demandAll demands that each level of each field met each of each other.
func (p simPairs) demandAll(errorf func(format string, args ...any)) {
	for i, f := range simFields {
		for j, g := range simFields[:i] {
			for l := range f.levels {
				for k := range g.levels {
					if p[simPair{j, k, i, l}] == 0 {
						errorf("%s never was at its level %d when %s was at %d", f.name, l, g.name, k)
					}
				}
			}
		}
	}
}
