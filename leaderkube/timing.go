package leaderkube

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A Timing holds the settings that a loop of client-go gets in addition to its
// lock: the fields of these names of leaderelection.LeaderElectionConfig and of
// controller-runtime's manager.Options. The length of a lease is not among
// them: it is leader.ElectionConfig.TTL.
type Timing struct {
	// LeaseDuration is how long the loop may be silent before the lock takes it
	// for dead, stops renewing, and leaves the record to expire. At least a
	// second.
	LeaseDuration time.Duration
	// RenewDeadline is how long a loop goes on asking a lock that it has lost
	// before it ends its work, if nothing else ends it (see [Lock.Context]).
	RenewDeadline time.Duration
	// RetryPeriod is the time between two questions. They cost no call to the
	// store.
	RetryPeriod time.Duration
}

// DefaultTiming returns the timing of a loop that sets none: the defaults of
// client-go's components and of controller-runtime, 15 s, 10 s and 2 s.
func DefaultTiming() Timing {
	return Timing{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
}

// TimingFor returns the shortest useful timing for a configuration: a loop that
// has it notices the end of a term within RenewDeadline + RetryPeriod, which is
// half of what the trust window leaves between two renewals, and no more than
// 2 s or DemoteTimeout.
func TimingFor(cfg leader.ElectionConfig) Timing {
	half := min(room(cfg)/2, 2*time.Second, demotion(cfg))
	t := Timing{RetryPeriod: min(half/5, 200*time.Millisecond)}
	t.RenewDeadline = half - t.RetryPeriod
	// The record of client-go counts whole seconds, and a loop demands that its
	// lease is longer than its deadline.
	t.LeaseDuration = max(cfg.TTL, t.RenewDeadline+time.Millisecond).Truncate(time.Second) + time.Second
	return t
}

// room is what the trust window has left right before a renewal that was not
// late.
func room(cfg leader.ElectionConfig) time.Duration {
	drift := cfg.ClockDrift
	if drift == 0 {
		drift = leader.DefaultClockDrift
	}
	return cfg.TTL - time.Duration(float64(cfg.TTL)*drift) - cfg.HeartbeatInterval
}

// demotion is how long the end of a term waits for the work.
func demotion(cfg leader.ElectionConfig) time.Duration {
	if cfg.DemoteTimeout == 0 {
		return max(cfg.TTL, 5*time.Second)
	}
	return cfg.DemoteTimeout
}

// tail is how long a loop works on after the last answer that it holds the
// lock: it sleeps, and then asks without success.
func (t Timing) tail() time.Duration { return t.RetryPeriod + t.RenewDeadline }

// seconds is the lease as client-go writes it.
func (t Timing) seconds() int { return int(t.LeaseDuration / time.Second) }

// check applies client-go's own rules to the timing, and the rules of an
// election if its configuration is valid.
func (t Timing) check(cfg leader.ElectionConfig, valid bool) error {
	var faults []error
	demand := func(ok bool, field string, value time.Duration, rule string, args ...any) {
		if !ok {
			faults = append(faults, &leader.ConfigError{Field: "Timing." + field, Value: value, Rule: fmt.Sprintf(rule, args...)})
		}
	}
	demand(t.RetryPeriod > 0, "RetryPeriod", t.RetryPeriod, "must be positive")
	// leaderelection.JitterFactor, by which client-go varies its pauses.
	demand(t.RenewDeadline > t.RetryPeriod*6/5, "RenewDeadline", t.RenewDeadline, "must be more than 1.2 × RetryPeriod (%v), as client-go demands", t.RetryPeriod)
	demand(t.LeaseDuration > t.RenewDeadline, "LeaseDuration", t.LeaseDuration, "must be more than RenewDeadline (%v), as client-go demands", t.RenewDeadline)
	demand(t.LeaseDuration >= time.Second, "LeaseDuration", t.LeaseDuration, "must be at least a second, the unit of client-go's record")
	demand(!valid || t.tail() <= room(cfg), "RenewDeadline", t.RenewDeadline,
		"and RetryPeriod (%v) must not be more, in sum, than TTL × (1 - ClockDrift) - HeartbeatInterval (%v): "+
			"for that sum client-go works on with a lock that it has lost; take a longer TTL or TimingFor", t.RetryPeriod, room(cfg))
	demand(!valid || t.tail() <= demotion(cfg), "RenewDeadline", t.RenewDeadline,
		"and RetryPeriod (%v) must not be more, in sum, than DemoteTimeout (%v), after which the record is released although client-go works on",
		t.RetryPeriod, demotion(cfg))
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", leader.ErrInvalidConfig, errors.Join(faults...))
}
