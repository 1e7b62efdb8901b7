package agent

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/proof"
)

// Why a candidate is withdrawn.
const (
	asked    = "asked"    // its client asked for it
	silent   = "silent"   // its client sent no keepalive for its lease
	draining = "draining" // the agent ends
	ended    = "ended"    // the election ended by itself
)

// A candidate is one election in which the agent represents a client.
//
// The election's callbacks, the alarm and any number of requests use it at
// once. mu guards what is below it, and is held for moments only. It also
// orders a grant and the wait for its end: see grant and await.
type candidate struct {
	handle, group, id string

	e     leader.Election
	lease time.Duration // of the client
	pace  time.Duration // from one keepalive to the next, as is advised
	// share is the part of the granted trust that the client is given: 1 where
	// it measures by the agent's clock.
	share float64
	leave chan struct{} // closed when it is withdrawn
	gone  chan struct{} // closed when all has ended

	news news

	mu       sync.Mutex
	leaseEnd time.Time
	alarm    *time.Timer // at the end of the lease
	why      string      // why the candidate is withdrawn, "" before that
	work     *work       // of the term that the client knows of, nil if none
	last     uint64      // the latest such term
	leader   leader.LeaderInfo
}

// A work is what the client does in one term. The candidate's lock guards it.
// It outlives the term, until the client has stopped or is trusted no more.
type work struct {
	ctx     context.Context // the term's
	term    leader.Term
	granted time.Time // the end of the latest trust that an answer granted
	stopped chan struct{}
	done    bool // stopped is closed: the client does nothing more in this term
}

// attach registers what the candidate needs to hear. It comes before Start. A
// callback that came later could miss the first term.
func (c *candidate) attach(e leader.Election) {
	c.e = e
	e.OnTerm(c.lead)
	e.OnLeaderChange(func(info leader.LeaderInfo) {
		c.mu.Lock()
		c.leader = info
		c.mu.Unlock()
		c.news.tell()
	})
}

// start starts the election, and sends its error to started, whatever happens.
// Hence the error is set beforehand: follow would wait forever for a start that
// panicked.
func (c *candidate) start(ctx context.Context, started chan<- error) (err error) {
	err = leader.ErrPanicked
	defer func() { started <- err }()
	if err = c.e.Start(context.WithoutCancel(ctx)); err == nil {
		c.begin()
	}
	return err
}

// lead lasts as long as the client may act: the library releases the record
// when it has returned. DemoteTimeout does not cut it short, since what is
// granted is less than a TTL. It notifies the client three times: when it may
// ask for trust, when it has to stop, and when the term no longer blocks
// anything.
func (c *candidate) lead(ctx context.Context, term leader.Term) {
	w := &work{ctx: ctx, term: term, stopped: make(chan struct{})}
	c.mu.Lock()
	c.work, c.last = w, term.Number
	c.mu.Unlock()
	c.news.tell()
	<-ctx.Done()
	c.news.tell()
	c.await(w)
	c.mu.Lock()
	c.work = nil
	c.mu.Unlock()
	c.news.tell()
}

// await returns when the client has stopped or is trusted no more. The term is
// over, so that nothing is granted any more once the lock was held: the window
// is closed before the term's context is.
func (c *candidate) await(w *work) {
	c.mu.Lock()
	left := time.Until(w.granted)
	c.mu.Unlock()
	t := time.NewTimer(max(left, 0))
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.stopped:
	}
}

// begin starts the lease of the client. It comes after the start and not with
// the request: while a store is waited for, the client cannot send a keepalive,
// since it has no path yet. A candidate that was withdrawn meanwhile has its
// alarm stopped here.
func (c *candidate) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaseEnd = time.Now().Add(c.lease)
	c.alarm = time.AfterFunc(c.lease, c.check)
	if c.why != "" {
		c.alarm.Stop()
	}
}

// check is the alarm's: the lease was renewed, or the client is given up. A
// keepalive does not move the alarm, which would be work for each one: the
// alarm looks, and sets itself again.
func (c *candidate) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := time.Until(c.leaseEnd); left > 0 {
		c.alarm.Reset(left)
		return
	}
	c.withdrawing(silent)
}

// keep renews the client's lease, unless the candidate is withdrawn. A
// withdrawn candidate stays so: it may have released already, and its client
// learns of that from the answer.
func (c *candidate) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != "" {
		return
	}
	// A candidate whose alarm has not rung yet is kept, even if its time has
	// passed: it was the agent that was late.
	c.leaseEnd = time.Now().Add(c.lease)
}

// grant returns what the agent knows at this instant, the work of the present
// term (nil if the client has none), and for how long the client is trusted
// with it, counted from any instant before the call.
func (c *candidate) grant() (st leader.ElectionStatus, w *work, trust time.Duration) {
	// Until the grant is noted, the release must not look for the latest one.
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granting()
}

// granting is grant for callers that hold the lock.
func (c *candidate) granting() (st leader.ElectionStatus, w *work, trust time.Duration) {
	// The time first: IsLeader goes by the wall clock, too, so that a
	// suspension after this line grants nothing, or is counted by the client.
	now := time.Now()
	st = c.e.Status()
	w = c.work
	if w == nil || w.done || c.why != "" || !st.IsLeader || (leader.Term{Number: st.Term, Token: st.Token}) != w.term {
		return st, nil, 0
	}
	left := max(min(st.TrustUntil.Sub(now), c.leaseEnd.Sub(now)), 0)
	w.grant(now.Add(left))
	return st, w, time.Duration(float64(left) * c.share)
}

// grant notes that somebody trusts the term until then. An answer that grants
// less does not take back what an earlier one granted: the client may not have
// seen it.
func (w *work) grant(until time.Time) {
	if until.After(w.granted) {
		w.granted = until
	}
}

// A proofAnswer holds a proof. Trust is as in times.
type proofAnswer struct {
	Term  uint64 `json:"term"`
	Trust int64  `json:"trust_for_ms"`
	Proof string `json:"proof"`
}

// sign returns a proof of the current term. The proof ends with the client's
// lease at the latest, and counts as trust that was granted. The client itself
// is trusted as the answer to any other request grants.
func (c *candidate) sign(key proof.Key, audience string, lifetime time.Duration) (a proofAnswer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, w, trust := c.granting()
	lifetime = min(lifetime, trust)
	if w == nil || lifetime < time.Millisecond {
		return a, leader.ErrNotLeader
	}
	signer, err := proof.NewSigner(c.e, c.group, c.id, key, proof.SignerOptions{Lifetime: lifetime})
	if err != nil {
		return a, err
	}
	text, err := signer.Sign(w.ctx, audience)
	w.grant(time.Now().Add(lifetime)) // it counts from a later instant than the grant above
	return proofAnswer{Term: w.term.Number, Trust: trust.Milliseconds(), Proof: text}, err
}

// acknowledge records that the client's work of a term has stopped. From then
// on nothing is granted for the term. An acknowledgement of an earlier term
// changes nothing. A term that was never granted is refused, since the client
// is mistaken about what it stopped, and a release would be a guess.
func (c *candidate) acknowledge(term uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch w := c.work; {
	case term > c.last:
		return &failure{
			status: http.StatusConflict, code: "wrong_term",
			detail: fmt.Sprintf("stopped_term %d: must be a term that this candidate was given; the latest is %d", term, c.last),
		}
	case w != nil && w.term.Number == term && !w.done:
		w.done = true
		close(w.stopped)
	}
	return nil
}

// present reports whether the term runs, or its release waits for the client.
func (c *candidate) present(term uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.work != nil && c.work.term.Number == term
}

// withdraw takes the candidate out of the election in the background (see
// gone), and keeps the first reason. It does not wait, since a release takes as
// long as the work and the store do, and drain has more candidates to withdraw.
func (c *candidate) withdraw(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdrawing(why)
}

// withdrawing is withdraw for callers that hold the lock.
func (c *candidate) withdrawing(why string) {
	if c.why != "" {
		return
	}
	c.why = why
	if c.alarm != nil {
		c.alarm.Stop()
	}
	close(c.leave)
	c.news.tell()
}

// A news wakes waiting goroutines after changes. It may be called by any
// goroutine at any time.
//
// A channel that is closed reaches any number of streams, none of which it
// waits for. next is called before the state is looked at, so that no change is
// missed between the two.
type news struct {
	mu      sync.Mutex
	changed chan struct{}
}

// next returns a channel that is closed with the next change.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

// tell wakes all waiting goroutines. It never blocks.
func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// reason returns why the candidate is withdrawn, "" if it is not.
func (c *candidate) reason() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}
