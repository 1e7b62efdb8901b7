package engine

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// How long an offer stands before the vacancy is written. The taker has to hear
// of it, claim, and be seen to have claimed. The last write tells how long that
// takes. The first bound is that of a busy machine; the last keeps a slow store
// from making a handover last as long as a lease.
const (
	offerLeast = 25 * time.Millisecond
	offerTrips = 5
	offerShare = 4 // of the TTL
)

// offers are what a candidate has to do with offers of the record: those that
// it takes, and the one that it makes. They are made when the first of them is
// needed: thousands of candidates in one process may never need them.
type offers struct {
	env    *env
	stop   func()             // taking; nil while none are taken
	ends   chan struct{}      // closed when the latest stop has returned, nil before
	deaf   bool               // the store takes none for us
	cancel context.CancelFunc // of the one that is made
	early  *machine.Event     // an offer of a record of which the watch has not told yet
}

// arrived takes in an offer, and reports whether it is one for the core now. It
// may have overtaken the last renewal of what it offers, and is then kept.
func (o *offers) arrived(ev *machine.Event, view *machine.Seen) bool {
	o.early = nil
	if view.Kind == machine.Held && view.Rec.Token == ev.Seen.Rec.Token && view.Rev < ev.Seen.Rev {
		o.early = ev
		return false
	}
	return true
}

// caughtUp returns the offer that came before the record that it offers, if
// that has come since, or nil.
func (o *offers) caughtUp(view *machine.Seen) *machine.Event {
	if o == nil || o.early == nil {
		return nil
	}
	if ev := o.early; o.arrived(ev, view) {
		return ev
	}
	return nil
}

// make performs the Send of an Offer: word is that of our latest claim, and
// trip what the latest write took.
func (o *offers) make(st store.Offerer, a *machine.Action, word string, trip time.Duration) {
	e, op := o.env, a.Op
	text, err := record.Offer{Word: word, Revision: a.Expected, Reason: string(a.Rec.Reason), Settled: a.Rec.Settled}.Encode()
	if err != nil {
		e.offerEnded(op, store.Permanent, nil)
		return
	}
	patience := min(max(offerLeast, offerTrips*trip), e.cfg.TTL/offerShare)
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	o.cancel = cancel
	ends := o.ends
	if ends == nil {
		ends = make(chan struct{})
		close(ends)
	}
	e.spawn("offer", func() {
		defer cancel()
		select {
		case <-ends: // or the offer might come back to us
		case <-ctx.Done():
			e.offerEnded(op, store.Transient, nil)
			return
		}
		call := &Call{Kind: callOffer, Sent: time.Now()}
		call.Err = e.store.offer(ctx, st, e.cfg.Group, text)
		call.Took = time.Since(call.Sent)
		// Only an offer that may have been heard, or that failed for good, is
		// reported. That nobody takes offers is no trouble, and the vacancy
		// follows at once.
		switch out := store.Classify(call.Err); out {
		case store.Unknown:
			call.Err = nil
			e.offerEnded(op, out, call)
		case store.Permanent:
			call.Outcome = out
			e.offerEnded(op, out, call)
		default:
			e.offerEnded(op, out, nil)
		}
	})
}

// offerEnded answers the core's Send of an Offer.
func (e *env) offerEnded(op uint64, out store.Outcome, call *Call) {
	e.inbox.put(&message{call: call, event: machine.Event{Kind: machine.Written, Op: op, Outcome: outcomeOf(out)}})
}

// tend begins and ends the taking of offers: waits reports whether the
// candidate follows and may claim. It begins with the first leader that is
// seen, and is not interrupted by a change of leaders.
func (o *offers) tend(s *machine.State, waits bool) {
	if o.cancel != nil && s.Phase != machine.Releasing {
		// The release is over: most often somebody has claimed, for which the
		// offer waits.
		o.cancel()
		o.cancel = nil
	}
	if o.deaf || o.stop != nil {
		if o.stop != nil && !waits {
			o.stopTaking()
		}
		return
	}
	st, ok := o.env.store.st.(store.Offerer)
	if !ok || !waits || s.View.Kind != machine.Held || s.Phase != machine.Watching {
		return
	}
	stop, err := o.env.store.takeOffers(st, o.env.cfg.Group, o.take)
	// An error is for good: for this candidate others write vacancies then.
	if err != nil {
		stop = nil
	}
	o.stop, o.deaf = stop, err != nil
}

// take takes in an offer, on a goroutine of the store's, which a panic of ours
// must not take along.
func (o *offers) take(b []byte) {
	o.env.guard("offered", func() { o.env.inbox.offered(b) })
}

// stopTaking ends the taking of offers. It does not wait for the store, which
// may be busy, since a term may be about to begin.
func (o *offers) stopTaking() {
	ends, stop := make(chan struct{}), o.stop
	o.stop, o.ends = nil, ends
	o.env.spawn("the end of taking offers", func() {
		defer close(ends)
		stop()
	})
}

// end ends the taking of offers with the election. One that crashed may not
// have done so, and others would go on offering to it.
func (o *offers) end() {
	if o != nil && o.stop != nil {
		o.stop()
		o.stop = nil
	}
}
