package leaderkube

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A campaign is one election, for one run of client-go's loop. It goes from
// waiting to held, when client-go was given the lock, and from there to lost,
// when that term has ended: a later term of the same election is not for a loop
// that works by an earlier one, and ends with its silence. It is over when it
// is being stopped.
type campaign struct {
	lock     *core
	election leader.Election

	mu      sync.Mutex
	moved   *sync.Cond    // what the end of a term waits for
	changed chan struct{} // closed and replaced at each change that Get reports

	term  context.Context // of the present term, nil without one
	since time.Time       // when it began
	other leader.LeaderInfo
	shown string // the leader in the last answer of Get that named another candidate

	granted, lost bool
	gone          bool // the loop has ended, or is about to release
	finished      bool // it released by itself, so its work has ended
	mistimed      error
	working       int // functions of Leading that have not returned

	silence *time.Timer // since the loop's last question, while it holds the lock

	detach   func() bool // has it no longer wait for the end of the loop
	stopping bool
	stopped  chan struct{} // closed when the election has ended
	failure  error         // of the stop; read it after stopped
}

func newCampaign(l *core, e leader.Election) *campaign {
	c := &campaign{lock: l, election: e, changed: make(chan struct{}), stopped: make(chan struct{})}
	c.moved = sync.NewCond(&c.mu)
	e.OnTerm(c.promoted)
	e.OnDemote(c.demoted)
	e.OnLeaderChange(c.heard)
	return c
}

// begin starts the election, which ends with ctx unless client-go holds the
// lock then.
func (c *campaign) begin(ctx context.Context) error {
	// Not ctx itself, whose end comes with client-go's success, too. While the
	// store is looked at, nobody else ends the wait.
	running, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	waiting := context.AfterFunc(ctx, giveUp)
	err := c.election.Start(running)
	waiting()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		giveUp()
		c.stop(true)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// client-go passes the same ctx for its whole acquisition phase, in which
	// many campaigns may begin and end.
	if detach := context.AfterFunc(ctx, c.abandon); c.stopping {
		detach()
	} else {
		c.detach = detach
	}
	return nil
}

// tell wakes the callers that wait for news. The caller holds mu.
func (c *campaign) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
	c.moved.Broadcast()
}

func (c *campaign) promoted(ctx context.Context, _ leader.Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term, c.since = ctx, time.Now()
	// By the end of the term, and not by OnDemote, which comes later.
	context.AfterFunc(ctx, func() { c.expired(ctx) })
	c.tell()
}

// expired is called when the term of ctx has ended.
func (c *campaign) expired(ctx context.Context) {
	c.mu.Lock()
	present := c.term == ctx
	if present {
		c.term, c.lost = nil, c.granted
		c.tell()
	}
	held := c.lost
	c.mu.Unlock()
	if present && held {
		c.lock.lose(c, context.Cause(ctx))
	}
}

// demoted lets the record go only when nobody works any more, as far as that
// can be known: the loop has ended, and so have the functions of Leading. A
// loop that has lost the lock ends before its manager's work does, so that one
// of Run has to return, too.
func (c *campaign) demoted() {
	c.mu.Lock()
	term := c.term
	c.mu.Unlock()
	if term != nil {
		c.expired(term) // perhaps sooner than by the context
	}
	if !c.idle() {
		return
	}
	for _, b := range c.lock.runsOf(c) {
		<-b.returned
	}
}

// idle waits for the end of the loop and of the functions of Leading, and
// reports whether work of Run may go on.
func (c *campaign) idle() (runs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.granted && !c.gone || c.working > 0 {
		c.moved.Wait()
	}
	return c.granted && !c.finished
}

func (c *campaign) heard(info leader.LeaderInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.other = info
	c.tell()
}

// trusted reports whether the trust window stays open for longer than a loop
// works on without an answer that its term has ended. The caller holds mu.
func (c *campaign) trusted() bool {
	return c.term != nil && !c.lost && !c.stopping && c.election.IsLeader() &&
		time.Until(c.election.TrustUntil()) >= c.lock.timing.tail()
}

// news returns the record that Get is to show, or false if there is nothing new
// to show yet, and a channel that is closed when that may have changed.
func (c *campaign) news() (r record, ok bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trusted() {
		s := c.election.Status()
		return record{
			HolderIdentity: c.lock.cfg.InstanceID, LeaseDurationSeconds: c.lock.timing.seconds(),
			AcquireTime: instant(c.since), RenewTime: instant(s.LastHeartbeat), LeaderTransitions: int(s.Transitions),
		}, true, nil
	}
	id := c.other.ID
	if id == c.lock.cfg.InstanceID {
		// We, without trust, or an earlier process of this name: in either case
		// client-go, which compares names, would take it for itself.
		id = ""
	}
	if !c.granted && (id == "" || id == c.shown) && !c.stopping {
		return record{}, false, c.changed
	}
	c.shown = id
	return record{HolderIdentity: id, LeaseDurationSeconds: c.lock.timing.seconds(), LeaderTransitions: int(c.other.Transitions)}, true, nil
}

// grant gives client-go the lock, or confirms that it has it.
func (c *campaign) grant(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkDeadline(ctx); err != nil {
		return err
	}
	if !c.trusted() || c.gone {
		return ErrNotHeld
	}
	if !c.granted {
		c.granted = true
		c.silence = time.AfterFunc(c.lock.timing.LeaseDuration, c.silent)
	}
	c.silence.Reset(c.lock.timing.LeaseDuration)
	return nil
}

// checkDeadline compares the RenewDeadline of the loop, which bounds each of
// its renewals, with the configured Timing.RenewDeadline. A single deadline
// that is too long is proof enough, since the time left only shrinks while the
// loop repeats its question.
func (c *campaign) checkDeadline(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if left := time.Until(deadline); ok && c.granted && left > c.lock.timing.RenewDeadline && c.mistimed == nil {
		c.mistimed = fmt.Errorf("%w: its RenewDeadline is %v or more, and Timing.RenewDeadline %v: give both the same",
			ErrTiming, left, c.lock.timing.RenewDeadline)
	}
	return c.mistimed
}

// silent ends a term whose loop no longer asks: it hangs, or it ended without a
// notice to the lock. Its work may go on, so nothing is released.
func (c *campaign) silent() {
	c.lock.logger().Error("client-go's loop has not asked for its lock for a LeaseDuration; the record is left to expire",
		"lease_duration", c.lock.timing.LeaseDuration)
	c.stop(false)
}

// abandon ends a campaign whose loop has given up before it was given the lock.
func (c *campaign) abandon() {
	c.mu.Lock()
	given := c.granted
	c.mu.Unlock()
	if !given {
		c.stop(true)
	}
}

// left is called when the loop has ended. A record that the loop has not asked
// to release is left to expire, since its work may go on; a lock that the loop
// has lost is released by the election.
func (c *campaign) left() {
	c.stop(c.depart())
}

// depart notes that the loop has ended, and reports whether it had lost the
// lock.
func (c *campaign) depart() (lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.moved.Broadcast()
	return c.lost
}

// finish notes that the loop releases by itself. A manager has it do so when its
// work has ended, and waits for it before Run can return.
func (c *campaign) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
}

// release ends the campaign and lets another lead. It waits for that until ctx
// is done; the release itself goes on.
func (c *campaign) release(ctx context.Context) error {
	c.depart()
	c.stop(true)
	select {
	case <-c.stopped:
		return c.failure
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop stops the election in the background, once.
func (c *campaign) stop(release bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return
	}
	c.stopping = true
	if c.detach != nil {
		c.detach()
	}
	if c.silence != nil {
		c.silence.Stop()
	}
	c.tell()
	go func() {
		defer close(c.stopped)
		c.failure = c.election.StopWithContext(context.Background(), leader.StopOptions{DeleteKey: release, WaitForDemote: true})
	}()
}

// leaving reports whether its loop has ended, or is to.
func (c *campaign) leaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone || c.stopping
}

// over reports whether another campaign may follow: this one is being stopped,
// and no loop works by it.
func (c *campaign) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopping && (!c.granted || c.gone)
}

// holds reports whether client-go has the lock, by the last answer that it got.
func (c *campaign) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted && !c.lost && !c.stopping
}
