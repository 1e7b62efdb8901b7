package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/observation"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Follow keeps the entry of a group's leader in one system without taking part
// in the election: for candidates that do not call [Keep], such as programs in
// other languages, and for the entry of a leader that died with all its
// candidates. Any number of calls, in any number of processes, may run for one
// group, also beside Keep. nc stays the caller's, and needs the right to read
// the group's key.
//
// It announces a leader that it has heard of since it began: a record that was
// there at the start, or when the connection to the store was back, does not
// tell its age, and counts from its next renewal. It announces again what
// others change or delete; an entry that is gone comes back with the leader's
// next renewal, for the leader itself may have withdrawn it. It removes the
// entry of a leader that has left, and that of one that has fallen silent when
// the lease has run out as seen from here (leader.LeaderInfo.Until) and a read
// of the store confirms that the record has not changed since. If the store
// cannot be read, it removes nothing: then it is the one that is cut off. Where
// the store answers reads from a replica that lags behind, it may remove the
// entry of a leader that lives, once in a term; the leader's next renewal that
// it hears of has it announced again.
//
// An entry of a later term than the group's it leaves alone ([Superseded]): a
// store that was made anew needs that entry to be deleted, or a leader that
// calls Keep.
//
// Where entries expire, it refreshes those that it wrote itself.
//
// It blocks until ctx is done, and returns nil then. The entry stays as it is,
// since the leader leads on. It returns an error that matches
// leader.ErrInvalidConfig at once, or leader.ErrConnectionClosed.
func Follow(ctx context.Context, nc *nats.Conn, bucket, group string, a Announcer, opts Options) error {
	if nc == nil {
		return &leader.ConfigError{Field: "connection", Rule: "is required"}
	}
	st, err := natsstore.New(nc, bucket, natsstore.Options{})
	if err != nil {
		return fmt.Errorf("%w: %w", leader.ErrInvalidConfig, err)
	}
	defer st.Close()
	return FollowWithStore(ctx, st, group, a, opts)
}

// FollowWithStore is [Follow] on any store, which stays the caller's. A store
// that has no watch is polled each second.
func FollowWithStore(ctx context.Context, st store.Store, group string, a Announcer, opts Options) error {
	o := observation.New(group)
	if err := opts.validateFollow(st, group, a); err != nil {
		return err
	}
	f := &follower{caller: newCaller(a, opts), store: st, group: group, blind: true}
	o.Told = f.told
	o.Renewed = f.renewed
	o.Failed = f.deaf
	o.Present = f.present
	if c, ok := st.(store.ConnReporter); ok {
		defer c.OnConnState(f.interrupted)()
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var failure error
	var observing sync.WaitGroup
	observing.Go(func() {
		defer close(ended)
		failure = o.Follow(running, st)
	})
	for delay := f.step(running); f.await(running, ended, delay); {
		delay = f.step(running)
	}
	f.unwatch()
	cancel()
	observing.Wait()
	return failure
}

// A follower is one call of Follow.
type follower struct {
	caller

	store store.Store
	group string

	// What is known of who leads, which mu guards.
	now     known
	blind   bool   // what stands has not been heard since the beginning, or since an interruption
	waiting bool   // for the next renewal
	trouble string // the last failure to observe that was noted
	untold  error  // that failure, until it is told

	own     string    // the version of what it wrote itself
	fresh   time.Time // when it was announced or refreshed
	stood   Entry     // what was seen to stand last
	gone    time.Time // when that was first seen to be gone
	rival   string    // the version of a later term's that was told
	removed Entry     // what was removed last, of one that had fallen silent
}

// A known is who leads, as far as was heard.
type known struct {
	leadership.Info

	heard  time.Time     // when the leader was last heard of; zero: its record was found
	window time.Duration // the length of its lease, as seen from here
}

func (n known) leads(now time.Time) bool { return n.ID != "" && now.Before(n.Until) }

// left reports whether a vacancy stands in the place of the leader's record:
// its term has ended, for whatever reason.
func (n known) left() bool {
	switch leader.Reason(n.Reason) {
	case leader.ReasonExpired, leader.ReasonDeleted, leader.ReasonOverwritten, leader.ReasonAbsent:
		return false
	default:
		return n.ID == ""
	}
}

func (n known) entry() Entry {
	return Entry{
		Group: n.Group, Instance: n.ID, Term: n.Term, Correlation: n.Correlation, Address: n.Address, Meta: n.Meta, TTL: n.window / 2,
	}
}

// told takes in who leads now, and reports whether to go on: always.
func (f *follower) told(info leadership.Info) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := known{Info: info}
	switch {
	case info.ID != "":
		n.window, n.heard = time.Until(info.Until), f.hear()
	case leader.Reason(info.Reason) != leader.ReasonExpired: // of which no store tells
		f.blind = false
	}
	f.now, f.trouble = n, ""
	f.land(info.Term, info.ID != "")
	poke(f.news)
	return true
}

// hear returns when the record was written that has just arrived, which is now,
// or the zero time: what is heard first may have stood there for long. The
// caller holds mu.
func (f *follower) hear() time.Time {
	if f.blind {
		f.blind = false
		return time.Time{}
	}
	return time.Now()
}

// interrupted takes in that the connection to the store is lost, or back.
func (f *follower) interrupted(state store.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blind = f.blind || state != store.Connected
}

// renewed takes in a renewal, and reports whether to go on: always.
func (f *follower) renewed(info leadership.Info) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.now.heard.IsZero()
	window := max(f.now.window, time.Until(info.Until)) // this goroutine may be late
	f.now, f.trouble = known{info, f.hear(), window}, ""
	if first || f.waiting {
		f.waiting = false
		poke(f.news)
	}
	return true
}

// deaf takes in why nothing is heard, which is told once, and reports whether
// to go on: always.
func (f *follower) deaf(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err.Error() != f.trouble {
		f.trouble, f.untold = err.Error(), err
		poke(f.news)
	}
	return true
}

// present takes in that the present state has arrived, or why it cannot be
// read, and reports whether to go on: always.
func (f *follower) present(err error) bool { return err == nil || f.deaf(err) }

// complain tells why nothing is heard.
func (f *follower) complain() {
	f.mu.Lock()
	err := f.untold
	f.untold = nil
	f.mu.Unlock()
	if err != nil {
		f.tell(Event{Kind: Failed, Entry: Entry{Group: f.group}, Err: fmt.Errorf("observe the group: %w", err)})
	}
}

func (f *follower) known() known {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// step brings the system in line with what is known, as far as one step can,
// and returns when to look again.
func (f *follower) step(ctx context.Context) time.Duration {
	f.complain()
	n := f.known()
	switch {
	case n.Group == "":
		return patrol // nothing is known
	case n.leads(time.Now()) && !n.heard.IsZero():
		return f.lead(ctx, n)
	default:
		f.unwatch()
		return f.clear(ctx, n)
	}
}

func (f *follower) failed(what string, n known, err error) time.Duration {
	if cancelled(err, func() bool { now := f.known(); return now.Term != n.Term || !now.leads(time.Now()) }) {
		return 0
	}
	return f.caller.failed(what, Entry{Group: f.group, Instance: n.ID, Term: n.Term, Correlation: n.Correlation}, err, f.policy(n))
}

// policy paces what is repeated.
func (f *follower) policy(n known) backoff.Policy {
	interval := f.between(n.window)
	return backoff.Policy{Initial: min(max(interval/10, 10*time.Millisecond), time.Second), Max: max(interval, time.Second), Jitter: 0.25}
}

// lead has the leader's entry stand.
func (f *follower) lead(ctx context.Context, n known) time.Duration {
	want, interval := n.entry(), f.between(n.window)
	ctx, done := f.during(ctx, n.Term, n.Until, func() bool { return f.now.ID != "" && f.now.Term == n.Term })
	defer done()
	f.watch(f.group)
	s, err := f.look(ctx, f.group)
	if err != nil {
		return f.failed("look", n, err)
	}
	switch {
	case s.later(want):
		f.superseded(s)
		return interval
	case time.Until(n.Until) < want.TTL:
		return interval // not renewed: what is written now may outlast it
	case s.Entry.IsZero() && !f.renewedSince(s, want, n):
		return interval
	case s.Damaged || !s.Entry.Same(want):
		return f.announce(ctx, n, s)
	}
	f.gone = time.Time{}
	return f.refresh(ctx, n, s)
}

// renewedSince reports whether the leader was heard of since its entry was seen
// to be gone. One that stood in this term may have been withdrawn by the leader
// itself, whose term then has ended, and which renews no more.
func (f *follower) renewedSince(s Standing, want Entry, n known) bool {
	if !f.stood.sameTerm(want) && s.LastTerm < want.Term {
		return true // it has never stood
	}
	if f.gone.IsZero() {
		f.gone = time.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = !n.heard.After(f.gone)
	if f.waiting && f.now.heard.After(f.gone) {
		poke(f.news) // it has come meanwhile
	}
	return !f.waiting
}

// superseded tells once of an entry that is not this one's to replace.
func (f *follower) superseded(s Standing) {
	f.failures = 0
	if s.Version != f.rival {
		f.rival = s.Version
		f.tell(Event{Kind: Superseded, Entry: s.last(), Err: ErrSuperseded})
	}
}

// announce writes the entry, and has it looked at again at once, for the
// version.
func (f *follower) announce(ctx context.Context, n known, s Standing) time.Duration {
	want := n.entry()
	kind := Announced
	if f.stood.sameTerm(want) {
		kind = Repaired
	}
	begun := time.Now()
	if err := f.call(ctx, func(ctx context.Context) error { return f.system.Announce(ctx, want, s) }); err != nil {
		return f.failed("announce", n, err)
	}
	f.failures = 0
	f.fresh, f.gone, f.own, f.stood = begun, time.Time{}, "", want
	if after, err := f.look(ctx, f.group); err == nil && after.Entry.Same(want) {
		f.own = after.Version
	}
	if kind == Repaired {
		f.repaired(f.policy(n))
	} else {
		f.repairs = 0
	}
	f.tell(Event{Kind: kind, Entry: want})
	return f.between(n.window)
}

// refresh prolongs an entry that expires, if it is this follower that wrote it.
// That of another is that one's to prolong.
func (f *follower) refresh(ctx context.Context, n known, s Standing) time.Duration {
	interval := f.between(n.window)
	f.stood = s.Entry
	r, expires := f.system.(Refresher)
	if !expires || s.Version != f.own {
		f.failures, f.repairs = 0, 0
		return interval
	}
	if left := interval - time.Since(f.fresh); left > 0 {
		return left // the watch asked for this look
	}
	begun := time.Now()
	if err := f.call(ctx, func(ctx context.Context) error { return r.Refresh(ctx, n.entry(), s) }); err != nil {
		return f.failed("refresh", n, err)
	}
	f.fresh, f.failures, f.repairs = begun, 0, 0
	return interval
}

// clear removes the entry of a leader whose term has ended.
func (f *follower) clear(ctx context.Context, n known) time.Duration {
	s, err := f.look(ctx, f.group)
	if err != nil {
		return f.failed("look", n, err)
	}
	switch e := s.Entry; {
	case e.IsZero(), e.Term > n.Term:
		return f.patrol()
	case e.Term < n.Term, n.left():
		return f.remove(ctx, n, s)
	case n.ID != "" || leader.Reason(n.Reason) != leader.ReasonExpired || e.sameTerm(f.removed):
		return f.patrol() // its record was found, or others have destroyed it
	}
	unchanged, err := f.unchanged(ctx, n)
	switch {
	case err != nil:
		return f.failed("confirm that the leader has fallen silent", n, err)
	case !unchanged:
		return f.patrol() // it is for the watch to tell what has become of it
	}
	return f.remove(ctx, n, s)
}

// patrol is the time to the next look while nobody is known to lead.
func (f *follower) patrol() time.Duration {
	f.failures = 0
	return patrol
}

// unchanged reports whether the group's record is still the one whose lease has
// run out. A store that cannot be asked may be the one that fell silent.
func (f *follower) unchanged(ctx context.Context, n known) (yes bool, err error) {
	err = f.call(ctx, func(ctx context.Context) error {
		e, err := f.store.Get(ctx, f.group)
		yes = err == nil && e.Revision == n.Rev
		return err
	})
	return yes, err
}

func (f *follower) remove(ctx context.Context, n known, s Standing) time.Duration {
	if err := f.call(ctx, func(ctx context.Context) error { return f.system.Withdraw(ctx, s) }); err != nil {
		return f.failed("withdraw", n, err)
	}
	f.removed = s.Entry
	f.tell(Event{Kind: Removed, Entry: s.Entry})
	return f.patrol()
}
