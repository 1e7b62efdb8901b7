package memstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-ff2cb582/leader/store"
)

// Offer implements [store.Offerer]. Those who take offers for the key get them
// in turn. An offer that is still waiting for a slow taker gives way to the
// next one.
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

// TakeOffers implements [store.Offerer]. deliver runs as that of [Store.Watch]
// does.
func (s *Store) TakeOffers(key string, deliver func(offer []byte)) (stop func(), err error) {
	return s.take(s.takers, key, deliver)
}

// Broadcast implements [store.Broadcaster].
func (s *Store) Broadcast(ctx context.Context, key string, message []byte) error {
	if err := admit(ctx, key); err != nil {
		return err
	}
	if len(message) > store.MaxValue {
		return fmt.Errorf("%w: the message has %d bytes, more than %d", store.ErrInvalid, len(message), store.MaxValue)
	}
	message = bytes.Clone(message)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.hearers[key] {
		w.Push(store.Entry{Key: key, Value: message})
	}
	return nil
}

// Listen implements [store.Broadcaster]. deliver runs as that of [Store.Watch]
// does. A message that is still waiting for a slow listener gives way to the
// next one.
func (s *Store) Listen(key string, most int, deliver func(message []byte)) (stop func(), err error) {
	return s.take(s.hearers, key, func(message []byte) { // never twice at once
		if most > 0 {
			most--
			deliver(message)
		}
	})
}

// take registers one who is delivered to, among those for the key.
func (s *Store) take(among map[string][]*watch, key string, deliver func([]byte)) (stop func(), err error) {
	if !store.ValidKey(key) {
		return nil, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	w := s.newWatch(func(e store.Entry) { deliver(e.Value) })
	s.mu.Lock()
	defer s.mu.Unlock()
	among[key] = append(among[key], w)
	end := sync.OnceFunc(func() {
		w.Close()
		s.dismiss(among, key, w)
	})
	return func() {
		end()
		w.Wait()
	}, nil
}

// hand gives the offer to the taker whose turn it is, and reports whether there
// is one.
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
	next.Push(store.Entry{Key: key, Value: offer})
	return true
}

// dismiss removes w from those for the key.
func (s *Store) dismiss(among map[string][]*watch, key string, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	among[key] = slices.DeleteFunc(among[key], func(v *watch) bool { return v == w })
	if len(among[key]) == 0 {
		delete(among, key)
	}
}
