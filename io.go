package leader

import (
	"context"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// send performs a Send of the core: one compare-and-swap, whose answer goes into the mailbox.
func (e *election) send(ctx context.Context, a machine.Action, known standings) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.ConnectionTimeout)
	defer cancel()
	call := Call{Kind: a.Write.String(), Sent: time.Now()}
	var rev uint64
	faults.Point("send")
	rev, call.Err = e.write(ctx, a, known)
	call.Took, call.Outcome = time.Since(call.Sent), store.Classify(call.Err)
	e.mail.put(letter{call: &call, ev: machine.Event{
		Kind: machine.Written, Op: a.Op, Outcome: machine.Outcome(call.Outcome), Rev: rev,
	}})
}

func (e *election) write(ctx context.Context, a machine.Action, known standings) (uint64, error) {
	value, err := record.Of(a.Rec, record.About{
		Meta: e.cfg.Meta, Address: e.cfg.Address, Version: e.cfg.Version, Drift: e.cfg.ClockDrift, Standings: known,
	}).Encode()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return e.sheltered().CompareAndSwap(ctx, store.Write{
		Key: e.cfg.Group, Expected: a.Expected, Value: value, Tombstone: a.Write == machine.Release,
	})
}

// look performs a Look of the core: one read, whose answer goes into the mailbox.
func (e *election) look(ctx context.Context, a machine.Action) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.ConnectionTimeout)
	defer cancel()
	call := Call{Kind: "read", Sent: time.Now()}
	entry, err := e.sheltered().Get(ctx, e.cfg.Group)
	call.Took, call.Outcome, call.Err = time.Since(call.Sent), store.Classify(err), err
	l := letter{call: &call, ev: machine.Event{Kind: machine.Read, Op: a.Op, Outcome: machine.Outcome(call.Outcome)}}
	if err == nil {
		l.entry = &entry
	}
	e.mail.put(l)
}

// join makes the store ready if it is not yet, hands the loop its rules, and sets up the watch. It
// goes on trying for as long as the election runs: nothing here is given up for good.
func (e *election) join(ctx context.Context, rules conditions, err error) {
	ok := e.persist(ctx, func() error {
		if err != nil {
			rules, err = e.ready(ctx)
		}
		return err
	})
	if !ok {
		return
	}
	e.mail.put(letter{rules: &rules})
	w, ok := e.store.(store.Watcher)
	if !ok {
		e.poll(ctx)
		return
	}
	keys := []string{e.cfg.Group, record.ControlKey(e.cfg.Group)}
	ok = e.persist(ctx, func() error {
		stop, err := e.watchStore(ctx, w, keys)
		if err == nil {
			e.loop.unwatch = stop
		}
		return err
	})
	if ok {
		e.mail.put(letter{watched: true})
	}
}

// sayAgain is how often a store that stays unready is reported anew.
const sayAgain = time.Minute

// persist repeats try until it succeeds (true) or ctx is done (false).
func (e *election) persist(ctx context.Context, try func() error) bool {
	r := e.cfg.RetryConfig
	said, saidAt := "", time.Time{}
	for wait := r.InitialBackoff; ; wait = time.Duration(min(float64(wait)*r.BackoffMultiplier, float64(min(r.MaxBackoff, forever)))) {
		err := try()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if now := time.Now(); err.Error() != said || now.Sub(saidAt) >= sayAgain {
			said, saidAt = err.Error(), now
			e.failed(err)
			e.mail.put(letter{note: &Note{At: now, Kind: NoteNotReady, Text: said}})
		}
		// Varied, since what failed may have failed for hundreds at once.
		if !sleep(ctx, time.Duration(float64(wait)*(1+r.Jitter*(2*mrand.Float64()-1)))) {
			return false
		}
	}
}

// poll stands for the watch with a store that has none.
func (e *election) poll(ctx context.Context) {
	var group, control polled
	for watched, said := false, false; ; {
		faults.Point("poll")
		err := e.pollOne(ctx, e.cfg.Group, &group)
		if err == nil && !watched {
			watched = true
			e.mail.put(letter{watched: true})
		}
		if errors.Is(err, ErrConnectionClosed) {
			e.failed(err)
			return
		}
		err = e.pollOne(ctx, record.ControlKey(e.cfg.Group), &control)
		if store.Classify(err) == store.Permanent && ctx.Err() == nil && !said {
			said = true
			e.mail.put(letter{note: &Note{At: time.Now(), Kind: NoteNotReady, Text: "the control record cannot be read: " + err.Error()}})
		}
		if !sleep(ctx, e.cfg.HeartbeatInterval) {
			return
		}
	}
}

// polled is what reads of one register have shown so far.
type polled struct {
	revision uint64
	stale    int // reads in a row that showed an older state
}

// staleReads is how many reads in a row must show an older state before it is believed: one may come from
// a replica that lags.
const staleReads = 3

// believe takes in a read, and tells whether it is to be passed on.
func (p *polled) believe(revision uint64) bool {
	if revision < p.revision && p.stale < staleReads-1 {
		p.stale++
		return false
	}
	p.revision, p.stale = revision, 0
	return true
}

func (e *election) pollOne(ctx context.Context, key string, p *polled) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.ConnectionTimeout)
	defer cancel()
	entry, err := e.sheltered().Get(ctx, key)
	if err == nil && p.believe(entry.Revision) {
		e.mail.sight(entry, key != e.cfg.Group)
	}
	return err
}

// followConn turns changes of the connection into events until stop is called.
func (e *election) followConn() (stop func()) {
	c, ok := e.store.(store.ConnReporter)
	if !ok {
		return func() {}
	}
	// The present state, and not the one that is told: what is put last is then the latest, whichever
	// of the store's call and our own first look comes first.
	var mu sync.Mutex
	tell := func(store.ConnState) {
		e.guard("connection", func() {
			mu.Lock()
			defer mu.Unlock()
			kind := machine.ConnDown
			switch e.connOf(c) {
			case store.Connected:
				kind = machine.ConnUp
			case store.Closed:
				e.mail.put(letter{closed: ErrConnectionClosed})
			default:
			}
			e.mail.event(machine.Event{Kind: kind})
		})
	}
	stop = e.onConnState(c, tell)
	if s := e.connOf(c); s != store.Connected {
		tell(s)
	}
	return stop
}

// followHealth asks the HealthChecker with every HealthCheckInterval and tells the loop when its
// verdict changes. A check that hangs fails again with every interval, but no second one is
// begun beside it.
func (e *election) followHealth(ctx context.Context) {
	tick := time.NewTicker(e.cfg.HealthCheckInterval)
	defer tick.Stop()
	verdict := make(chan bool, 1)
	running, failed := false, false // a check is under way, and has failed by its length
	var begun time.Time             // when the latest check was
	for {
		faults.Point("health")
		select {
		case ok := <-verdict:
			if !failed {
				e.judgeHealth(ok)
			}
			running, failed = false, false
		case <-tick.C:
			if running {
				failed = true
				e.judgeHealth(false)
				continue
			}
			running, begun = true, time.Now()
			go e.askHealth(ctx, verdict)
		case <-ctx.Done():
			if running {
				// Nothing is to outlive Stop, so that the program may then close what the check looks at. But Stop does
				// not hang with a check that has outlived its own time, too.
				sleepUnless(verdict, time.Until(begun.Add(e.cfg.HealthCheckTimeout)))
			}
			return
		}
	}
}

// askHealth makes one check. Its verdict is deferred, since runtime.Goexit in the check ends this goroutine.
func (e *election) askHealth(ctx context.Context, verdict chan<- bool) {
	ok := false
	defer func() { verdict <- ok }()
	shield.Call(func() {
		faults.Point("check")
		ok = e.healthy(ctx)
	}, e.reportPanic("the health check"))
}

// judgeHealth takes in one verdict.
func (e *election) judgeHealth(ok bool) {
	limit, failures := e.cfg.MaxConsecutiveFailures, e.failures
	if ok {
		e.failures = 0
		if failures >= limit {
			e.mail.event(machine.Event{Kind: machine.Unbar, Bars: machine.Unhealthy})
		}
		return
	}
	e.failures = min(failures+1, limit)
	if failures+1 == limit {
		e.mail.event(machine.Event{
			Kind: machine.Bar, Bars: machine.Unhealthy, Exit: machine.Exit{Reason: machine.ReasonUnhealthy},
		})
	}
}

// healthy makes one check. One that returns after its time has failed.
func (e *election) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.HealthCheckTimeout)
	defer cancel()
	var ok bool
	shield.Call(func() { ok = e.cfg.HealthChecker.Check(ctx) }, e.reportPanic("health check"))
	return ok && ctx.Err() == nil
}

// sleepUnless waits for d, or until something comes in over c.
func sleepUnless(c <-chan bool, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c:
	}
}

// sleep waits for d, and reports whether ctx was not done before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
