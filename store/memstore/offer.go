package memstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-ff2cb582/leader/store"
)

// Offer implements [store.Offerer]. Those who take offers for the key get them in turn. An offer that is still
// waiting for a slow taker gives way to the next one.
func (s *Store) Offer(ctx context.Context, key string, offer []byte) error {
	if err := admit(ctx, key); err != nil {
		return err
	}
	if len(offer) > store.MaxValue {
		return fmt.Errorf("%w: the offer has %d bytes, more than %d", store.ErrInvalid, len(offer), store.MaxValue)
	}
	if !s.hand(key, bytes.Clone(offer)) {
		return fmt.Errorf("%w: nobody takes offers for key %q", store.ErrTransient, key)
	}
	<-ctx.Done()
	return fmt.Errorf("%w: key %q was offered: %w", store.ErrUnknown, key, context.Cause(ctx))
}

// TakeOffers implements [store.Offerer]. deliver runs as that of [Store.Watch] does.
func (s *Store) TakeOffers(key string, deliver func(offer []byte)) (stop func(), err error) {
	if !store.ValidKey(key) {
		return nil, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	w := s.newWatch(func(e store.Entry) { deliver(e.Value) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takers[key] = append(s.takers[key], w)
	end := sync.OnceFunc(func() {
		w.close()
		s.dismiss(key, w)
	})
	return func() {
		end()
		w.wait()
	}, nil
}

// hand gives the offer to the taker whose turn it is, and reports whether there is one.
func (s *Store) hand(key string, offer []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	takers := s.takers[key]
	if len(takers) == 0 {
		return false
	}
	next := takers[0]
	copy(takers, takers[1:])
	takers[len(takers)-1] = next
	next.push(store.Entry{Key: key, Value: offer})
	return true
}

// dismiss removes w from those who take offers for the key.
func (s *Store) dismiss(key string, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takers[key] = slices.DeleteFunc(s.takers[key], func(v *watch) bool { return v == w })
	if len(s.takers[key]) == 0 {
		delete(s.takers, key)
	}
}
