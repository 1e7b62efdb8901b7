package natsstore

import (
	"maps"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
)

// A taker is one registration of TakeOffers or Listen.
type taker struct {
	deliver func([]byte)
	sub     *nats.Subscription
	before  *nats.Subscription // which sub has replaced; nil: it is the first
	most    int                // messages to be delivered; 0 is no bound
	heard   int                // messages so far
	stopped bool
}

// takers take what is offered and broadcast, each by its subscription. Whoever
// holds them guards them. A message tells by which subscription it came and not
// for which taker, and one key may have several.
type takers map[*nats.Subscription]*taker

// add has a taker take what comes by a subscription that was just made.
func (t takers) add(x *taker, sub *nats.Subscription) {
	if x.most > 0 {
		// It fails only if the connection is gone, and the subscription with
		// it.
		_ = sub.AutoUnsubscribe(x.most - x.heard)
	}
	x.sub = sub
	t[sub] = x
}

// retake has all takers subscribe again, for the server may have taken
// subscriptions away (see package feed). What the one before has brought
// already is taken yet.
func (t takers) retake(subscribe func(subject, queue string) (*nats.Subscription, error)) (err error) {
	for sub, x := range maps.Clone(t) {
		if sub != x.sub || x.most > 0 && x.heard >= x.most {
			continue
		}
		again, failed := subscribe(sub.Subject, sub.Queue)
		if failed != nil {
			err = failed
			continue
		}
		t.add(x, again)
		_ = sub.Unsubscribe() // as below
		delete(t, x.before)
		x.before = sub
	}
	return err
}

// receive passes an offer on. One that is longer than any of ours is none:
// whoever reaches the server may publish here.
func (t takers) receive(m *nats.Msg, call caller) {
	// Messages of a taker that was dismissed may still wait in the queue.
	x := t[m.Sub]
	if x == nil {
		return
	}
	// Counted here, too: the servers learn of the bound after the subscription,
	// and count anew after a reconnection.
	x.heard++
	if x.most > 0 && x.heard > x.most {
		return // after a reconnection the servers count anew
	}
	if len(m.Data) <= store.MaxValue {
		call(x, func() { x.deliver(m.Data) })
	}
}

// dismiss ends a taker, but for a call that runs: the caller has the lock,
// which that call needs to end, and waits for it afterwards
// ([loop.Loop.Settle]). It reports whether the taker was still there.
func (t takers) dismiss(x *taker) (first bool) {
	if x.stopped {
		return false
	}
	x.stopped = true
	_ = x.sub.Unsubscribe() // fails only if the connection is gone, and the subscription with it
	delete(t, x.sub)
	delete(t, x.before)
	return true
}

func (t takers) dismissAll() {
	for _, x := range t {
		t.dismiss(x)
	}
}
