package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
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
// It announces a leader that it has heard of since it started. A record that
// was there at the start, or when the connection to the store came back, does
// not show its age, and counts from its next renewal. It announces again what
// others change or delete, except that a missing entry comes back with the
// leader's next renewal, because the leader itself may have withdrawn it. It
// removes the entry of a leader that has left. It removes the entry of a silent
// leader when the lease has run out as seen from here (leader.LeaderInfo.Until)
// and a read of the store confirms that the record has not changed since. If
// the store cannot be read, it removes nothing: then it is the observer that is
// cut off. Where the store answers reads from a replica that lags behind, it
// may remove the entry of a live leader, once in a term; it announces that
// leader again at the next renewal that it hears of.
//
// It does not touch an entry of a later term than the group's ([Superseded]):
// if the store was recreated, somebody has to delete that entry, or a leader
// has to call Keep.
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
	k := newKeeper(a, opts)
	k.follows = true
	f := &observer{keeper: k, store: st, group: group, blind: true}
	k.witness = f
	o.Told, o.Renewed, o.Failed, o.Present = f.told, f.renewed, f.deaf, f.present
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
	k.run(running, ended)
	cancel()
	observing.Wait()
	return failure
}

// An observer is the witness of Follow: it reads the group's record.
type observer struct {
	*keeper

	store store.Store
	group string

	// The known leader; mu guards these fields.
	now     known
	blind   bool   // no change has been heard since the start, or since an interruption
	waiting bool   // for the next renewal
	trouble string // the last failure to observe that was noted
	untold  error  // that failure, until it is reported
}

// A known is who leads, as far as was heard.
type known struct {
	leadership.Info

	heard  time.Time     // when the leader was last heard of; zero: its record was found
	window time.Duration // the length of its lease, as seen from here
}

// left reports whether a vacancy has replaced the leader's record: its term has
// ended, for any reason.
func (n known) left() bool {
	switch leader.Reason(n.Reason) {
	case leader.ReasonExpired, leader.ReasonDeleted, leader.ReasonOverwritten, leader.ReasonAbsent:
		return false
	default:
		return n.ID == ""
	}
}

// told records who leads now. It always returns true, to go on.
func (f *observer) told(info leadership.Info) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := known{Info: info}
	switch {
	case info.ID != "":
		n.window, n.heard = time.Until(info.Until), f.heard()
	case leader.Reason(info.Reason) != leader.ReasonExpired: // which no store reports
		f.blind = false
	}
	f.now, f.trouble = n, ""
	f.hear(Entry{Instance: info.ID, Term: info.Term})
	return true
}

// heard returns when the record that has just arrived was written: now, or the
// zero time if it is the first that was heard, since that record may be old.
// The caller holds mu.
func (f *observer) heard() time.Time {
	if f.blind {
		f.blind = false
		return time.Time{}
	}
	return time.Now()
}

// interrupted takes in that the connection to the store is lost, or back.
func (f *observer) interrupted(state store.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blind = f.blind || state != store.Connected
}

// renewed takes in a renewal, and reports whether to go on: always.
func (f *observer) renewed(info leadership.Info) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.now.heard.IsZero()
	window := max(f.now.window, time.Until(info.Until)) // this goroutine may be late
	f.now, f.trouble = known{info, f.heard(), window}, ""
	if first || f.waiting {
		f.waiting = false
		poke(f.news)
	}
	return true
}

// deaf records why nothing is heard, which is reported once. It always returns
// true, to go on.
func (f *observer) deaf(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err.Error() != f.trouble {
		f.trouble, f.untold = err.Error(), err
		poke(f.news)
	}
	return true
}

// present records that the current state has arrived, or why it cannot be read.
// It always returns true, to go on.
func (f *observer) present(err error) bool { return err == nil || f.deaf(err) }

// complain reports why nothing is heard.
func (f *observer) complain() {
	f.mu.Lock()
	err := f.untold
	f.untold = nil
	f.mu.Unlock()
	if err != nil {
		f.tell(Event{Kind: Failed, Entry: Entry{Group: f.group}, Err: fmt.Errorf("observe the group: %w", err)})
	}
}

// view implements witness.
func (f *observer) view() view {
	f.complain()
	f.mu.Lock()
	n := f.now
	f.mu.Unlock()
	return view{
		Entry: Entry{
			Group: n.Group, Instance: n.ID, Term: n.Term, Correlation: n.Correlation, Address: n.Address, Meta: n.Meta, TTL: n.window / 2,
		},
		leads: n.ID != "" && time.Now().Before(n.Until) && !n.heard.IsZero(),
		until: n.Until, window: n.window, left: n.left(),
	}
}

// confirms implements witness.
func (f *observer) confirms(context.Context) bool { return false }

// returns implements witness: it reports whether the leader was heard of since.
// A leader that withdrew its entry itself renews no more.
func (f *observer) returns(gone time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = !f.now.heard.After(gone)
	return !f.waiting
}

// silent implements witness: it reports whether the lease has run out, and the
// group's record is still the same. A store that cannot be asked may be the one
// that fell silent. If the record has changed, the watch will report how.
func (f *observer) silent(ctx context.Context, v view) (yes bool, again time.Duration, err error) {
	f.mu.Lock()
	n := f.now
	f.mu.Unlock()
	if n.Term != v.Term || n.ID != "" || leader.Reason(n.Reason) != leader.ReasonExpired {
		return false, 0, nil // it was heard of meanwhile, or others have destroyed its record
	}
	err = f.call(ctx, func(ctx context.Context) error {
		e, err := f.store.Get(ctx, f.group)
		yes = err == nil && e.Revision == n.Rev
		return err
	})
	return yes, 0, err
}
