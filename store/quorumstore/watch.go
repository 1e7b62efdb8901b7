package quorumstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
	"github.com/seed-ff2cb582/leader/store/quorumstore/internal/ballot"
)

// Watch implements [store.Watcher]. It merges the watches of the members, and
// delivers only what a majority of them agrees on.
func (s *Store) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	return s.feed.Watch(ctx, keys, deliver)
}

// WatchPattern implements [store.PatternWatcher]. More than half of the members
// have to be pattern watchers.
func (s *Store) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	return s.feed.WatchPattern(ctx, pattern, deliver, present)
}

// A source is the Store as its feed sees it.
type source struct{ *Store }

var _ feed.Follower = source{}

// Read implements [feed.Source]. It reads as Get does.
func (s source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	if len(keys) == 0 {
		return nil, s.connected()
	}
	var mu sync.Mutex
	var entries []store.Entry
	var failure error
	var all sync.WaitGroup
	for _, key := range keys {
		all.Go(func() {
			e, err := s.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = err
				return
			}
			entries = append(entries, e)
		})
	}
	all.Wait()
	return entries, failure
}

// connected returns an error unless more than half of the members are.
func (s *Store) connected() error {
	switch s.ConnState() {
	case store.Connected:
		return nil
	case store.Closed:
		return store.ErrClosed
	default:
		return fmt.Errorf("%w: fewer than %d of %d members are connected", store.ErrTransient, s.quorum(), len(s.members))
	}
}

// List implements [feed.Source]: a chosen value is in a majority of the
// members, so any majority of their lists contains its key.
func (s source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		member  int
		entries map[string]store.Entry
		err     error
	}
	answers := make(chan answer, len(s.members))
	for i, m := range s.members {
		if !s.do(func() {
			entries, err := m.list(ctx, pattern)
			answers <- answer{i, entries, err}
		}) {
			return nil, store.ErrClosed
		}
	}
	var causes [ballot.MaxMembers]error
	var lists [ballot.MaxMembers]map[string]store.Entry
	listed, denied := 0, 0
	for range s.members {
		a := <-answers
		if a.err != nil {
			causes[a.member] = a.err
			if store.Classify(a.err) == store.Permanent {
				denied++
			}
			continue
		}
		lists[a.member] = a.entries
		listed++
		if listed == s.quorum() {
			return s.merge(ctx, pattern, lists[:len(s.members)])
		}
	}
	if denied >= s.quorum() {
		return nil, refusal(store.ErrPermanent, pattern, causes[:])
	}
	return nil, refusal(store.ErrTransient, pattern, causes[:])
}

// merge takes in the lists of a majority, and returns the states of all keys
// that match the pattern. It reads those that have a value and of which no state
// was ever shown. Lists of what other groups wrote alone are an error.
func (s source) merge(ctx context.Context, pattern string, lists []map[string]store.Entry) (entries []store.Entry, err error) {
	held := map[string]bool{}
	var foreign error
	for i, list := range lists {
		for key, e := range list {
			r := s.register(key)
			a, err := r.ours(i, e)
			if err != nil {
				foreign = err
				continue
			}
			r.heard(i, e.Revision, &a)
			held[key] = held[key] || a.Version != 0
		}
	}
	var undecided []string
	for _, r := range s.known(pattern) {
		if e := r.shown(); e.Revision != 0 {
			entries = append(entries, e)
		} else if held[r.key] {
			undecided = append(undecided, r.key)
		}
	}
	if len(entries)+len(undecided) == 0 && foreign != nil {
		return nil, foreign
	}
	if len(undecided) == 0 {
		return entries, nil
	}
	more, err := s.Read(ctx, undecided)
	if store.Classify(err) == store.Permanent {
		err = nil // such as the right to end the call of a writer that died
	}
	for _, e := range more {
		if e.Revision != 0 {
			entries = append(entries, e)
		}
	}
	return entries, err
}

// list returns the entries of all keys of the member that match the pattern.
func (m *member) list(ctx context.Context, pattern string) (map[string]store.Entry, error) {
	w, ok := m.Store.(store.PatternWatcher)
	if !ok {
		return nil, fmt.Errorf("%w: member %q cannot list keys", store.ErrPermanent, m.name)
	}
	var mu sync.Mutex
	entries := map[string]store.Entry{}
	err := m.ask(ctx, func(ctx context.Context) error {
		complete := make(chan error, 1)
		stop, err := w.WatchPattern(ctx, pattern, func(e store.Entry) {
			mu.Lock()
			defer mu.Unlock()
			entries[e.Key] = e
		}, func(err error) {
			select {
			case complete <- err:
			default: // of a later time
			}
		})
		if err != nil {
			return err
		}
		defer stop()
		select {
		case err := <-complete:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: list %q: %w", store.ErrTransient, pattern, context.Cause(ctx))
		}
	})
	mu.Lock()
	defer mu.Unlock()
	return entries, err
}

// Follow implements [feed.Follower]. The news begin when more than half of the
// members report their changes; the others are read once per heartbeat.
func (s source) Follow(ctx context.Context, news *feed.News) error {
	watching := 0
	for _, m := range s.members {
		if _, ok := m.Store.(store.Watcher); ok {
			watching++
		}
	}
	if watching < s.quorum() {
		return fmt.Errorf("%w: %d of %d members report changes", store.ErrPermanent, watching, len(s.members))
	}
	if err := s.connected(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.OnConnState(func(store.ConnState) {
		if err := s.connected(); err != nil {
			cancel(err)
		}
	})()
	s.news.Store(news)
	defer s.news.Store(nil)

	complete := make(chan struct{}, len(s.members))
	var all sync.WaitGroup
	defer all.Wait()
	for _, m := range s.members {
		all.Go(func() { s.tend(ctx, m, news, sync.OnceFunc(func() { complete <- struct{}{} })) })
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for begun := 0; ; {
		select {
		case <-complete:
			begun++
			if begun == s.quorum() {
				news.Begun()
			}
		case <-look.C:
			keys, _, _ := news.Wanted()
			s.heal(keys)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrTransient, context.Cause(ctx))
		}
	}
}

// announce passes on that the key's shown state is e.
func (s *Store) announce(e store.Entry) {
	if news := s.news.Load(); news != nil {
		news.Entry(e)
	}
}

// A wing is one watch of a member.
type wing struct {
	keys    []string
	pattern string
	stop    func()
}

// tend watches at one member what is wanted, until ctx is done. It reads the
// keys that it cannot watch. It calls complete when everything is watched.
func (s *Store) tend(ctx context.Context, m *member, news *feed.News, complete func()) {
	var wings []wing
	defer func() {
		for _, w := range wings {
			w.stop()
		}
	}()
	retry := backoff.Policy{Initial: 20 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.25}
	for failures := 0; ctx.Err() == nil; {
		keys, patterns, others := news.Wanted()
		wings = slices.DeleteFunc(wings, func(w wing) bool {
			wanted := slices.Contains(patterns, w.pattern) || slices.ContainsFunc(w.keys, func(key string) bool { return slices.Contains(keys, key) })
			if !wanted {
				w.stop()
			}
			return !wanted
		})
		for _, w := range wings {
			keys = slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(w.keys, key) })
			patterns = slices.DeleteFunc(patterns, func(p string) bool { return p == w.pattern })
		}
		more, err := s.watch(ctx, m, keys, patterns)
		wings = append(wings, more...)
		var again <-chan time.Time
		if err == nil {
			failures = 0
			complete()
		} else {
			failures++
			s.poll(ctx, m, keys)
			again = time.After(min(retry.After(failures), s.heartbeat()))
		}
		select {
		case <-others:
		case <-again:
		case <-ctx.Done():
		}
	}
}

// watch watches the keys and patterns at one member. With an error it returns
// the watches that it could start.
func (s *Store) watch(ctx context.Context, m *member, keys, patterns []string) (wings []wing, err error) {
	start := func(w wing, begin func(context.Context) (func(), error)) error {
		ctx, cancel := context.WithCancel(ctx)
		late := time.AfterFunc(m.timeout, cancel)
		stop, err := begin(ctx)
		if err == nil && late.Stop() {
			w.stop = func() { stop(); cancel() }
			wings = append(wings, w)
			return nil
		}
		if err == nil {
			stop()
			err = fmt.Errorf("%w: member %q: a watch did not begin within %v", store.ErrTransient, m.name, m.timeout)
		}
		cancel()
		return err
	}
	deliver := func(e store.Entry) { s.report(m, e) }
	if len(keys) > 0 {
		w, ok := m.Store.(store.Watcher)
		if !ok {
			return nil, fmt.Errorf("%w: member %q does not report changes", store.ErrPermanent, m.name)
		}
		if err := start(wing{keys: keys}, func(ctx context.Context) (func(), error) { return w.Watch(ctx, keys, deliver) }); err != nil {
			return nil, err
		}
	}
	for _, pattern := range patterns {
		w, ok := m.Store.(store.PatternWatcher)
		if !ok {
			return wings, fmt.Errorf("%w: member %q does not report patterns", store.ErrPermanent, m.name)
		}
		if err := start(wing{pattern: pattern}, func(ctx context.Context) (func(), error) {
			return w.WatchPattern(ctx, pattern, deliver, func(error) {})
		}); err != nil {
			return wings, err
		}
	}
	return wings, nil
}

// report takes in what a member reported, if it belongs to this group.
func (s *Store) report(m *member, e store.Entry) {
	r := s.register(e.Key)
	if a, err := r.ours(m.number, e); err == nil { // a read or a write reports it
		r.heard(m.number, e.Revision, &a)
	}
}

// poll reads the keys at one member.
func (s *Store) poll(ctx context.Context, m *member, keys []string) {
	for _, key := range keys {
		if e, err := m.Get(ctx, key); err == nil {
			s.report(m, e)
		}
	}
}

// heartbeat returns how often a member is read that does not report changes.
func (s *Store) heartbeat() time.Duration {
	if d := time.Duration(s.beat.Load()); d > 0 {
		return min(d, time.Second)
	}
	return time.Second
}

// heard takes in that member i reported a content, perhaps late. A revision that
// is lower than an earlier report is not late: the member lost its state, or
// another server of it lags. A read finds out which.
func (r *register) heard(i int, rev uint64, a *ballot.Acceptor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, before := &r.view.Members[i], r.reports[i]
	known := m.Rev
	r.reports[i] = report{rev, true}
	switch {
	case rev >= known && !r.doubted(i):
		r.known[i] = knowledge{time.Now(), r.s.members[i].epoch.Load()}
		r.step(ballot.Event{Kind: ballot.Seen, Member: i, Rev: rev, Seen: *a})
	case rev >= known, !before.any, rev < before.rev: // the report may be older than the doubts
		m.Fresh, m.Suspect = false, true
		r.s.do(func() { r.reread(i, known) })
	}
}

// A report is the last revision that a member reported of a key.
type report struct {
	rev uint64
	any bool
}

// reread reads the register of member i, at whose revision before a report
// raised doubts.
func (r *register) reread(i int, before uint64) {
	m := r.s.members[i]
	epoch := m.epoch.Load()
	e, err := m.Get(r.s.ctx, r.key)
	if err != nil {
		m.epoch.Add(1) // the doubts remain
		return
	}
	if a, err := r.ours(i, e); err == nil {
		r.saw(i, before, epoch, e.Revision, &a)
	}
}

// shown returns the newest state that was shown.
func (r *register) shown() store.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entry()
}

// idle is how long a watched key shows a member without memory, or a newer
// value without a majority, and no new version, before this process has the
// present value chosen again. The key's holder does so with its next write.
const idle = 10 * time.Second

// heal has the present value chosen again of keys that need it for long.
func (s *Store) heal(keys []string) {
	for _, key := range keys {
		r := s.register(key)
		r.mu.Lock()
		due := !r.unsettled.IsZero() && time.Since(r.unsettled) > idle && r.call == nil &&
			r.answering(r.s.group.Undecided(&r.view)|r.s.group.Bare(&r.view))
		if due {
			r.unsettled = time.Now().Add(rand.N(idle << min(r.vain, 6)))
			r.vain++
		}
		r.mu.Unlock()
		if due {
			s.do(func() {
				ctx, cancel := context.WithTimeout(s.ctx, s.opts.Timeout)
				defer cancel()
				if err := s.settle(ctx, key); err != nil {
					s.opts.Logger.Warn("members cannot be brought together", "key", key, "err", err)
				}
			})
		}
	}
}

// answering reports whether any of the members answers.
func (r *register) answering(members ballot.Mask) bool {
	return slices.ContainsFunc(r.s.members, func(m *member) bool { return members.Has(m.number) && m.answers() })
}

// notice notes since when a member shows that it has no memory of a value that
// others show, or a newer value than a majority, and nothing moves. r.mu is
// held.
func (r *register) notice(moved bool) {
	switch {
	case r.s.group.Bare(&r.view)|r.s.group.Undecided(&r.view) == 0:
		r.unsettled, r.vain = time.Time{}, 0
	case moved || r.unsettled.IsZero():
		r.unsettled = time.Now().Add(rand.N(idle / 2)) // not all watchers at once
	}
}
