package natsstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
)

// offerQueue is the queue group of those who take offers: the servers give each
// offer to one of them.
const offerQueue = "leader"

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
	// It is not made again: whatever is published there is heard as an offer.
	_, before, err := s.request(ctx, s.names.Offers(key), offer, nil)
	if err := s.unoffered(before, key, err); err != nil {
		return err
	}
	<-ctx.Done()
	return fmt.Errorf("%w: bucket %q, key %q was offered: %w", store.ErrUnknown, s.names.Bucket, key, context.Cause(ctx))
}

// unoffered returns why an offer has reached nobody for certain. A reply (there
// should be none), a broken connection or a user who may not hear the server's
// answer say nothing of that.
func (s *Store) unoffered(before attend.Report, key string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: nobody takes offers for bucket %q, key %q: %w", store.ErrTransient, s.names.Bucket, key, err)
	}
	if denied := s.deniedSince(before, s.names.Offers(key)); denied != nil {
		return fmt.Errorf("%w: the user may not publish to %s: %w", store.ErrPermanent, s.names.Offers(key), denied)
	}
	if class := classifyWrite(err); !errors.Is(class, store.ErrUnknown) {
		return fmt.Errorf("%w: bucket %q, key %q: %w", class, s.names.Bucket, key, err)
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
	if err := s.nc.Publish(s.names.Offers(key), message); err != nil {
		return fmt.Errorf("%w: bucket %q, key %q: %w", classifySubscribe(err), s.names.Bucket, key, err)
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
	var t *taker
	h, err := s.withHub(func(h *hub) error {
		sub, err := h.takeFrom(s.names.Offers(key), queue)
		if err != nil {
			h.endIfIdle()
			return fmt.Errorf("%w: subscribing to offers for bucket %q: %w", classifySubscribe(err), s.names.Bucket, err)
		}
		t = &taker{deliver: deliver, most: most}
		h.takers.add(t, sub)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() {
		h.stopTaking(t)
		s.drop(h)
	}, nil
}
