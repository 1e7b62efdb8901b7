package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed-ff2cb582/leader/internal/goid"
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
	w := newWatch(deliver)
	s.attach(w, keys)
	detach := sync.OnceFunc(func() {
		w.close()
		s.detach(w)
	})
	forget := context.AfterFunc(ctx, detach)
	return func() {
		forget()
		detach()
		w.wait()
	}, nil
}

// attach lets w hear of the keys from now on, beginning with their present state.
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
		w.push(s.state(key))
	}
}

// detach removes w from the keys that it watches.
func (s *Store) detach(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range w.keys() {
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

	mu     sync.Mutex
	ended  sync.Cond              // signalled when runner becomes 0
	latest map[string]store.Entry // of every key that is watched
	queue  []string               // keys whose latest state waits, each at most once
	queued map[string]bool
	runner uint64 // the delivering goroutine, or 0
	closed bool
}

func newWatch(deliver func(store.Entry)) *watch {
	w := &watch{deliver: deliver, latest: make(map[string]store.Entry), queued: make(map[string]bool)}
	w.ended.L = &w.mu
	return w
}

// push makes e the next state to deliver of its key. It replaces one that still
// waits, which bounds the queue by the number of keys however slow deliver is.
func (w *watch) push(e store.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest[e.Key] = e
	if w.closed || w.queued[e.Key] {
		return
	}
	w.queued[e.Key] = true
	w.queue = append(w.queue, e.Key)
	if w.runner == 0 {
		w.runner = starting
		go w.run()
	}
}

// run delivers until nothing waits.
func (w *watch) run() {
	me := goid.Current()
	for {
		e, ok := w.next(me)
		if !ok {
			return
		}
		w.deliver(e)
	}
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
	delete(w.queued, key)
	return w.latest[key], true
}

// close lets no further delivery begin.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// wait returns when deliver does not run, or at once within deliver itself, where
// waiting would never end.
func (w *watch) wait() {
	me := goid.Current()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.runner != 0 && w.runner != me {
		w.ended.Wait()
	}
}

// keys returns the keys that are watched.
func (w *watch) keys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := make([]string, 0, len(w.latest))
	for key := range w.latest {
		keys = append(keys, key)
	}
	return keys
}

// starting stands for a runner that has not told its number yet. No goroutine has it.
const starting = ^uint64(0)
