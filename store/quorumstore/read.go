package quorumstore

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/quorumstore/internal/ballot"
)

// stuck is how long the members show the same states without a majority for
// one of them until a reader chooses one itself: its writer has died.
const stuck = time.Second

// Get implements [store.Store]. It shows the newest state that a majority
// agrees on, and never an older one than this Store showed before. It writes
// only if the members have not agreed for a second and nothing moves, because
// a writer died half-way and this Store has nothing older to show.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := s.admit(ctx, key); err != nil {
		return store.Entry{}, err
	}
	r := s.register(key)
	var last [ballot.MaxMembers]ballot.Ballot
	since := time.Now()
	for n := 1; ; n++ {
		seen, err := r.read(ctx)
		if err != nil {
			return store.Entry{}, err
		}
		r.mu.Lock()
		e, older := r.entry(), r.view.Shown.Version != 0
		r.mu.Unlock()
		if seen.agreed || older && n > 3 {
			return e, nil
		}
		for i, b := range seen.accepted {
			if seen.answered.Has(i) && b != last[i] {
				last[i], since = b, time.Now()
			}
		}
		if time.Since(since) > stuck {
			if err := s.settle(ctx, key); err != nil && ctx.Err() == nil && store.Classify(err) == store.Permanent {
				return store.Entry{}, err
			}
			since = time.Now()
		}
		if !backoff.Sleep(ctx, min(time.Duration(n)*time.Millisecond, 50*time.Millisecond)) {
			return store.Entry{}, fmt.Errorf("%w: read key %q: no state has a majority of the members: %w", store.ErrTransient, key, context.Cause(ctx))
		}
		if s.ctx.Err() != nil {
			return store.Entry{}, store.ErrClosed
		}
	}
}

// A sight is what the members showed to one read.
type sight struct {
	answered ballot.Mask
	accepted [ballot.MaxMembers]ballot.Ballot // at which members accepted what they contain
	agreed   bool                             // a majority shows one state, or that there is none
}

// read asks all members, and takes in what they show until a majority agrees.
func (r *register) read(ctx context.Context) (sight, error) {
	type answer struct {
		member int
		before uint64 // what was known when the read began
		epoch  uint64
		entry  store.Entry
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(r.s.members))
	r.mu.Lock()
	for i, m := range r.s.members {
		before, epoch := r.view.Members[i].Rev, m.epoch.Load()
		if !r.s.do(func() {
			e, err := m.Get(ctx, r.key)
			answers <- answer{i, before, epoch, e, err}
		}) {
			r.mu.Unlock()
			return sight{}, store.ErrClosed
		}
	}
	r.mu.Unlock()

	var s sight
	var causes [ballot.MaxMembers]error
	var seen [ballot.MaxMembers]ballot.Acceptor
	denied := 0
	for range r.s.members {
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			return s, fmt.Errorf("%w: read key %q: %w", store.ErrTransient, r.key, context.Cause(ctx))
		case <-r.s.ctx.Done():
			return s, store.ErrClosed
		}
		i := a.member
		if a.err == nil {
			seen[i], a.err = r.ours(i, a.entry)
		}
		if a.err != nil {
			seen[i], causes[i] = ballot.Acceptor{}, a.err
			if store.Classify(a.err) == store.Permanent {
				denied++
			}
			continue
		}
		s.answered |= 1 << i
		s.accepted[i] = seen[i].Ballot
		r.saw(i, a.before, a.epoch, a.entry.Revision, &seen[i])
		if s.agreed = r.agreed(seen[:len(r.s.members)], s.answered); s.agreed {
			return s, nil
		}
	}
	if s.answered.Count() >= r.s.quorum() {
		return s, nil
	}
	return s, r.unread(ctx, denied, causes[:])
}

// agreed reports whether a majority shows one state, which it takes in, or that
// the key was never written. A member without memory is no witness of that
// beside one that remembers.
func (r *register) agreed(seen []ballot.Acceptor, answered ballot.Mask) bool {
	if v, ok := r.s.group.Show(seen); ok {
		r.show(&v)
		return true
	}
	bare, unwritten := 0, 0
	for i := range seen {
		switch {
		case !answered.Has(i):
		case !seen[i].Accepted():
			bare++
		case seen[i].Version == 0:
			unwritten++
		}
	}
	return max(bare, unwritten) >= r.s.quorum()
}

// unread returns the error of a read that too few members answered.
func (r *register) unread(ctx context.Context, denied int, causes []error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: read key %q: %w", store.ErrTransient, r.key, context.Cause(ctx))
	case denied >= r.s.quorum():
		return refusal(store.ErrPermanent, r.key, causes)
	default:
		return refusal(store.ErrTransient, r.key, causes)
	}
}

// saw takes in a read of member i, which began at an epoch, when before was
// known. A lower revision counts only if nothing newer became known in the
// meantime.
func (r *register) saw(i int, before, epoch, rev uint64, a *ballot.Acceptor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := &r.view.Members[i]; m.Doing == ballot.Idle && (rev >= m.Rev || m.Rev == before) {
		r.known[i] = knowledge{time.Now(), epoch}
		r.step(ballot.Event{Kind: ballot.Seen, Member: i, Rev: rev, Seen: *a})
	}
}

// show takes in that v is chosen.
func (r *register) show(v *ballot.Value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step(ballot.Event{Kind: ballot.Chosen, Seen: ballot.Acceptor{Value: *v}})
}
