//go:build unix

package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A GuardCommand is the process that starts the program and ends it in time: see the package documentation.
type GuardCommand struct{}

// The guard's files besides the standard ones, which are the program's.
const (
	ordersFD  = 3
	reportsFD = 4
)

// killInterval is the time from one round of SIGKILL to the next, for those who fork meanwhile.
const killInterval = 10 * time.Millisecond

// Run guards one run of a program.
func (GuardCommand) Run() error {
	// The program must not hold them: their end tells of ours.
	syscall.CloseOnExec(ordersFD)
	syscall.CloseOnExec(reportsFD)
	orders, reports := os.NewFile(ordersFD, "orders"), os.NewFile(reportsFD, "reports")
	in := json.NewDecoder(orders)
	var first order
	if err := in.Decode(&first); err != nil || first.Op != opStart {
		return fmt.Errorf("run-guard is for leader run to start, and wants its orders on file %d: %w", ordersFD, err)
	}
	if err := adopt(); err != nil {
		return err
	}
	// Whoever signals all of a program's processes by name means the candidate, which passes it on. Not signal.Ignore, which
	// the program would inherit.
	signal.Notify(make(chan os.Signal, 1), passedOn()...)
	g := &guard{reaper: newReaper(), out: json.NewEncoder(reports), limits: first.Limits, until: first.Until}
	defer g.reaper.close()
	return g.run(first, decodeOrders(in))
}

func decodeOrders(in *json.Decoder) <-chan order {
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

// A guard is the state of one run of a program.
type guard struct {
	reaper *reaper
	alarm  *alarm
	out    *json.Encoder
	limits limits

	until    int64 // the end of the trust window
	pid      int   // of the program
	ended    <-chan syscall.WaitStatus
	status   *syscall.WaitStatus // of the program, once it has ended
	stopping string              // why, or empty
	killBy   int64               // the end of the stop-timeout, while stopping
}

func (g *guard) run(first order, orders <-chan order) (err error) {
	if g.alarm, err = newAlarm(); err != nil {
		return err
	}
	defer g.alarm.close()
	if !g.ready(orders) {
		return g.report(report{Event: evEnded, Err: errLate.Error()})
	}
	g.pid, g.ended, err = g.reaper.start(first.Path, first.Argv, &syscall.ProcAttr{
		Env: first.Env, Files: []uintptr{0, 1, 2}, Sys: childAttr(),
	})
	if err != nil {
		return g.report(report{Event: evEnded, Code: exitCannotRun, Err: err.Error()})
	}
	_ = g.report(report{Event: evStarted, PID: g.pid}) // who does not listen has died, and the orders will say so
	for !g.finished() {
		if err := g.alarm.set(g.next()); err != nil {
			g.kill()
			return err
		}
		select {
		case o, ok := <-orders:
			if !ok {
				orders, o = nil, order{Op: opOrphan}
			}
			g.obey(o)
		case status := <-g.ended:
			g.ended, g.status = nil, &status
		case <-g.reaper.changed:
		case <-g.alarm.C:
		}
		g.act(sharedNow())
	}
	return g.report(g.result())
}

// ready waits until enough of the trust window is left to start the program. It reports false if there is nothing to start any
// more. While this process began, which on a busy host takes longer than a short lease, renewals may have come: they
// are among the orders. Nothing runs yet that would have to end in time, so that it may wait for the next one.
func (g *guard) ready(orders <-chan order) bool {
	for sharedNow() >= g.limits.stopAt(g.until) {
		o, ok := <-orders
		if !ok || o.Op == opStop || o.Op == opSignal && ends(syscall.Signal(o.Signal)) {
			return false
		}
		g.obey(o)
	}
	return true
}

var errLate = errors.New("the trust window was about to close before the program could be started")

func (g *guard) obey(o order) {
	switch o.Op {
	case opTrust:
		g.until = max(g.until, o.Until)
	case opSignal:
		g.reaper.signal(g.pid, syscall.Signal(o.Signal), true)
	case opStop:
		g.stop(whyTold)
	case opOrphan:
		g.stop(whyOrphan)
	default:
	}
}

// next is when something is due.
func (g *guard) next() int64 {
	if g.stopping == "" {
		return g.limits.stopAt(g.until)
	}
	return max(g.deadline(), sharedNow()+int64(killInterval))
}

// deadline is when all must be dead, while stopping. A renewal moves it, but never past the stop-timeout.
func (g *guard) deadline() int64 { return min(g.killBy, g.limits.killAt(g.until)) }

func (g *guard) act(now int64) {
	switch {
	case g.stopping == "" && g.status != nil:
		g.stop(whyRest)
	case g.stopping == "" && now >= g.limits.stopAt(g.until):
		g.stop(whySilent)
	}
	if g.stopping != "" && now >= g.deadline() {
		g.kill()
	}
}

// stop asks all to end. Who is stopped is continued, so that it can.
func (g *guard) stop(why string) {
	if g.stopping != "" || g.finished() {
		return
	}
	g.stopping, g.killBy = why, sharedNow()+int64(g.limits.Stop)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		g.signalAll(sig)
	}
	_ = g.report(report{Event: evStopping, Why: why}) // as above
}

func (g *guard) kill() { g.signalAll(syscall.SIGKILL) }

// signalAll signals the program's group at once, and then who has left it.
func (g *guard) signalAll(sig syscall.Signal) {
	whole := g.reaper.signal(g.pid, sig, true)
	signalBelow(sig, g.pid, whole)
}

// finished reports whether the program has ended and nothing is left of it.
func (g *guard) finished() bool {
	return g.status != nil && g.reaper.childless() && groupGone(g.pid)
}

func (g *guard) report(r report) error {
	err := g.out.Encode(r)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return nil // nobody is left to be told
	}
	return err
}

func (g *guard) result() report {
	r := report{Event: evEnded, Code: g.status.ExitStatus()}
	if g.status.Signaled() {
		r.Signal = int(g.status.Signal())
		r.Code = exitSignal + r.Signal
	}
	return r
}
