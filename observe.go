package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// observerPoll is how often a store that has no watch is read, and one that cannot be watched is tried again.
const observerPoll = time.Second

// ObserveWithStore yields who leads without taking part: the present state of each group first,
// then each change, until ctx is done. Nothing is ever written.
//
// The pattern is the name of a group, or has the wildcards of NATS subjects in it: * stands for any
// one of the parts that dots separate, > at the end for one or more. With wildcards, groups are yielded
// as they appear; control keys are none. Without, a group of which the store knows nothing is
// yielded once with ReasonAbsent. Wildcards need a store that is a [store.PatternWatcher], as those for NATS and in memory are.
//
// A leader that falls silent is yielded as gone when its lease has run out as seen from here (its TTL plus
// DefaultClockDrift after its latest renewal arrived). Renewals are not yielded. A slow reader skips states,
// but hears of the last one of every group.
//
// An error is yielded when the store cannot be watched. If the reader goes on after it, that is tried
// again, unless the pattern is none (ErrInvalidConfig). When the store's connection is closed for good,
// ErrConnectionClosed is yielded last. A store without a watch is polled, and a read that fails is passed over.
func ObserveWithStore(ctx context.Context, st store.Store, pattern string) iter.Seq2[LeaderInfo, error] {
	return func(yield func(LeaderInfo, error) bool) {
		o, more := newObservation(pattern), true
		tell := func(info LeaderInfo, err error) bool {
			more = more && yield(info, err)
			return more
		}
		o.told = func(info LeaderInfo) bool { return tell(info, nil) }
		o.failed = func(err error) bool { return tell(LeaderInfo{Group: o.named()}, err) }
		if err := o.follow(ctx, st); err != nil {
			o.failed(err)
		}
	}
}

// An Observer is the set of functions that [ObserveFunc] calls. They are called one at a time, on
// the goroutine of ObserveFunc; while one runs, states may be skipped, but never the last one of a group. Any may be nil.
type Observer struct {
	// Leader is told who leads a group: the present state of each group first, then each change.
	Leader func(LeaderInfo)
	// Renewed is told of each renewal that arrived: the leader is the one told last, its Until is later.
	Renewed func(LeaderInfo)
	// Present is called when Leader has been told the present state of every group that matches: what
	// is not known by then does not exist. It is called again after interruptions.
	Present func()
	// Failed is told why the groups cannot be watched; that is tried again. It is also told
	// if the present state cannot be read for want of a permission: then Present is not called,
	// and Leader hears of each group with its next renewal. Without Failed, ObserveFunc returns
	// the first error of either kind.
	Failed func(error)
}

// ObserveFuncWithStore is [ObserveWithStore] with functions in place of an iteration. It returns nil when
// ctx is done, ErrConnectionClosed when the store's connection is closed for good, or an error if the pattern
// is none or if there is no Observer.Failed to tell.
func ObserveFuncWithStore(ctx context.Context, st store.Store, pattern string, observer Observer) error {
	var failure error
	o := newObservation(pattern)
	o.told = goingOn(observer.Leader)
	o.renewed = goingOn(observer.Renewed)
	o.failed = func(err error) bool {
		if observer.Failed == nil {
			failure = err
			return false
		}
		observer.Failed(err)
		return true
	}
	o.present = func(err error) bool {
		switch {
		case err != nil:
			return o.failed(err)
		case observer.Present != nil:
			observer.Present()
		}
		return true
	}
	if err := o.check(st); err != nil {
		return err // no trial would help
	}
	if err := o.follow(ctx, st); err != nil {
		return err
	}
	return failure
}

func goingOn(f func(LeaderInfo)) func(LeaderInfo) bool {
	return func(info LeaderInfo) bool {
		if f != nil {
			f(info)
		}
		return true
	}
}

// SnapshotWithStore returns who leads each group that matches the pattern (see [ObserveWithStore]) and of which
// the store knows something, vacancies included, in the order of the groups' names. It fails if the store cannot be watched, if the
// user may not read the present state, or when ctx is done first.
//
// A record does not tell its age: one whose leader has just died reads like any other, and Until is counted
// from now. To know whether a leader lives, observe it for that long.
func SnapshotWithStore(ctx context.Context, st store.Store, pattern string) ([]LeaderInfo, error) {
	infos := make(map[string]LeaderInfo)
	var failure error
	whole := false
	o := newObservation(pattern)
	o.told = func(info LeaderInfo) bool { infos[info.Group] = info; return true }
	o.renewed = o.told
	o.failed = func(err error) bool { failure = err; return false }
	o.present = func(err error) bool { failure, whole = err, err == nil; return false }
	ended := o.follow(ctx, st)
	if !whole {
		failure = cmp.Or(failure, ended)
		if failure == nil {
			failure = fmt.Errorf("%w: the present state of %q did not arrive: %w", store.ErrTransient, pattern, context.Cause(ctx))
		}
		return nil, failure
	}
	all := make([]LeaderInfo, 0, len(infos))
	for _, info := range infos {
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b LeaderInfo) int { return strings.Compare(a.Group, b.Group) })
	return all, nil
}

// An observation follows the groups of one pattern. All but the inbox belongs to the goroutine of follow.
type observation struct {
	pattern string
	in      *inbox
	groups  map[string]*observedGroup
	expiry  expiries

	// What the observer wants to hear; false ends the observation.
	told    func(LeaderInfo) bool
	renewed func(LeaderInfo) bool
	present func(error) bool
	failed  func(error) bool
}

func newObservation(pattern string) *observation {
	return &observation{
		pattern: pattern, in: newInbox(), groups: make(map[string]*observedGroup),
		renewed: func(LeaderInfo) bool { return true },
		present: func(error) bool { return true },
	}
}

// An observedGroup is a group and who was seen to lead it.
type observedGroup struct {
	rev   uint64
	last  LeaderInfo
	index int // in expiries; -1 if nobody leads
}

// named is the group of an observation without wildcards.
func (o *observation) named() string {
	if store.Wild(o.pattern) {
		return ""
	}
	return o.pattern
}

// follow observes until ctx is done or the observer has enough, for which it
// returns nil. It returns ErrConnectionClosed when the store is closed for good.
func (o *observation) follow(ctx context.Context, st store.Store) error {
	if err := o.check(st); err != nil {
		o.failed(err)
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer whenClosed(st, func() { cancel(ErrConnectionClosed) })()
	for {
		stop, err := o.watch(ctx, st)
		if err == nil {
			o.run(ctx)
			stop()
			return closedBy(ctx)
		}
		switch {
		case errors.Is(err, ErrConnectionClosed):
			return err
		case ctx.Err() != nil || !o.failed(err) || !sleep(ctx, observerPoll):
			return closedBy(ctx)
		}
	}
}

// whenClosed calls f once the store's connection is closed for good, perhaps more
// than once, until stop is called.
func whenClosed(st store.Store, f func()) (stop func()) {
	c, ok := st.(store.ConnReporter)
	if !ok {
		return func() {}
	}
	stop = c.OnConnState(func(s store.ConnState) {
		if s == store.Closed {
			f()
		}
	})
	if c.ConnState() == store.Closed {
		f()
	}
	return stop
}

// closedBy is ErrConnectionClosed if that is why ctx is done.
func closedBy(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, ErrConnectionClosed) {
		return err
	}
	return nil
}

func (o *observation) check(st store.Store) error {
	switch {
	case !store.ValidPattern(o.pattern), isControl(o.pattern):
		return fmt.Errorf("%w: pattern %q: must be a group's name, in which * may stand for a part and > for the last ones", ErrInvalidConfig, o.pattern)
	case store.Wild(o.pattern):
		if _, ok := st.(store.PatternWatcher); !ok {
			return fmt.Errorf("%w: pattern %q: a %T cannot watch more than one group", ErrInvalidConfig, o.pattern, st)
		}
	}
	return nil
}

// isControl tells the keys that are no groups.
func isControl(key string) bool { return strings.HasPrefix(key, record.ControlKey("")) }

// watch begins to fill the inbox.
func (o *observation) watch(ctx context.Context, st store.Store) (stop func(), err error) {
	first := sync.OnceFunc(func() { o.in.mark(nil) })
	switch w := st.(type) {
	case store.PatternWatcher:
		return w.WatchPattern(ctx, o.pattern, o.in.offer, o.in.mark)
	case store.Watcher:
		return w.Watch(ctx, []string{o.pattern}, func(e store.Entry) { o.in.offer(e); first() })
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			shield.Call(func() {
				if e, err := st.Get(ctx, o.pattern); err == nil {
					o.in.offer(e)
					first()
				}
			}, func(value any, _ []byte) {
				o.in.mark(fmt.Errorf("%w: the store's Get panicked: %v", store.ErrUnknown, shield.Value(value)))
			})
			if !sleep(ctx, observerPoll) {
				return
			}
		}
	}()
	return func() { cancel(); <-done }, nil
}

// run tells the observer what arrives and what runs out. One timer serves all groups.
func (o *observation) run(ctx context.Context) {
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		more := true
		select {
		case <-o.in.wake:
			more = o.takeIn(ctx)
		case <-expiry.C:
			// What has arrived by now comes first: it may be a renewal that a slow observer kept waiting.
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

// takeIn empties the inbox.
func (o *observation) takeIn(ctx context.Context) bool {
	for ctx.Err() == nil {
		a, ok := o.in.take()
		switch {
		case !ok:
			return true
		case a.end && !o.presented(a.err), a.vacancy != nil && !o.sight(*a.vacancy, a.at), !a.end && !o.sight(a.entry, a.at):
			return false
		}
	}
	return false
}

// presented handles the end of the present state: a group that was asked for by its name and did not
// appear is absent.
func (o *observation) presented(err error) bool {
	if group := o.named(); group != "" && err == nil && o.groups[group] == nil && !o.sight(store.Entry{Key: group}, time.Now()) {
		return false
	}
	return o.present(err)
}

// sight handles an entry that arrived at that time.
func (o *observation) sight(e store.Entry, at time.Time) bool {
	s := o.groups[e.Key]
	switch {
	case isControl(e.Key), s == nil && e.Revision == 0 && o.named() == "":
		return true // no group
	case s == nil:
		s = &observedGroup{index: -1}
		o.groups[e.Key] = s
	case s.rev == e.Revision:
		return true // said again, by a poll or after an interruption: no renewal
	}
	s.rev = e.Revision
	known := s.last
	info, seen := infoOf(e.Key, e, at)
	s.last = info.asOf(time.Now())
	o.expiry.place(s)
	if e.Revision == 0 && o.named() == "" {
		delete(o.groups, e.Key)
	}
	if before, ok := vacancyAfter(known, seen); ok && !o.told(before) {
		return false
	}
	if s.last.news(known) {
		return o.told(s.last)
	}
	return s.last.ID == "" || o.renewed(s.last)
}

// expire tells of the leaders whose leases have run out.
func (o *observation) expire(ctx context.Context, now time.Time) bool {
	for len(o.expiry) > 0 && !now.Before(o.expiry[0].last.Until) && ctx.Err() == nil {
		s := o.expiry[0]
		s.last = s.last.asOf(now)
		o.expiry.place(s)
		if !o.told(s.last) {
			return false
		}
	}
	return true
}

// news tells whether l differs from what was known in more than how long it is good for.
func (l LeaderInfo) news(known LeaderInfo) bool {
	return l.Group != known.Group || !l.sameNews(known)
}

// infoOf says who leads by an entry that arrived at now.
func infoOf(group string, e store.Entry, now time.Time) (info LeaderInfo, seen machine.Seen) {
	seen, r := record.Read(e)
	info = LeaderInfo{Group: group, Term: seen.Term(), Correlation: correlation(seen.Rec.Token)}
	switch seen.Kind {
	case machine.Held:
		info.ID, info.Priority, info.Version, info.Address, info.Meta = r.ID, r.Priority, r.Version, r.Address, r.Meta
		ttl := min(seen.Rec.TTL, MaxTTL)
		if ttl <= 0 {
			ttl = MaxTTL
		}
		info.Until = now.Add(machine.Wait(ttl, DefaultClockDrift))
	case machine.Vacant:
		info.Reason, info.By, info.Why, info.Successor = Reason(r.Reason), r.By, r.Why, r.Successor
	case machine.Bare:
		info.Reason = ReasonDeleted
	case machine.Garbled:
		info.Reason = ReasonOverwritten
	default:
		info.Reason = ReasonAbsent
	}
	return info, seen
}
