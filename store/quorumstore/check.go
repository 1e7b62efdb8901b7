package quorumstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
)

// Check implements [store.Checker]. It refuses members that may forget or
// expire what they acknowledged, and members that their own Check refuses, for
// the user's rights or for ignored conditions of writes. It gives the registers
// of req.Key and req.Reads their memory, for which all members have to answer.
// It does not wait for a member that is away: the registers then get their
// memory at the first write.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	if err := s.admit(ctx); err != nil {
		return store.Report{}, err
	}
	shorten(&s.ttl, req.TTL)
	shorten(&s.beat, req.HeartbeatInterval)
	keys := req.Reads
	if req.Key != "" {
		keys = append([]string{req.Key}, keys...)
	}
	s.feed.Pace(req.HeartbeatInterval, keys...)
	var all store.Report
	aged := true
	var answered []*member
	for _, m := range s.members {
		c, ok := m.Store.(store.Checker)
		if !ok {
			aged, answered = false, append(answered, m)
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, m.timeout)
		r, err := c.Check(bounded, req)
		cancel()
		switch {
		case store.Classify(err) == store.Permanent:
			return store.Report{}, fmt.Errorf("member %q: %w", m.name, err)
		case err != nil:
			aged = false
			all.Warnings = append(all.Warnings, fmt.Sprintf("Member %q does not answer, so nothing is known of it: %v.", m.name, err))
			continue
		case r.Forgetful, r.Expires:
			return store.Report{}, fmt.Errorf("%w: member %q may lose what it acknowledged (forgetful: %v, expires: %v): use a store that keeps its records",
				store.ErrPermanent, m.name, r.Forgetful, r.Expires)
		}
		answered = append(answered, m)
		aged = aged && r.Age > 0
		if r.Age > 0 && (all.Age == 0 || r.Age < all.Age) {
			all.Age = r.Age
		}
		for _, w := range r.Warnings {
			all.Warnings = append(all.Warnings, fmt.Sprintf("Member %q: %s", m.name, w))
		}
	}
	if len(answered) < s.quorum() {
		return store.Report{}, fmt.Errorf("%w: %d of %d members answer", store.ErrTransient, len(answered), len(s.members))
	}
	if !aged {
		all.Age = 0
	}
	if req.Key != "" {
		if err := s.distinct(ctx, answered, &all); err != nil {
			return all, err
		}
	}
	if len(answered) == len(s.members) {
		if err := s.prepare(ctx, keys, &all); err != nil {
			return all, err
		}
	}
	return all, nil
}

// shorten makes d the time in least if it is shorter, or the first.
func shorten(least *atomic.Int64, d time.Duration) {
	for old := least.Load(); d > 0 && (old == 0 || int64(d) < old); old = least.Load() {
		if least.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// checkKey contains the name of the member, in each of them. Its content is none
// of this package's envelopes, so the Store takes it for nothing.
const checkKey = "leader-quorum-check"

// mark is the content of checkKey in m.
func (s *Store) mark(m *member) string {
	return fmt.Sprintf("leader quorum %016x, member %q", s.group.Set, m.name)
}

// distinct refuses two members that are one store, which would vote twice: the
// store is marked as one of them.
func (s *Store) distinct(ctx context.Context, answered []*member, all *store.Report) error {
	for _, m := range answered {
		bounded, cancel := context.WithTimeout(ctx, m.timeout)
		e, err := m.Store.Get(bounded, checkKey)
		was := string(e.Value)
		if err == nil && was != s.mark(m) {
			if k := slices.IndexFunc(s.members, func(o *member) bool { return was == s.mark(o) }); k >= 0 {
				cancel()
				return fmt.Errorf("%w: the store of member %q contains, in the key %q, the mark of member %q: give each member a server that shares nothing with the others, under one name for ever",
					store.ErrPermanent, m.name, checkKey, s.members[k].name)
			}
			_, err = m.Store.CompareAndSwap(bounded, store.Write{Key: checkKey, Expected: e.Revision, Value: []byte(s.mark(m))})
		}
		cancel()
		if store.Classify(err) == store.Permanent {
			all.Warnings = append(all.Warnings, fmt.Sprintf("Whether two members are one store could not be found out, since this user may not use the key %q: %v.", checkKey, err))
			return nil
		}
	}
	return nil
}

// foundingWindow bounds the first delay before a process gives keys their memory.
const foundingWindow = 100 * time.Millisecond

// prepare gives the members their memory of the keys. The candidates of a new
// group may start together by the hundreds, and would keep each other from it.
// So each looks, waits, few of many for a short time, and looks again. It acts
// only if nothing has moved in between; else others are acting, and it waits for
// longer.
func (s *Store) prepare(ctx context.Context, keys []string, all *store.Report) error {
	var seen []uint64
	began := time.Now()
	for window := foundingWindow; ; window *= 2 {
		bare, now, err := s.bare(ctx, keys)
		if err != nil || len(bare) == 0 {
			return err
		}
		keys = bare
		if slices.Equal(seen, now) || time.Since(began) > s.opts.Timeout {
			break
		}
		seen = now
		backoff.Sleep(ctx, backoff.Skewed(rand.Float64(), window))
	}
	for _, key := range keys {
		bounded, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		err := s.settle(bounded, key)
		cancel()
		if err == nil {
			continue
		}
		// Another process may have prepared it meanwhile.
		if left, _, unread := s.bare(ctx, []string{key}); unread != nil || len(left) > 0 {
			all.Warnings = append(all.Warnings, fmt.Sprintf("Key %q cannot be written while a member is away, since the members could not be prepared for it: %v.", key, err))
		}
	}
	return nil
}

// bare returns the keys that nobody wrote, and of which a member has no memory
// or does not answer, with the revisions of their registers.
func (s *Store) bare(ctx context.Context, keys []string) (bare []string, revisions []uint64, err error) {
	for _, key := range keys {
		e, err := s.Get(ctx, key)
		if err != nil {
			return nil, nil, err
		}
		if e.Revision != 0 {
			continue
		}
		states, err := s.Inspect(ctx, key)
		if err != nil {
			return nil, nil, err
		}
		if !slices.ContainsFunc(states, func(m MemberState) bool { return !m.Memory }) {
			continue
		}
		bare = append(bare, key)
		for _, m := range states {
			revisions = append(revisions, m.Revision)
		}
	}
	return bare, revisions, nil
}

// ConnState implements [store.ConnReporter]: the store is connected while more
// than half of its members are, and closed after Close.
func (s *Store) ConnState() store.ConnState {
	if s.ctx.Err() != nil {
		return store.Closed
	}
	up := 0
	for _, m := range s.members {
		if c, ok := m.Store.(store.ConnReporter); !ok || c.ConnState() == store.Connected {
			up++
		}
	}
	if up >= s.quorum() {
		return store.Connected
	}
	return store.Disconnected
}

// OnConnState implements [store.ConnReporter].
func (s *Store) OnConnState(f func(store.ConnState)) (stop func()) {
	var mu sync.Mutex
	var stopped atomic.Bool
	last := s.ConnState()
	moved := func(store.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if now := s.ConnState(); !stopped.Load() && now != last {
			last = now
			f(now)
		}
	}
	var stops []func()
	for _, m := range s.members {
		if c, ok := m.Store.(store.ConnReporter); ok {
			stops = append(stops, c.OnConnState(moved))
		}
	}
	forget := context.AfterFunc(s.ctx, func() { moved(store.Closed) })
	return func() {
		stopped.Store(true)
		forget()
		for _, stop := range stops {
			stop()
		}
	}
}
