package discovery

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/observation"
	"github.com/seed-ff2cb582/leader/store"
)

// DefaultTimeout bounds each call to the system by default.
const DefaultTimeout = 5 * time.Second

// A leader's default interval between looks follows its trust window within
// these bounds.
const (
	minInterval = 50 * time.Millisecond
	maxInterval = 10 * time.Second
)

// Options are the settings of [Keep] and [Follow]. The zero value is a good
// one.
type Options struct {
	// Interval is how often a leader checks that its entry is there, and
	// refreshes it where entries expire. Default: a third of the trust window,
	// at least 50 ms and at most 10 s. It is never longer where entries expire.
	Interval time.Duration
	// Timeout bounds each call to the system. A leader's call ends with its
	// trust window, too. Default: DefaultTimeout.
	Timeout time.Duration
	// Logger, optional, logs changes and failures: of failures in a row, once a
	// minute.
	Logger *slog.Logger
	// Report, optional, receives every event, for counters. Its calls do not
	// overlap, and Keep waits for them.
	Report func(Event)
}

func (o Options) withDefaults() Options {
	o.Timeout = min(cmp.Or(o.Timeout, DefaultTimeout), math.MaxInt64/doubtful) // a multiple of it must not overflow
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate returns every broken rule of Keep.
func (o Options) validate(e leader.Election, a Announcer) error {
	return errors.Join(broken(e != nil, "election", nil, "must not be nil"), o.validateRest(a))
}

// validateFollow returns every broken rule of Follow.
func (o Options) validateFollow(st store.Store, group string, a Announcer) error {
	errs := []error{broken(st != nil, "store", nil, "must not be nil"), o.validateRest(a)}
	if obs := observation.New(group); obs.Named() == "" {
		errs = append(errs, broken(false, "group", group, "must be a group's name, without wildcards"))
	} else if st != nil {
		if err := obs.Check(st); err != nil {
			errs = append(errs, broken(false, "group", group, "must be a group's name"))
		}
	}
	return errors.Join(errs...)
}

func (o Options) validateRest(a Announcer) error {
	return errors.Join(
		broken(a != nil, "announcer", nil, "must not be nil"),
		broken(o.Interval >= 0, "Interval", o.Interval, "must be positive, or 0 for the default"),
		broken(o.Timeout >= 0, "Timeout", o.Timeout, "must be positive, or 0 for the default"),
	)
}

// broken is the error of a rule that was not kept.
func broken(kept bool, field string, value any, rule string) error {
	if kept {
		return nil
	}
	return &leader.ConfigError{Field: field, Value: value, Rule: rule}
}

// An Event is something that a keeper did, or failed to do.
type Event struct {
	// Kind is what was done, or failed.
	Kind Kind
	// Entry is the entry that was announced or withdrawn, or that is in the
	// way.
	Entry Entry
	// Err is why it failed, with Failed and Superseded.
	Err error
}

// A Kind is what an Event is about.
type Kind string

// The kinds of events.
const (
	Announced  Kind = "announced"  // this leader's entry is there for the first time
	Repaired   Kind = "repaired"   // it is there again: others had changed or deleted it, or it had run out
	Withdrawn  Kind = "withdrawn"  // this candidate's own entry was removed, since its term is over
	Removed    Kind = "removed"    // another's entry was removed, since its term is over
	Superseded Kind = "superseded" // the entry of a later term is in the place of this leader's
	Displaced  Kind = "displaced"  // such an entry was replaced: it is not of this group's present store
	Failed     Kind = "failed"     // a call failed, and will be repeated
)
