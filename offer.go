package leader

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// How long an offer has until the vacancy is written: as long as the one that takes it may need to hear of it, to claim, and to be
// seen to have claimed, by what a write took last. The first bound is that of a busy machine; the last keeps a slow
// store from making a handover last as long as a lease.
const (
	offerLeast = 25 * time.Millisecond
	offerTrips = 5
	offerShare = 4 // of the TTL
)

// callOffer is the Kind of the Call that an offer is.
const callOffer = "offer"

// An offers is what an election has to do with offers: those that it takes, and the one that it makes.
type offers struct {
	stop   func()             // taking; nil while none are taken
	ends   chan struct{}      // closed when the latest stop has returned, nil before
	deaf   bool               // the store takes none for us
	cancel context.CancelFunc // of the one that is made
	early  *machine.Event     // an offer of a record of which the watch has not told yet
}

// ourOffers are made when the first of them is needed: thousands of elections in one process may never need them.
func (l *loop) ourOffers() *offers {
	if l.offers == nil {
		l.offers = &offers{}
	}
	return l.offers
}

// took learns how long a write takes.
func (l *loop) took(c Call) {
	if c.Outcome == store.OK && c.Kind != "read" && c.Kind != callOffer {
		l.rtt = c.Took
	}
}

// offered takes in an offer. It may have overtaken the last renewal of what it offers.
func (l *loop) offered(ev machine.Event) {
	o := l.ourOffers()
	o.early = nil
	if v := l.state.View; v.Kind == machine.Held && v.Rec.Token == ev.Seen.Rec.Token && v.Rev < ev.Seen.Rev {
		o.early = &ev
		return
	}
	l.step(ev)
}

// caughtUp takes in the offer that came before the record that it offers.
func (l *loop) caughtUp() {
	if l.offers != nil && l.offers.early != nil {
		l.offered(*l.offers.early)
	}
}

// offer performs the Send of an Offer. Among candidates that are not alike the preferred one goes first, and the offer
// might reach another: then nobody is offered anything.
func (l *loop) offer(a machine.Action) {
	over := func(out store.Outcome, call *Call) {
		l.e.mail.put(letter{call: call, ev: machine.Event{Kind: machine.Written, Op: a.Op, Outcome: machine.Outcome(out)}})
	}
	st, ok := l.e.store.(store.Offerer)
	if !ok || len(l.known) > 0 {
		over(store.Transient, nil)
		return
	}
	text, err := record.Offer{Word: l.claimed, Revision: a.Expected, Reason: string(a.Rec.Reason), Settled: a.Rec.Settled}.Encode()
	if err != nil {
		over(store.Permanent, nil)
		return
	}
	patience := min(max(offerLeast, offerTrips*l.rtt), l.e.cfg.TTL/offerShare)
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	o := l.ourOffers()
	o.cancel = cancel
	ends := o.ends
	if ends == nil {
		ends = make(chan struct{})
		close(ends)
	}
	l.spawn("offer", func() {
		defer cancel()
		select {
		case <-ends: // or the offer might come back to us
		case <-ctx.Done():
			over(store.Transient, nil)
			return
		}
		call := &Call{Kind: callOffer, Sent: time.Now()}
		call.Err = l.e.offerTo(ctx, st, text)
		call.Took = time.Since(call.Sent)
		switch out := store.Classify(call.Err); out {
		case store.Unknown:
			call.Err = nil
			over(out, call)
		case store.Permanent:
			call.Outcome = out
			over(out, call)
		default:
			over(out, nil)
		}
	})
}

// tendOffers begins and ends the taking of offers, as the state asks for: who follows, and may claim, takes them. It
// begins with the first leader that is seen, and is not interrupted by a change of leaders.
func (l *loop) tendOffers() {
	s, o := l.state, l.offers
	if o != nil && o.cancel != nil && s.Phase != machine.Releasing {
		o.cancel()
		o.cancel = nil
	}
	waits := (s.Phase == machine.Watching || s.Phase == machine.Claiming) && !s.Undrained &&
		s.Barred == 0 && s.StandBackUntil <= l.e.clock.now().Mono && len(l.known) == 0 && l.rules.Backoff == 0
	if o != nil && (o.deaf || o.stop != nil) {
		if o.stop != nil && !waits {
			l.stopTaking()
		}
		return
	}
	st, ok := l.e.store.(store.Offerer)
	if !ok || !waits || s.View.Kind != machine.Held || s.Phase != machine.Watching {
		return
	}
	stop, err := l.e.takeOffers(st)
	// An error is for good: for this candidate others write vacancies then.
	o = l.ourOffers()
	if err != nil {
		stop = nil
	}
	o.stop, o.deaf = stop, err != nil
}

// stopTaking ends the taking of offers. It does not wait for the store, which may be busy, since a term may be about to begin.
func (l *loop) stopTaking() {
	o, ends := l.offers, make(chan struct{})
	stop := o.stop
	o.stop, o.ends = nil, ends
	l.spawn("the end of taking offers", func() {
		defer close(ends)
		stop()
	})
}

// refuseOffers ends the taking of offers with the election. One that crashed may
// not have done so, and others would go on being offered to it.
func (l *loop) refuseOffers() {
	if o := l.offers; o != nil && o.stop != nil {
		o.stop()
		o.stop = nil
	}
}
