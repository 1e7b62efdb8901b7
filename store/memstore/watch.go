package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed-ff2cb582/leader/internal/delivery"
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

// complete marks the end of the current state in a queue. No key is empty.
const complete = ""

// until ends w with ctx or by the function that it returns.
func (s *Store) until(ctx context.Context, w *watch) (stop func()) {
	detach := sync.OnceFunc(func() {
		w.Close()
		s.detach(w)
	})
	forget := context.AfterFunc(ctx, func() { shield.Call(detach, s.panicked) })
	return func() {
		forget()
		detach()
		w.Wait()
	}
}

// attachWide lets w hear of the keys that match the pattern from now on.
func (s *Store) attachWide(w *watch, pattern string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wide[w] = pattern
	for key, e := range s.entries {
		if store.MatchPattern(pattern, key) {
			w.Push(e)
		}
	}
	w.Push(store.Entry{Key: complete})
}

// attach lets w hear of the keys from now on, beginning with their current
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
		w.Push(s.state(key))
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

// A watch is one call of Watch or WatchPattern, or one who takes messages.
type watch struct {
	*delivery.Queue
	keys []string // guarded by Store.mu; none of a pattern's
}

func (s *Store) newWatch(deliver func(store.Entry)) *watch {
	return &watch{Queue: delivery.New(deliver, s.panicked)}
}
