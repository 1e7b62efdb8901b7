package leaderkube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A core is a Lock without the type of client-go's record.
type core struct {
	cfg    leader.ElectionConfig
	timing Timing
	stand  func() (leader.Election, error)
	asked  atomic.Uint64

	begins sync.Mutex // held while a campaign begins

	mu     sync.Mutex
	first  leader.Election // made by New; nil once it campaigns
	now    *campaign       // nil until the first question
	bound  map[*binding]struct{}
	runs   map[*binding]struct{} // whose functions of Run have not returned
	closed bool
}

// logger returns the election's logger.
func (l *core) logger() *slog.Logger {
	if l.cfg.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.cfg.Logger.With("group", l.cfg.Group, "instance", l.cfg.InstanceID)
}

// get returns who holds the lock, when there is news of it.
func (l *core) get(ctx context.Context) (record, error) {
	if err := ctx.Err(); err != nil { // the loop has ended
		return record{}, err
	}
	c, err := l.campaign(ctx)
	if err != nil {
		return record{}, err
	}
	for {
		r, ok, changed := c.news()
		if ok {
			return r, nil
		}
		// The next renewal extends a window that is too short, but no event
		// reports it.
		look := time.NewTimer(l.timing.RetryPeriod)
		select {
		case <-changed:
		case <-look.C:
		case <-c.election.Done():
			c.stop(false)
			return record{}, fmt.Errorf("%w: %w", ErrNotHeld, errors.Join(c.election.Err(), leader.ErrStopped))
		case <-ctx.Done():
			look.Stop()
			return record{}, ctx.Err()
		}
		look.Stop()
	}
}

// campaign returns the present campaign, or begins one that lasts until ctx is
// done, unless client-go holds the lock then.
func (l *core) campaign(ctx context.Context) (*campaign, error) {
	l.begins.Lock()
	defer l.begins.Unlock()
	l.mu.Lock()
	c, closed, e := l.now, l.closed, l.first
	l.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if c != nil {
		if !c.over() {
			return c, nil
		}
		// Two candidates of one name are not to run side by side.
		select {
		case <-c.stopped:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil { // nobody waits for what would begin
		return nil, err
	}
	if e == nil {
		var err error
		if e, err = l.stand(); err != nil {
			return nil, err
		}
	}
	c = newCampaign(l, e)
	l.mu.Lock()
	l.first, l.now = nil, c
	closed = l.closed
	l.mu.Unlock()
	if closed {
		c.stop(false)
		return nil, ErrClosed
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// current returns the present campaign, or nil.
func (l *core) current() *campaign {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// update confirms that client-go holds the lock, or releases it.
func (l *core) update(ctx context.Context, in record) error {
	c := l.current()
	switch {
	case c == nil:
		return ErrNotHeld
	case in.HolderIdentity == "" && !c.holds():
		return ErrNotHeld
	case in.HolderIdentity == "":
		c.finish()
		return c.release(ctx)
	case in.HolderIdentity != l.cfg.InstanceID:
		return fmt.Errorf("%w by %q: the lock belongs to %q", ErrNotHeld, in.HolderIdentity, l.cfg.InstanceID)
	case in.LeaseDurationSeconds != l.timing.seconds():
		return fmt.Errorf("%w: its LeaseDuration is %d s, and Timing.LeaseDuration %v: give both the same",
			ErrTiming, in.LeaseDurationSeconds, l.timing.LeaseDuration)
	case ctx.Err() != nil:
		return ctx.Err() // a loop that has ended is given nothing
	default:
		return c.grant(ctx)
	}
}

// ended is the event that client-go's LeaderElector.renew emits just before it
// cancels its work. If a later client-go renamed it, the lock would take the
// loop for dead, and end the term a LeaseDuration later.
const ended = "stopped leading"

func (l *core) event(name string) {
	l.logger().Info("client-go's loop", "event", name)
	if c := l.current(); c != nil && name == ended {
		c.left()
	}
}

// held returns the term in which client-go holds the lock, if it does.
func (l *core) held() (leader.Term, bool) {
	c := l.current()
	if c == nil || !c.holds() || !c.election.IsLeader() {
		return leader.Term{}, false
	}
	term := c.election.Term()
	return term, !term.IsZero()
}

func (l *core) status() leader.ElectionStatus {
	if c := l.current(); c != nil {
		return c.election.Status()
	}
	return leader.ElectionStatus{}
}

func (l *core) close(ctx context.Context) error {
	l.mu.Lock()
	c, first := l.now, l.first
	l.closed, l.first = true, nil
	l.mu.Unlock()
	var err error
	if first != nil {
		err = first.Stop()
	}
	if c != nil {
		err = errors.Join(err, c.release(ctx))
	}
	l.lose(nil, context.Canceled)
	return err
}
