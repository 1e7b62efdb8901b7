// Package observation follows who leads the groups of one pattern, without
// taking part. It writes nothing.
package observation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/connstate"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/polled"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// poll is how often a store that has no watch is read, and one that cannot be
// watched is tried again.
const poll = time.Second

// An Observation follows the groups of one pattern. All but the inbox belongs
// to the goroutine of Follow.
type Observation struct {
	pattern string
	in      inbox
	groups  map[string]*observedGroup
	expiry  expiries

	// The observer's callbacks; false ends the observation.
	Told    func(leadership.Info) bool
	Renewed func(leadership.Info) bool
	Present func(error) bool
	Failed  func(error) bool
}

// New returns an observation of the groups that match a pattern. Told and
// Failed are to be set before Follow.
func New(pattern string) *Observation {
	return &Observation{
		pattern: pattern, in: newInbox(), groups: make(map[string]*observedGroup),
		Renewed: func(leadership.Info) bool { return true },
		Present: func(error) bool { return true },
	}
}

// An observedGroup is a group and who was seen to lead it.
type observedGroup struct {
	rev   uint64
	last  leadership.Info
	index int // in expiries; -1 if nobody leads
}

// Named is the group of an observation without wildcards.
func (o *Observation) Named() string {
	if store.Wild(o.pattern) {
		return ""
	}
	return o.pattern
}

// Follow observes until ctx is done or the observer has enough, for which it
// returns nil. It returns store.ErrClosed when the store is permanently closed.
func (o *Observation) Follow(ctx context.Context, st store.Store) error {
	if err := o.Check(st); err != nil {
		o.Failed(err)
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer connstate.WhenClosed(st, func() { cancel(store.ErrClosed) })()
	for {
		stop, err := o.watch(ctx, st, cancel)
		if err == nil {
			o.run(ctx)
			stop()
			return closedBy(ctx)
		}
		switch {
		case errors.Is(err, store.ErrClosed):
			return err
		case ctx.Err() != nil || !o.Failed(err) || !backoff.Sleep(ctx, poll):
			return closedBy(ctx)
		}
	}
}

// closedBy is store.ErrClosed if that is why ctx is done.
func closedBy(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, store.ErrClosed) {
		return err
	}
	return nil
}

// Check reports why a store cannot be observed, if it cannot. The error matches
// leadership.ErrInvalid.
func (o *Observation) Check(st store.Store) error {
	switch {
	case !store.ValidPattern(o.pattern), isControl(o.pattern):
		return fmt.Errorf("%w: pattern %q: must be a group's name, in which * matches a part and > the last parts", leadership.ErrInvalid, o.pattern)
	case store.Wild(o.pattern):
		if _, ok := st.(store.PatternWatcher); !ok {
			return fmt.Errorf("%w: pattern %q: a %T cannot watch more than one group", leadership.ErrInvalid, o.pattern, st)
		}
	}
	return nil
}

// isControl reports whether a key is a control record's, and so no group.
func isControl(key string) bool { return strings.HasPrefix(key, record.ControlKey("")) }

// watch begins to fill the inbox. It calls end with store.ErrClosed where a
// read finds the store closed.
func (o *Observation) watch(ctx context.Context, st store.Store, end func(error)) (stop func(), err error) {
	switch w := st.(type) {
	case store.PatternWatcher:
		return w.WatchPattern(ctx, o.pattern, o.in.put, o.in.mark)
	case store.Watcher:
		first := sync.OnceFunc(func() { o.in.mark(nil) })
		return w.Watch(ctx, []string{o.pattern}, func(e store.Entry) { o.in.put(e); first() })
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var reads polled.Reads
		for present := false; ; {
			shield.Call(func() {
				e, err := st.Get(ctx, o.pattern)
				switch {
				case err == nil && reads.Believe(e.Revision):
					o.in.put(e)
					if !present {
						present = true
						o.in.mark(nil)
					}
				case errors.Is(err, store.ErrClosed):
					end(store.ErrClosed)
				case store.Classify(err) == store.Permanent:
					// As of a store that cannot be watched: what fails now and
					// then is passed over, and this does not pass by itself.
					present = false
					o.in.fail(err)
				}
			}, func(value any, _ []byte) {
				o.in.mark(fmt.Errorf("%w: the store's Get panicked: %v", store.ErrUnknown, shield.Value(value)))
			})
			if !backoff.Sleep(ctx, poll) {
				return
			}
		}
	}()
	return func() { cancel(); <-done }, nil
}

// run notifies the observer of arrivals and expiries. A single timer serves all
// groups.
func (o *Observation) run(ctx context.Context) {
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		more := true
		select {
		case <-o.in.Wake():
			more = o.takeIn(ctx)
		case <-expiry.C:
			// Arrivals come first: one may be a renewal that a slow observer
			// kept waiting.
			more = o.takeIn(ctx) && o.expire(ctx, time.Now())
		case <-ctx.Done():
		}
		if !more || ctx.Err() != nil {
			return
		}
		if len(o.expiry) > 0 {
			expiry.Reset(time.Until(o.expiry[0].last.Until))
		}
	}
}

// takeIn empties the inbox, and reports whether the observer wants more.
func (o *Observation) takeIn(ctx context.Context) bool {
	for ctx.Err() == nil {
		a, ok := o.in.Take()
		if !ok {
			return true
		}
		if !o.take(a) {
			return false
		}
	}
	return false
}

// take reports what arrived, and returns whether the observer wants more.
func (o *Observation) take(a arrival) bool {
	switch {
	case a.failed:
		return o.Failed(a.err)
	case a.end:
		return o.presented(a.err)
	case a.vacancy != nil && !o.arrived(*a.vacancy, a.at):
		return false
	default:
		return o.arrived(a.entry, a.at)
	}
}

// presented handles the end of the current state, and reports whether the
// observer wants more. A group that was asked for by its name and did not
// appear is absent.
func (o *Observation) presented(err error) bool {
	if group := o.Named(); group != "" && err == nil && o.groups[group] == nil && !o.arrived(store.Entry{Key: group}, time.Now()) {
		return false
	}
	return o.Present(err)
}

// arrived handles an entry that arrived at that time, and reports whether the
// observer wants more.
func (o *Observation) arrived(e store.Entry, at time.Time) bool {
	s := o.groups[e.Key]
	switch {
	case isControl(e.Key), s == nil && e.Revision == 0 && o.Named() == "":
		return true // no group
	case s == nil:
		s = &observedGroup{index: -1}
		o.groups[e.Key] = s
	case s.rev == e.Revision:
		return true // repeated by a poll or after an interruption: not a renewal
	}
	s.rev = e.Revision
	known := s.last
	info, seen := leadership.Of(e.Key, e, at)
	s.last = info.AsOf(time.Now())
	o.expiry.place(s)
	if e.Revision == 0 && o.Named() == "" {
		delete(o.groups, e.Key)
	}
	if before, ok := leadership.VacancyAfter(known, seen); ok && !o.Told(before) {
		return false
	}
	if s.last.Group != known.Group || !s.last.Same(known) {
		return o.Told(s.last)
	}
	return s.last.ID == "" || o.Renewed(s.last)
}

// expire reports the leaders whose leases have run out, and returns whether the
// observer wants more.
func (o *Observation) expire(ctx context.Context, now time.Time) bool {
	for len(o.expiry) > 0 && !now.Before(o.expiry[0].last.Until) && ctx.Err() == nil {
		s := o.expiry[0]
		s.last = s.last.AsOf(now)
		o.expiry.place(s)
		if !o.Told(s.last) {
			return false
		}
	}
	return true
}
