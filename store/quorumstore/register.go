package quorumstore

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/quorumstore/internal/ballot"
)

// trusted is how long a write may expect a revision of which the member has
// shown nothing since.
const trusted = 30 * time.Second

// A register is what this process knows of one key.
type register struct {
	s    *Store
	key  string
	turn chan struct{} // holds an element while a call is under way

	mu     sync.Mutex
	view   ballot.View
	call   *call // nil if none is under way
	known  [ballot.MaxMembers]knowledge
	causes [ballot.MaxMembers]error // of the failures during the call
	waits  int                      // since a call found out what the key contains

	reports   [ballot.MaxMembers]report // by watches
	unsettled time.Time                 // since when members differ, as notice describes
	vain      int                       // attempts to bring them together since
}

// A knowledge is when a member showed its register, and at which epoch it was
// asked.
type knowledge struct {
	at    time.Time
	epoch uint64
}

// A call is one CompareAndSwap.
type call struct {
	done    chan struct{} // closed when the rest is set
	outcome store.Outcome
	version uint64 // if the outcome is OK
	causes  [ballot.MaxMembers]error
}

func newRegister(s *Store, key string) *register {
	return &register{s: s, key: key, turn: make(chan struct{}, 1)}
}

func (r *register) compareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: key %q: another call was under way: %w", store.ErrTransient, r.key, context.Cause(ctx))
	case <-r.s.ctx.Done():
		return 0, store.ErrClosed
	}
	r.yield(ctx)
	c := r.begin(w)
	select {
	case <-c.done:
	case <-ctx.Done():
	case <-r.s.ctx.Done():
	}
	r.cancel(c)
	<-c.done
	switch c.outcome {
	case store.OK:
		return c.version, nil
	case store.Conflict:
		return 0, fmt.Errorf("%w: key %q has another revision than %d", store.ErrConflict, r.key, w.Expected)
	case store.Permanent:
		return 0, refusal(store.ErrPermanent, r.key, c.causes[:])
	case store.Transient:
		if r.s.ctx.Err() != nil {
			return 0, store.ErrClosed
		}
		return 0, r.ended(ctx, refusal(store.ErrTransient, r.key, c.causes[:]))
	default:
		return 0, r.ended(ctx, refusal(store.ErrUnknown, r.key, c.causes[:]))
	}
}

// ended adds the end of the caller's context to err.
func (r *register) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return err
}

// yield waits while other processes are seen to write the first value of the
// key: of hundreds that begin one after the other, each would end the attempt of
// those before.
func (r *register) yield(ctx context.Context) {
	var seen ballot.Ballot
	for waits := 1; ; waits++ {
		r.mu.Lock()
		open, delay := r.s.group.Opening(&r.view), r.pause(waits)
		r.mu.Unlock()
		if open == (ballot.Ballot{}) || open == seen {
			return
		}
		seen = open
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		case <-r.s.ctx.Done():
			return
		}
	}
}

func (r *register) begin(w store.Write) *call {
	own := ballot.Value{Data: string(w.Value), Tombstone: w.Tombstone}
	_, _ = crand.Read(own.ID[:]) // it does not fail
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes = [ballot.MaxMembers]error{}
	c := &call{done: make(chan struct{})}
	r.call = c
	r.step(ballot.Event{Kind: ballot.Begin, Expected: w.Expected, Own: own})
	return c
}

// cancel ends c if it is under way.
func (r *register) cancel(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.call == c {
		r.step(ballot.Event{Kind: ballot.Cancel})
	}
}

// expire has members read again, before a write expects their revisions, that
// showed nothing for long, or may have been made again. r.mu is held.
func (r *register) expire() {
	for i := range r.s.members {
		v := &r.view.Members[i]
		if time.Since(r.known[i].at) > trusted {
			v.Fresh = false
		}
		if r.doubted(i) {
			v.Fresh, v.Suspect = false, true
		}
	}
}

// doubted reports whether member i may have been made again since its register
// was read. r.mu is held.
func (r *register) doubted(i int) bool {
	return r.view.Members[i].Known && r.known[i].epoch != r.s.members[i].epoch.Load()
}

// step takes in an event and does what follows from it. r.mu is held.
func (r *register) step(ev ballot.Event) {
	r.expire()
	ev.Random, ev.Clock = rand.Uint64(), uint64(time.Now().UnixMicro())
	before, shown := r.view.Members[ev.Member], r.view.Shown.Version
	view, actions := r.s.group.Step(r.view, ev)
	r.view = view
	r.notice(view.Shown.Version > shown)
	if view.Shown.Version > shown {
		r.s.announce(r.entry())
	}
	for _, a := range actions {
		switch a.Kind {
		case ballot.Look:
			r.look(a.Member)
		case ballot.Write:
			r.write(a, view.Members[a.Member].Doing == ballot.Healing)
		case ballot.Wait:
			r.wait()
		case ballot.Done:
			c := r.call
			r.call = nil
			if a.Outcome == store.OK || a.Outcome == store.Conflict {
				r.waits = 0
			}
			c.outcome, c.version, c.causes = a.Outcome, a.Version, r.causes
			close(c.done)
		}
	}
	after, read := view.Members[ev.Member], ev.Kind == ballot.Seen || ev.Kind == ballot.Looked
	if after.Rev < before.Rev || read && after.Suspect && !before.Suspect {
		// It may have been made again. This register was read just now.
		r.known[ev.Member].epoch = r.s.members[ev.Member].epoch.Add(1)
	}
}

// entry returns the newest state that was shown. r.mu is held.
func (r *register) entry() store.Entry {
	v := &r.view.Shown
	if v.Version == 0 {
		return store.Entry{Key: r.key}
	}
	return store.Entry{Key: r.key, Revision: v.Version, Value: []byte(v.Data), Tombstone: v.Tombstone}
}

// look reads the register of member i.
func (r *register) look(i int) {
	r.s.do(func() {
		epoch := r.s.members[i].epoch.Load()
		e, err := r.s.members[i].Get(r.s.ctx, r.key)
		ev := ballot.Event{Kind: ballot.Looked, Member: i, Rev: e.Revision}
		if err == nil {
			ev.Seen, err = r.decode(i, e)
		}
		ev.Outcome = store.Classify(err)
		r.answered(ev, epoch, err)
	})
}

// decode returns the content of a register of member i. An envelope of another
// group is passed on to the core together with a cause.
func (r *register) decode(i int, e store.Entry) (ballot.Acceptor, error) {
	a, err := ballot.Decode(e)
	if err != nil {
		return a, fmt.Errorf("member %q: %w", r.s.members[i].name, err)
	}
	return a, nil
}

// ours decodes the content of a register of member i, unless another group wrote
// it.
func (r *register) ours(i int, e store.Entry) (ballot.Acceptor, error) {
	a, err := r.decode(i, e)
	if err == nil {
		err = r.foreign(i, &a)
	}
	return a, err
}

// foreign returns an error if a was written by a group with other members.
func (r *register) foreign(i int, a *ballot.Acceptor) error {
	if a.Set == 0 || a.Set == r.s.group.Set {
		return nil
	}
	return fmt.Errorf("%w: member %q: key %q belongs to a group with other members (set %016x, this group has set %016x): use another key, or the same names",
		store.ErrPermanent, r.s.members[i].name, r.key, a.Set, r.s.group.Set)
}

// write writes the register of a member.
func (r *register) write(a ballot.Action, heals bool) {
	w := store.Write{Key: r.key, Expected: a.Expected}
	w.Value, w.Tombstone = ballot.Encode(&a.Content)
	r.s.do(func() {
		m := r.s.members[a.Member]
		epoch := m.epoch.Load()
		rev, err := m.CompareAndSwap(r.s.ctx, w)
		if err == nil && rev <= w.Expected {
			err = fmt.Errorf("%w: member %q: a write over revision %d has revision %d", store.ErrUnknown, m.name, w.Expected, rev)
		}
		ev := ballot.Event{Kind: ballot.Wrote, Member: a.Member, Outcome: store.Classify(err), Rev: rev}
		if heals && (ev.Outcome == store.Transient || ev.Outcome == store.Permanent) {
			// The member then is one of which nothing is known, and not one
			// without memory, which would cost the next renewal a second round.
			ev.Outcome = store.Unknown
		}
		r.answered(ev, epoch, err)
	})
}

// answered takes in the answer of a member that was asked at an epoch.
func (r *register) answered(ev ballot.Event, epoch uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = r.foreign(ev.Member, &ev.Seen)
		r.known[ev.Member] = knowledge{time.Now(), epoch}
	}
	if ev.Outcome != store.Conflict {
		r.causes[ev.Member] = err
	}
	r.step(ev)
}

// wait tries again after a while, so that proposers that meet let one of them
// go first. r.mu is held.
func (r *register) wait() {
	c, delay := r.call, r.pause(r.waits)
	r.waits++
	time.AfterFunc(delay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.call == c {
			r.step(ballot.Event{Kind: ballot.Retry})
		}
	})
}

// pause returns the delay before an attempt, after so many waits. r.mu is held.
func (r *register) pause(waits int) time.Duration {
	trip, longest := 100*time.Microsecond, r.s.patience()
	if len(r.s.members)-r.view.Call.Failed.Count() < r.s.quorum() {
		// Nobody competes: members are away, and may be back at any time.
		trip, longest = 10*time.Millisecond, min(longest, 250*time.Millisecond)
	}
	if r.view.Call.Loose > 0 {
		// Others may adopt its value and write over it, after which its fate
		// is unknown.
		waits = min(waits, 2)
	}
	var trips []time.Duration
	for _, m := range r.s.members {
		trips = append(trips, m.roundTrip())
	}
	slices.Sort(trips)
	trip = max(trip, trips[r.s.quorum()-1]) // no call waits for the slowest
	return pause(trip, waits, longest, rand.Float64())
}

// pause returns a delay of one to three round trips, doubled with each of the
// waits before. The longest is the patience, of which a random share is taken,
// too: proposers that wait equally long meet again.
func pause(trip time.Duration, waits int, patience time.Duration, random float64) time.Duration {
	longest := min(3*float64(trip)*float64(uint64(1)<<min(waits, 16)), float64(patience))
	return time.Duration((1 + 2*random) / 3 * longest)
}

// patience is the longest delay between two attempts of a call. Hundreds of
// proposers need some hundred round trips, until one of them meets no other.
func (s *Store) patience() time.Duration {
	d := 2 * time.Second
	if ttl := time.Duration(s.ttl.Load()); ttl > 0 {
		d = min(d, ttl/4)
	}
	return d
}
