package faultstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A taker is one registration of TakeOffers or Listen.
type taker struct {
	c     *Client
	watch *watch // each of its entries is an offer
}

// Offer implements [store.Offerer]. Those who take offers for the key get them
// in turn. An offer is heard by nobody while the link of its taker is cut, who
// has its turn nevertheless: the servers do not know yet.
func (c *Client) Offer(ctx context.Context, key string, offer []byte) error {
	if err := admit(ctx, key); err != nil {
		return err
	}
	if len(offer) > store.MaxValue {
		return fmt.Errorf("%w: the offer has %d bytes, more than %d", store.ErrInvalid, len(offer), store.MaxValue)
	}
	in := make(chan error, 1)
	c.f.mu.Lock()
	c.f.offers = true
	c.offer(ctx, store.Entry{Key: key, Value: bytes.Clone(offer)}, func(failure error) { in <- failure })
	c.f.mu.Unlock()
	select {
	case failure := <-in:
		return failure
	case <-ctx.Done():
	case <-c.f.done:
	}
	return fmt.Errorf("%w: key %q was offered: %w", store.ErrUnknown, key, end(ctx))
}

// offer sends an offer on its way. vain is called when its maker hears that it
// reaches nobody. f.mu is held.
func (c *Client) offer(ctx context.Context, offer store.Entry, vain func(error)) {
	fate := c.fate(Call{Op: Offer, Key: offer.Key})
	switch {
	case c.f.closed:
	case c.cut:
		c.f.counts[Partition]++
	case fate.Lose:
		c.f.counts[LostOffer]++
	case fate.Refuse || fate.Deny:
		err := c.f.refused(fate)
		c.reply(fate, func() { vain(err) })
	case len(c.f.takers[offer.Key]) == 0:
		c.reply(fate, func() { vain(fmt.Errorf("%w: nobody takes offers for key %q", store.ErrTransient, offer.Key)) })
	default:
		c.f.hand(ctx, offer, fate)
	}
}

// hand brings an offer to the taker whose turn it is, and each repetition to
// the next. f.mu is held.
func (f *Faults) hand(ctx context.Context, offer store.Entry, fate Fate) {
	takers := f.takers[offer.Key]
	first := fate.Pick % len(takers)
	wait := fate.Delay
	if fate.Late > 0 {
		wait = fate.Late
		if deadline, ok := ctx.Deadline(); ok {
			wait += time.Until(deadline)
		}
	}
	for i := range 1 + fate.Repeat {
		t := takers[(first+i)%len(takers)]
		f.after(wait, func() { f.arrive(t, offer, i > 0, wait > 0, ctx.Err() != nil) })
	}
	f.takers[offer.Key] = slices.Concat(takers[first+1:], takers[:first+1])
}

// arrive lets a taker hear an offer, unless its link is cut. f.mu is held.
func (f *Faults) arrive(t *taker, offer store.Entry, again, delayed, late bool) {
	if t.c.cut {
		f.counts[Partition]++
		return
	}
	if !t.watch.push(time.Now(), offer) {
		return
	}
	for kind, is := range map[Fault]bool{RepeatedOffer: again, LateOffer: late, DelayedOffer: delayed && !late} {
		if is {
			f.counts[kind]++
		}
	}
}

// TakeOffers implements [store.Offerer].
func (c *Client) TakeOffers(key string, deliver func(offer []byte)) (stop func(), err error) {
	return c.take(c.f.takers, key, deliver)
}

// Broadcast implements [store.Broadcaster]. The message has a fate of its own,
// as an event, for each who listens.
func (c *Client) Broadcast(ctx context.Context, key string, message []byte) error {
	if err := admit(ctx, key); err != nil {
		return err
	}
	if len(message) > store.MaxValue {
		return fmt.Errorf("%w: the message has %d bytes, more than %d", store.ErrInvalid, len(message), store.MaxValue)
	}
	said := store.Entry{Key: key, Value: bytes.Clone(message)}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	fate := c.fate(Call{Op: Broadcast, Key: key})
	switch {
	case c.f.closed || fate.Lose:
		return nil
	case c.cut:
		c.f.counts[Partition]++
		return nil
	case fate.Refuse || fate.Deny:
		return c.f.refused(fate)
	}
	for _, t := range c.f.hearers[key] {
		way := t.c.fate(Call{Op: Broadcast, Key: key})
		if !way.Lose {
			c.f.after(fate.Delay+way.Delay, func() { c.f.hear(t, said) })
		}
	}
	return nil
}

// hear lets one who listens hear a message, unless its link is cut. f.mu is
// held.
func (f *Faults) hear(t *taker, said store.Entry) {
	if t.c.cut {
		f.counts[Partition]++
		return
	}
	t.watch.push(time.Now(), said)
}

// Listen implements [store.Broadcaster].
func (c *Client) Listen(key string, most int, deliver func(message []byte)) (stop func(), err error) {
	return c.take(c.f.hearers, key, func(message []byte) { // never twice at once
		if most > 0 {
			most--
			deliver(message)
		}
	})
}

// take registers one who is delivered to, among those for the key.
func (c *Client) take(among map[string][]*taker, key string, deliver func([]byte)) (stop func(), err error) {
	if !store.ValidKey(key) {
		return nil, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.closed {
		return nil, fmt.Errorf("%w: %w", store.ErrPermanent, errClosed)
	}
	t := &taker{c, newWatch(&c.f.wg, []string{key}, func(e store.Entry) { deliver(e.Value) })}
	among[key] = append(among[key], t)
	dismiss := sync.OnceFunc(func() {
		t.watch.close()
		c.f.dismiss(among, key, t)
	})
	return func() {
		dismiss()
		t.watch.wait()
	}, nil
}

func (f *Faults) dismiss(among map[string][]*taker, key string, t *taker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	among[key] = slices.DeleteFunc(among[key], func(u *taker) bool { return u == t })
	if len(among[key]) == 0 {
		delete(among, key)
	}
}
