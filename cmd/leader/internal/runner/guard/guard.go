//go:build unix

package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/clock"
)

// A Command is the command line of the process that starts the program and ends
// it in time. The command is hidden: leader run starts its own file again with
// it. A second process it has to be, since one that is frozen or killed ends
// nothing.
//
// Its arguments are the numbers of its two pipes, which have defaults for a
// leader run of an earlier version whose file was replaced.
type Command struct {
	Orders  int `arg:"" optional:"" default:"3"`
	Reports int `arg:"" optional:"" default:"4"`
}

// Run guards one run of a program.
func (c Command) Run() error {
	// The program must not hold them: their end reports the guard's.
	syscall.CloseOnExec(c.Orders)
	syscall.CloseOnExec(c.Reports)
	orders, reports := os.NewFile(uintptr(c.Orders), "orders"), os.NewFile(uintptr(c.Reports), "reports")
	in := json.NewDecoder(orders)
	var first Order
	if err := in.Decode(&first); err != nil || first.Op != opStart {
		return fmt.Errorf("run-guard is for leader run to start, and wants its orders on file %d: %w", c.Orders, err)
	}
	// Before the program starts: whatever it orphaned earlier would go to the
	// candidate, which looks for it only at the end.
	if err := process.Adopt(); err != nil {
		return err
	}
	// A signal to all processes of a program's name is meant for the candidate,
	// which passes it on. Not signal.Ignore, which the program would inherit.
	signal.Notify(make(chan os.Signal, 1), Signals()...)
	g := &guard{
		Reaper: process.NewReaper(), out: json.NewEncoder(reports), Err: os.Stderr, Limits: first.Limits, ending: first.Ending, until: first.Until,
		cgroup: process.Cgroup(first.Cgroup), doubt: !process.MaySignalAll(),
	}
	defer g.Reaper.Close()
	return g.run(first, decodeOrders(in))
}

// decodeOrders decodes on a separate goroutine, so that run can wait for other
// things as well. The channel is closed at the end of the orders: the candidate
// has ended then, since nobody else holds the pipe's other end. Malformed input
// counts as the end, too: it is safer to end the program than to guess.
func decodeOrders(in *json.Decoder) <-chan Order {
	orders := make(chan Order)
	go func() {
		defer close(orders)
		for {
			var o Order
			if in.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

// A guard is the state of one run of a program.
//
// Only the goroutine of run touches it. It waits by the shared clock alone, and
// next returns the first of its instants.
type guard struct {
	Reaper *process.Reaper
	alarm  *clock.Alarm
	out    *json.Encoder
	Err    io.Writer // for the user, once nobody takes in the reports
	Limits Limits
	ending Ending
	cgroup process.Cgroup

	until    int64 // the end of the trust window
	pid      int   // of the program
	Ended    <-chan syscall.WaitStatus
	status   *syscall.WaitStatus // of the program, once it has ended
	stopping string              // why, or empty
	killBy   int64               // the end of the stop-timeout, while stopping

	retry  process.Retry
	named  process.Named
	denied []process.Survivor // who lives and cannot be ended, by the last look
	lapsed bool               // the user knows that the trust window has closed all the same

	doubt  bool          // we may not signal the processes of all users
	lookAt int64         // when to look next whether there are such
	looked time.Duration // the backoff before that
	ahead  process.Named // who was found then
	orphan bool          // the candidate has died
	linger int64         // until when the cgroup may lag behind the last child's end
}

func (g *guard) run(first Order, orders <-chan Order) (err error) {
	if g.alarm, err = clock.NewAlarm(); err != nil {
		return err
	}
	defer g.alarm.Close()
	if !g.ready(orders) {
		return g.report(report{Event: evEnded, Err: errLate.Error()})
	}
	if err = g.start(first); err != nil {
		return g.report(report{Event: evEnded, Code: ExitCannotRun, Err: err.Error()})
	}
	// A candidate that does not listen has died, and the end of the orders will
	// show that.
	_ = g.report(report{Event: evStarted, PID: g.pid})
	g.look(clock.Now())
	for !g.finished() {
		// A guard that cannot be woken in time must not go on: it would sleep
		// beyond the deadline.
		if err := g.alarm.Set(g.next()); err != nil {
			g.kill(clock.Now())
			return err
		}
		select {
		case o, ok := <-orders:
			if !ok {
				orders, o = nil, Order{Op: opOrphan}
			}
			g.obey(o)
		case status := <-g.Ended:
			g.Ended, g.status, g.linger = nil, &status, clock.Now()+int64(cgroupPatience)
		case <-g.Reaper.Changed:
		case <-g.alarm.C:
		}
		g.act(clock.Now())
	}
	g.cgroup.Remove() // the candidate may have died, and does it otherwise
	return g.report(g.result())
}

// start starts the program with the standard files of leader run, in the cgroup
// that the candidate made for it. Without that cgroup it starts it all the
// same, unless the candidate needs one: a descendant that changes its user
// would then be out of reach.
func (g *guard) start(first Order) (err error) {
	attr := &syscall.ProcAttr{Env: first.Env, Files: []uintptr{0, 1, 2}, Sys: process.ChildAttr()}
	if g.cgroup == "" {
		g.pid, g.Ended, err = g.Reaper.Start(first.Path, first.Argv, attr)
		return err
	}
	dir, err := g.cgroup.Enter(attr.Sys)
	if err == nil {
		g.pid, g.Ended, err = g.Reaper.Start(first.Path, first.Argv, attr)
		_ = dir.Close()
	}
	if err == nil || first.NeedCgroup {
		return err
	}
	// The error does not reveal whether the cgroup or the program failed.
	g.cgroup, attr.Sys = "", process.ChildAttr()
	g.pid, g.Ended, err = g.Reaper.Start(first.Path, first.Argv, attr)
	return err
}

// ready waits until enough of the trust window is left to start the program. It
// reports false if there is nothing to start any more. While this process
// began, which on a busy host takes longer than a short lease, renewals may
// have come: they are among the orders. Nothing runs yet that would have to end
// in time, so that it may wait for the next one.
func (g *guard) ready(orders <-chan Order) bool {
	for clock.Now() >= g.Limits.stopAt(g.until) {
		o, ok := <-orders
		if !ok || o.Op == opStop || o.Op == opSignal && Ends(syscall.Signal(o.Signal)) {
			return false
		}
		g.obey(o)
	}
	return true
}

var errLate = errors.New("the trust window was about to close before the program could be started")

// obey carries out an order. Orders come late where the candidate was held up,
// and deadlines among them may be older than what is known: they never take
// time back.
func (g *guard) obey(o Order) {
	switch o.Op {
	case opTrust:
		g.until = max(g.until, o.Until)
	case opSignal:
		sent := syscall.Signal(o.Signal)
		sig := g.ending.passed(sent)
		if Ends(sent) && g.ending.Bounded && g.stopping == "" {
			g.stop(whyAsked, sig)
			return
		}
		// The group and not all descendants, as a terminal does: a process that
		// left the group has asked not to be signalled.
		g.Reaper.Signal(g.pid, sig, !g.ending.Alone)
		if Ends(sent) {
			// The user must know: the end that they wait for may not come.
			g.deaf(sig, process.SignalBelow(0, g.pid, true).Denied)
		}
	case opStop:
		g.stop(whyTold, g.ending.signal())
	case opOrphan:
		g.orphan = true
		g.stop(whyOrphan, g.ending.signal())
	default:
	}
}

// next returns when act has something to do at the latest, if nothing happens
// before.
func (g *guard) next() int64 {
	due := g.Limits.stopAt(g.until)
	switch {
	case g.stopping != "" && len(g.denied) > 0 && !g.lapsed:
		return min(max(g.deadline(), g.retry.Due), g.until)
	case g.stopping != "" && g.ended() && clock.Now() < g.deadline():
		return min(g.deadline(), clock.Now()+int64(process.KillInterval)) // for the cgroup
	case g.stopping != "":
		return max(g.deadline(), g.retry.Due)
	case g.status != nil:
		return min(due, clock.Now()+int64(process.KillInterval)) // as above
	case g.lookAt != 0:
		return min(due, g.lookAt)
	default:
		return due
	}
}

// deadline is when all must be dead, while stopping. A renewal moves it, but
// never past the stop-timeout.
func (g *guard) deadline() int64 { return min(g.killBy, g.Limits.killAt(g.until)) }

// act does what is due. It runs after each event, whatever that was: so no
// event has to know what the others make due.
func (g *guard) act(now int64) {
	switch {
	case g.stopping == "" && g.status != nil && !g.lags(now):
		g.stop(whyRest, g.ending.signal())
	case g.stopping == "" && now >= g.Limits.stopAt(g.until):
		g.stop(whySilent, g.ending.signal())
	case g.stopping == "" && g.lookAt != 0 && now >= g.lookAt:
		g.look(now)
	}
	if g.stopping != "" && g.ending.Alone && g.status != nil && !g.lags(now) {
		g.killBy = min(g.killBy, now) // nobody is left who could end the rest
	}
	// Not in the switch: a stop that comes at the deadline itself, after a
	// suspension for example, is followed by SIGKILL at once.
	if g.stopping != "" && now >= g.deadline() && g.retry.Ready(now) {
		g.kill(now)
	}
	if g.stopping != "" && len(g.denied) > 0 && !g.lapsed && now >= g.until {
		g.lapsed = true
		g.say(process.LapsedWords(g.denied))
	}
}

// The backoff before the guard looks again for processes that it may not
// signal.
const (
	minLookBackoff = time.Second
	maxLookBackoff = time.Minute
)

// look finds processes that may not be signalled while there is time to do
// something about them, and not only when they have to end. The first call, at
// the start, only sets the time: nothing has had time to change its user.
func (g *guard) look(now int64) {
	if !g.doubt {
		return
	}
	if g.looked != 0 {
		news := g.ahead.News(g.cgroup.Excuse(process.SignalBelow(0, g.pid, true).Denied))
		if len(news) > 0 {
			_ = g.report(report{Event: evAhead, Denied: news}) // as above
		}
	}
	g.looked = min(max(2*g.looked, minLookBackoff), maxLookBackoff)
	g.lookAt = now + int64(g.looked)
}

// stop asks all to end, by a signal. A stopped process is continued, so that it
// can. The signal goes first, so that it is the first thing that a process meets
// when it is continued.
//
// Processes that the signal does not reach are reported separately: the
// cgroup's SIGKILL will reach the deaf, and nothing the denied. Both are
// reported now, while there is time to act.
func (g *guard) stop(why string, sig syscall.Signal) {
	if g.stopping != "" || g.finished() {
		return
	}
	g.stopping, g.killBy = why, clock.Now()+int64(g.Limits.Stop)
	met := g.ask(sig).Denied
	g.signalAll(syscall.SIGCONT)
	_ = g.report(report{Event: evStopping, Why: why}) // as above
	stuck := g.cgroup.Excuse(met)
	if len(stuck) < len(met) {
		g.deaf(sig, met)
	}
	g.deny(stuck)
}

// kill sends SIGKILL to all. The cgroup goes first, since nobody in it can fork
// away meanwhile; processes that have left it are then found below this
// process. A process that neither reached is denied, and retry decides when to
// try again.
func (g *guard) kill(now int64) {
	killed := g.cgroup.Kill()
	met := g.signalAll(syscall.SIGKILL)
	g.retry.Took(now, met)
	if killed {
		met.Denied = g.cgroup.Excuse(met.Denied)
	}
	g.deny(met.Denied)
}

// ask sends the signal of a stop to its targets. Processes that cannot be
// signalled are found in either case: SIGKILL is for all.
func (g *guard) ask(sig syscall.Signal) process.Round {
	if !g.ending.Alone {
		return g.signalAll(sig)
	}
	g.Reaper.Signal(g.pid, sig, false)
	return process.SignalBelow(0, g.pid, true)
}

// signalAll signals the program's group at once, and then who has left it. The
// group goes first, since one call reaches it as a whole, and nobody in it
// forks away from it.
func (g *guard) signalAll(sig syscall.Signal) process.Round {
	whole := g.Reaper.Signal(g.pid, sig, true)
	return process.SignalBelow(sig, g.pid, whole)
}

// deny records the processes that cannot be ended, and reports them, once. If
// the candidate has died, nobody reads the report, and the guard informs the
// user itself.
func (g *guard) deny(all []process.Survivor) {
	g.denied = all
	if news := g.named.News(all); len(news) > 0 {
		_ = g.report(report{Event: evDenied, Denied: news}) // as above
		if g.orphan {
			g.say(process.DeniedWords(news, os.Geteuid()))
		}
	}
}

// deaf reports processes that a signal does not reach.
func (g *guard) deaf(sig syscall.Signal, all []process.Survivor) {
	if len(all) > 0 {
		// As with evStarted, the end of the orders will show if nobody listens.
		_ = g.report(report{Event: evDeaf, Signal: int(sig), Denied: all[:min(len(all), process.MaxNamed)]})
	}
}

// say informs the user, where the candidate does not. It does not wait: perhaps
// nobody reads that, either, a full pipe would hold it up, and the guard has
// work to do.
func (g *guard) say(words string) {
	go func() { fmt.Fprintln(g.Err, "leader:", words) }()
}

// finished reports whether nothing is left of the program. On Linux a child
// accounts for all below it, and the cgroup may hold others still; elsewhere
// the group is all there is to ask.
func (g *guard) finished() bool { return g.ended() && !g.cgroup.Populated() }

// ended is finished without the cgroup, whose own news no event brings.
func (g *guard) ended() bool {
	return g.status != nil && g.Reaper.Childless() && process.GroupGone(g.pid)
}

// cgroupPatience is how long a cgroup may lag behind the end of its last
// process. Without it an ordinary end would sometimes be reported as leaving
// processes behind.
const cgroupPatience = 100 * time.Millisecond

// lags reports whether only the cgroup shows remaining processes, which may be
// out of date.
func (g *guard) lags(now int64) bool {
	return now < g.linger && g.Reaper.Childless() && process.GroupGone(g.pid)
}

// report sends a report to the candidate. A candidate that is gone is not an
// error: the orders end at the same time, and the guard goes on to end the
// program.
func (g *guard) report(r report) error {
	err := g.out.Encode(r)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return nil // no reader is left
	}
	return err
}

// result is the last report: the program's own status, as a shell gives it,
// also where the guard has ended it.
func (g *guard) result() report {
	r := report{Event: evEnded, Code: g.status.ExitStatus()}
	if g.status.Signaled() {
		r.Signal = int(g.status.Signal())
		r.Code = ExitSignal + r.Signal
	}
	return r
}
