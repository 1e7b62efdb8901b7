package natsstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
)

// offerQueue is the queue group of those who take offers: the servers give each
// offer to one of them.
const offerQueue = "leader"

// A taker is one registration of TakeOffers or Listen. The hub's goroutine
// delivers to it.
type taker struct {
	deliver func([]byte)
	sub     *nats.Subscription
	most    int // messages to be delivered; 0 is no bound
	heard   int // messages so far
	stopped bool
}

func (s *Store) offerSubject(key string) string { return "leader-offer." + s.bucket + "." + key }

// Offer implements [store.Offerer]. A context without a deadline counts as done
// after [Options.Timeout]. A user who may not publish offers is told so by
// ErrPermanent.
func (s *Store) Offer(ctx context.Context, key string, offer []byte) error {
	if !store.ValidKey(key) {
		return fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	if len(offer) > store.MaxValue {
		return fmt.Errorf("%w: key %q: an offer of %d bytes, more than %d", store.ErrInvalid, key, len(offer), store.MaxValue)
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.sendable(ctx); err != nil {
		return err
	}
	_, before, err := s.request(ctx, s.offerSubject(key), offer)
	if err := s.unoffered(before, key, err); err != nil {
		return err
	}
	<-ctx.Done()
	return fmt.Errorf("%w: bucket %q, key %q was offered: %w", store.ErrUnknown, s.bucket, key, context.Cause(ctx))
}

// unoffered reports why an offer has reached nobody for certain. A reply (there
// should be none), a broken connection or a user who may not hear the server's
// answer say nothing of that.
func (s *Store) unoffered(before sighting, key string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: nobody takes offers for bucket %q, key %q: %w", store.ErrTransient, s.bucket, key, err)
	}
	if denied := s.deniedSince(before, s.offerSubject(key)); denied != nil {
		return fmt.Errorf("%w: the user may not publish to %s: %w", store.ErrPermanent, s.offerSubject(key), denied)
	}
	if class := classifyWrite(err); !errors.Is(class, store.ErrUnknown) {
		return fmt.Errorf("%w: bucket %q, key %q: %w", class, s.bucket, key, err)
	}
	return nil
}

// TakeOffers implements [store.Offerer]. The caller's connection subscribes
// anew by itself when it returns. A user who may not subscribe hears no offers,
// and is told so by the connection's error handler only.
func (s *Store) TakeOffers(key string, deliver func(offer []byte)) (stop func(), err error) {
	return s.take(key, offerQueue, 0, deliver)
}

// Broadcast implements [store.Broadcaster]: a message on the subject of offers,
// so that it needs no right of its own. Those who take offers get one of each,
// too, which is no offer to them. A user who may not publish is told so by the
// connection's error handler only.
func (s *Store) Broadcast(ctx context.Context, key string, message []byte) error {
	if !store.ValidKey(key) {
		return fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	if len(message) > store.MaxValue {
		return fmt.Errorf("%w: key %q: a message of %d bytes, more than %d", store.ErrInvalid, key, len(message), store.MaxValue)
	}
	if err := s.sendable(ctx); err != nil {
		return err
	}
	if err := s.nc.Publish(s.offerSubject(key), message); err != nil {
		return fmt.Errorf("%w: bucket %q, key %q: %w", classifySubscribe(err), s.bucket, key, err)
	}
	return nil
}

// Listen implements [store.Broadcaster]. The caller's connection subscribes
// anew by itself when it returns. A user who may not subscribe hears nothing,
// and is told so by the connection's error handler only.
func (s *Store) Listen(key string, most int, deliver func(message []byte)) (stop func(), err error) {
	return s.take(key, "", most, deliver)
}

// take subscribes to the subject of offers, in a queue group or without one,
// and for so many messages; 0 is no bound.
func (s *Store) take(key, queue string, most int, deliver func([]byte)) (stop func(), err error) {
	if !store.ValidKey(key) {
		return nil, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.hubLocked()
	if err != nil {
		return nil, err
	}
	// Into the queue of the records: so an offer is heard after the record that
	// it speaks of, if both came on this connection.
	sub, err := s.nc.ChanQueueSubscribe(s.offerSubject(key), queue, h.in)
	if err != nil {
		h.endIfIdle()
		return nil, fmt.Errorf("%w: subscribing to offers for bucket %q: %w", classifySubscribe(err), s.bucket, err)
	}
	if most > 0 {
		_ = sub.AutoUnsubscribe(most) // fails only if the connection is gone, and the subscription with it
	}
	t := &taker{deliver: deliver, sub: sub, most: most}
	h.takers[sub] = t
	return func() { h.stopTaking(t) }, nil
}

// offered passes an offer on. One that is longer than any of ours is none.
func (h *hub) offered(t *taker, m *nats.Msg) {
	t.heard++
	if t.most > 0 && t.heard > t.most {
		return // after a reconnection the servers count anew
	}
	if len(m.Data) <= store.MaxValue {
		h.call(t, func() { t.deliver(m.Data) })
	}
}

// stopTaking is what TakeOffers returns.
func (h *hub) stopTaking(t *taker) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if !t.stopped {
		h.dismiss(t)
		h.endIfIdle()
	}
	h.settle(t)
}

// dismiss ends a taker, but for a call that runs.
func (h *hub) dismiss(t *taker) {
	t.stopped = true
	_ = t.sub.Unsubscribe() // fails only if the connection is gone, and the subscription with it
	delete(h.takers, t.sub)
}
