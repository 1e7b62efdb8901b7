package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// Watch implements [store.Watcher]. deliver runs in a goroutine that lives only
// while there is something to deliver; it may call any method of the Store.
func (s *Store) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	for _, key := range keys {
		if !store.ValidKey(key) {
			return nil, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: nothing is watched: %w", store.ErrTransient, err)
	}
	w := s.newWatch(deliver)
	s.attach(w, keys)
	return s.until(ctx, w), nil
}

// WatchPattern implements [store.PatternWatcher]. deliver and present run as
// deliver of [Store.Watch] does; present is called once, since nothing
// interrupts.
func (s *Store) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	if !store.ValidPattern(pattern) {
		return nil, fmt.Errorf("%w: pattern %q", store.ErrInvalid, pattern)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: nothing is watched: %w", store.ErrTransient, err)
	}
	w := s.newWatch(func(e store.Entry) {
		if e.Key == complete {
			present(nil)
			return
		}
		deliver(e)
	})
	s.attachWide(w, pattern)
	return s.until(ctx, w), nil
}

// complete stands in a queue for the end of the present state. No key is empty.
const complete = ""

// until ends w with ctx or by the function that it returns.
func (s *Store) until(ctx context.Context, w *watch) (stop func()) {
	detach := sync.OnceFunc(func() {
		w.close()
		s.detach(w)
	})
	forget := context.AfterFunc(ctx, func() { shield.Call(detach, s.panicked) })
	return func() {
		forget()
		detach()
		w.wait()
	}
}

// attachWide lets w hear of the keys that match the pattern from now on.
func (s *Store) attachWide(w *watch, pattern string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wide[w] = pattern
	for key, e := range s.entries {
		if store.MatchPattern(pattern, key) {
			w.push(e)
		}
	}
	w.push(store.Entry{Key: complete})
}

// attach lets w hear of the keys from now on, beginning with their present
// state.
func (s *Store) attach(w *watch, keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if s.watches[key] == nil {
			s.watches[key] = make(map[*watch]struct{})
		}
		if _, twice := s.watches[key][w]; twice {
			continue
		}
		s.watches[key][w] = struct{}{}
		w.keys = append(w.keys, key)
		w.push(s.state(key))
	}
}

// detach removes w from the keys that it watches.
func (s *Store) detach(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wide, w)
	for _, key := range w.keys {
		delete(s.watches[key], w)
		if len(s.watches[key]) == 0 {
			delete(s.watches, key)
		}
	}
}

// A watch is one call of Watch: the states that wait for delivery, and at most
// one goroutine that delivers them.
type watch struct {
	deliver func(store.Entry)
	report  func(value any, stack []byte) // of a panic
	keys    []string                      // guarded by Store.mu; none of a pattern's

	mu     sync.Mutex
	ended  sync.Cond              // signalled when runner becomes 0
	latest map[string]store.Entry // of every key whose state waits
	queue  []string               // these keys, each once, those that wait longest first
	runner uint64                 // the delivering goroutine, or 0
	closed bool
}

func (s *Store) newWatch(deliver func(store.Entry)) *watch {
	w := &watch{deliver: deliver, report: s.panicked, latest: make(map[string]store.Entry)}
	w.ended.L = &w.mu
	return w
}

// push makes e the next state to deliver of its key. It replaces one that still
// waits, which bounds the queue by the number of keys however slow deliver is.
func (w *watch) push(e store.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	_, waits := w.latest[e.Key]
	w.latest[e.Key] = e
	if waits {
		return
	}
	w.queue = append(w.queue, e.Key)
	if w.runner == 0 {
		w.runner = starting
		go w.run()
	}
}

// run delivers until nothing waits. A panic of deliver is its owner's to see
// to, and ends neither the program nor the watch: what comes next is delivered.
func (w *watch) run() {
	ended := false
	defer func() {
		if !ended { // runtime.Goexit in deliver takes this goroutine along
			go w.run()
		}
	}()
	me := goid.Current()
	for e, ok := w.next(me); ok; e, ok = w.next(me) {
		w.hand(e)
	}
	ended = true
}

// hand calls deliver, once more if code of ours failed before it was called.
func (w *watch) hand(e store.Entry) {
	called := false
	report := func(value any, stack []byte) { w.report(value, stack) }
	if shield.Call(func() { faults.Point("memstore"); called = true; w.deliver(e) }, report) || called {
		return
	}
	shield.Call(func() { w.deliver(e) }, report)
}

// next takes the state that waits longest, or ends the runner.
func (w *watch) next(runner uint64) (e store.Entry, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.queue) == 0 {
		w.runner = 0
		w.ended.Broadcast()
		return e, false
	}
	w.runner = runner
	key := w.queue[0]
	w.queue = w.queue[1:]
	e = w.latest[key]
	delete(w.latest, key)
	return e, true
}

// close lets no further delivery begin.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// wait returns when deliver does not run, or at once within deliver itself,
// where waiting would never end.
func (w *watch) wait() {
	me := goid.Current()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.runner != 0 && w.runner != me {
		w.ended.Wait()
	}
}

// starting stands for a runner that has not told its number yet. No goroutine
// has it.
const starting = ^uint64(0)
