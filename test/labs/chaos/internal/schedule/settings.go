package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// Settings are the settings of one candidate. A zero field means the library's
// default.
type Settings struct {
	TTL       time.Duration
	Heartbeat time.Duration
	Timeout   time.Duration // of each call to the store

	Priority  int
	Takeover  bool // it has a leader go that it is preferred to
	MinTenure time.Duration
	Version   string
	Policy    leader.VersionPolicy

	DisconnectGrace time.Duration
	Validation      time.Duration // how often a leader proves its token; 0: never
	HealthCheck     time.Duration // how often it looks whether it is well; 0: never
}

// Common are the settings that a round's candidates have but for what is drawn
// for each.
func (p Plan) Common() Settings {
	return Settings{TTL: p.TTL, Heartbeat: p.Heartbeat, Timeout: p.Timeout}
}

// drawSettings draws the settings of each candidate. In half of the rounds all
// are of one standing, as most groups are.
func (p Plan) drawSettings(rng *rand.Rand) []Settings {
	all := make([]Settings, p.Candidates)
	alike := rng.IntN(2) == 0
	policy := []leader.VersionPolicy{leader.PreferAny, leader.PreferOlder, leader.PreferNewer}[rng.IntN(3)]
	for i := range all {
		s := p.Common()
		if p.Unequal {
			// Whole milliseconds, which records state.
			s.TTL = Between(rng, p.TTL/2, p.TTL).Truncate(time.Millisecond)
			s.Heartbeat, s.Timeout = s.TTL/4, min(s.Timeout, s.TTL)
		}
		if !alike {
			s.Priority, s.Takeover = rng.IntN(3), rng.IntN(3) > 0
			s.Policy, s.Version = policy, []string{"1.0.0", "1.1.0"}[rng.IntN(2)]
			s.MinTenure = oneOf(rng, 0, p.TTL)
		}
		s.DisconnectGrace = oneOf(rng, 0, p.TTL/4)
		s.Validation = oneOf(rng, 0, p.TTL/2)
		s.HealthCheck = healthCheck(s.TTL)
		all[i] = s
	}
	return all
}

// An Expiry is what a bucket does about records that nobody renews. Zero is a
// bucket that keeps them, as the library makes them; the others are an
// operator's.
type Expiry struct {
	MaxAge  time.Duration // after which the server drops a record
	Markers bool          // it leaves a marker then, which a watch hears of
}

// drawExpiry draws it: in half of the rounds records expire, half a TTL after
// the lease in them at the latest. That costs each leader a cool-down but one
// that another has handed over to.
func (p Plan) drawExpiry(rng *rand.Rand) Expiry {
	// Nor may a record vanish where leases are of different lengths. And three
	// servers that keep such a bucket in memory do not always come back with one
	// that takes writes (seed 111 had one that took none for 90 s).
	if rng.IntN(2) > 0 || p.Unequal || p.Shape.Memory && Replicated(p.Shape) {
		return Expiry{}
	}
	return Expiry{MaxAge: Between(rng, p.TTL, 3*p.TTL/2).Truncate(time.Millisecond), Markers: rng.IntN(2) == 0}
}

// String describes when records expire.
func (e Expiry) String() string {
	switch {
	case e.MaxAge == 0:
		return "records stay"
	case e.Markers:
		return fmt.Sprintf("records expire after %v, with a marker", e.MaxAge)
	default:
		return fmt.Sprintf("records expire after %v, unseen", e.MaxAge)
	}
}

// CoolsDown reports whether leaders wait before they lead.
func (p Plan) CoolsDown() bool { return p.Shape.CoolsDown() || p.Expires() }

// Expires reports whether the bucket drops records that nobody renews.
func (p Plan) Expires() bool { return p.Expiry.MaxAge > 0 }

// healthCheck is often enough for a fault to be noticed.
func healthCheck(ttl time.Duration) time.Duration { return ttl / 8 }

func oneOf(rng *rand.Rand, all ...time.Duration) time.Duration { return all[rng.IntN(len(all))] }

// Ranked reports whether candidates are preferred to others.
func (p Plan) Ranked() bool {
	return slices.ContainsFunc(p.Settings, func(s Settings) bool { return s.Version != "" })
}

// Standings describes the candidates' priorities and leases, and when records
// expire.
func (p Plan) Standings() string {
	var parts []string
	if p.Unequal {
		ttls := make([]string, len(p.Settings))
		for i, s := range p.Settings {
			ttls[i] = s.TTL.String()
		}
		parts = append(parts, "unequal TTLs "+strings.Join(ttls, " "))
	}
	if p.Ranked() {
		ranks := make([]string, len(p.Settings))
		for i, s := range p.Settings {
			ranks[i] = fmt.Sprintf("%d/%s", s.Priority, s.Version)
		}
		parts = append(parts, fmt.Sprintf("ranks %s by %v", strings.Join(ranks, " "), p.Settings[0].Policy))
	}
	if p.Expires() {
		parts = append(parts, p.Expiry.String())
	}
	if p.ServerRate != 0 {
		parts = append(parts, "by servers' clocks at "+RateOf(p.ServerRate))
	}
	if len(parts) == 0 {
		return "all alike"
	}
	return strings.Join(parts, ", ")
}
