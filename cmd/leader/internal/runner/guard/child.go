//go:build unix

// Package guard starts the program of leader run and ends it in time.
//
// It has two sides. A guard is a separate process: it starts the program, and
// kills it and all that descends from it by the deadline that it received last.
// The parent is the candidate's: it starts guards, sends them the end of the
// lease's trust, and kills what a dead or stopped guard has left. Orders go
// down and reports come up by two pipes.
package guard

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/clock"
)

// A Parent starts the program, each time through a new guard. Its methods run
// on the goroutine of the callback that leads; Window, Clock and Passing are
// shared with other goroutines.
type Parent struct {
	Reaper  *process.Reaper
	Clock   *clock.Clock
	Window  *clock.Window
	Limits  Limits
	Ending  Ending
	Passing chan syscall.Signal // to the program that runs

	Cgroups    process.Cgroups // where the program's are made
	NeedCgroup bool            // it is not to run without one

	// Aside reports whether a process is none of the program's.
	Aside func(pid int) bool
	// Stuck is called when the program is to end, and does not.
	Stuck func(ctx context.Context)
	Say   func(format string, args ...any)
}

// A Child is one run of the program, as the candidate sees it: through its
// guard.
type Child struct {
	*Parent

	name   string // of the program, for people
	term   string // correlation of the term
	guard  int    // its process
	pid    int    // of the program, and of its group
	exited <-chan syscall.WaitStatus
	orders *outbox
	told   chan report // closed at the end of the reports
	last   report
	silent bool // the guard stopped the program by itself
	// awaits is when the last message that leader run waits for the program's
	// end was printed, zero if it does not wait.
	awaits time.Time
	over   bool // the end was reported
	cgroup process.Cgroup

	retry  process.Retry
	named  process.Named
	denied []process.Survivor // who lives and cannot be ended, by the last look
	lapsed bool               // the user knows that the trust window has closed all the same
}

// A Verdict is how a run ended.
type Verdict struct {
	Code int
	Err  string // why the program could not be started
	// ended: code is the program's.
	Ended bool
	// late: too little of the trust window was left to start it.
	Late bool
	// broken: it ended without the program's or our will, and the term is not
	// to go on.
	Broken bool
}

// Start starts a guard, which starts the program, in a separate cgroup if one
// can be made. The candidate makes the cgroup, since it has to remove it when
// the guard was killed.
//
// It returns before the program runs. Whether it could be started is in the
// Verdict of Follow.
func (p *Parent) Start(term string, first Order) (c *Child, err error) {
	own, err := p.Cgroups.Make()
	if err != nil && p.NeedCgroup {
		return nil, err
	}
	first.Op, first.Limits, first.Ending, first.Until = opStart, p.Limits, p.Ending, p.Window.End(term)
	first.Cgroup, first.NeedCgroup = string(own), p.NeedCgroup
	if c, err = p.engage(term); err != nil {
		own.Remove()
		return nil, err
	}
	c.cgroup, c.name = own, first.Argv[0]
	c.orders.put(activated(first))
	return c, nil
}

// activated returns the order to start a program that systemd's sockets are for
// (see sd_listen_fds(3)): LISTEN_PID has to be the number of the program, and
// was ours. A shell that becomes the program knows it.
func activated(first Order) Order {
	if !slices.Contains(first.Env, "LISTEN_PID="+strconv.Itoa(os.Getpid())) {
		return first
	}
	first.Argv = append([]string{"sh", "-c", `LISTEN_PID=$$ && export LISTEN_PID && exec "$@"`, "sh", first.Path}, first.Argv[1:]...)
	first.Path = "/bin/sh"
	return first
}

// engage starts the guard's process, with the two pipes as its files. They get
// the lowest numbers that are free: files that leader run was started with are
// the program's. The candidate closes its copies of the guard's ends at once:
// the end of either process then shows as the end of a pipe.
func (p *Parent) engage(term string) (*Child, error) {
	ordersR, ordersW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = ordersR.Close() }()
	reportsR, reportsW, err := os.Pipe()
	if err != nil {
		_ = ordersW.Close()
		return nil, err
	}
	defer func() { _ = reportsW.Close() }()
	c := &Child{Parent: p, term: term, told: make(chan report)}
	self, err := process.Executable()
	if err == nil {
		// A separate session: signals to the candidate's process group must not
		// reach the guard.
		files, orders, reports := process.Beside(ordersR.Fd(), reportsW.Fd())
		c.guard, c.exited, err = p.Reaper.Start(self, []string{"leader", "run-guard", strconv.Itoa(orders), strconv.Itoa(reports)}, &syscall.ProcAttr{
			Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
		})
	}
	if err != nil {
		_, _ = ordersW.Close(), reportsR.Close()
		return nil, err
	}
	c.orders = newOutbox(ordersW)
	go c.listen(reportsR)
	return c, nil
}

// listen decodes what the guard reports, until the pipe ends. It runs on a
// separate goroutine, so that Follow can wait for other things as well.
func (c *Child) listen(reports *os.File) {
	defer close(c.told)
	defer func() { _ = reports.Close() }()
	in := json.NewDecoder(reports)
	for {
		var r report
		if in.Decode(&r) != nil {
			return
		}
		c.told <- r
	}
}

// Follow passes on what the guard must know until the program and all its
// descendants have ended. ctx is the term's; its end has the program stopped,
// and Follow waits on. The end of the reports ends the loop, whether the guard
// has done its work, was killed, or failed.
func (c *Child) Follow(ctx context.Context) Verdict {
	defer c.orders.close()
	look := time.NewTicker(min(max(c.Limits.Margin/4, 5*time.Millisecond), 200*time.Millisecond))
	defer look.Stop()
	lost := ctx.Done()
	for told := c.told; told != nil; {
		select {
		case r, ok := <-told:
			if !ok {
				told = nil
				break
			}
			c.hear(ctx, r)
		case <-lost:
			lost = nil
			c.orders.put(Order{Op: opStop})
		case sig := <-c.Passing:
			c.orders.put(Order{Op: opSignal, Signal: int(sig)})
			if Ends(sig) && !c.Ending.Bounded {
				c.await(time.Now())
			}
		case <-c.Window.Moved:
			c.orders.put(Order{Op: opTrust, Until: c.Window.End(c.term)})
		case <-look.C:
			c.Clock.Sample()
			c.overdue()
			if now := time.Now(); !c.awaits.IsZero() && now.Sub(c.awaits) >= time.Minute {
				c.await(now)
			}
		}
	}
	c.clear()
	late := c.last.Err != "" && c.last.Code == 0
	return Verdict{Code: c.last.Code, Err: c.last.Err, Ended: c.over && !late, Late: late, Broken: c.silent || !c.over}
}

// await prints that leader run ends when the program has.
func (c *Child) await(now time.Time) {
	c.awaits = now
	c.Say("waiting for %s, process %d, to end", c.name, c.pid)
}

// hear handles a report, and informs the user in words.
func (c *Child) hear(ctx context.Context, r report) {
	switch r.Event {
	case evStarted:
		c.pid = r.PID
		c.Say("started %s as process %d", c.name, r.PID)
	case evStopping:
		c.silent = c.silent || r.Why == whySilent
		c.Say("stopping %s: %s; SIGKILL follows within %v", c.name, stopReasons(r.Why), c.Limits.Stop)
	case evAhead:
		c.Say("%s", process.AheadWords(r.Denied, os.Geteuid()))
	case evDeaf:
		c.Say("%s", process.DeafWords(syscall.Signal(r.Signal), r.Denied, os.Geteuid()))
	case evDenied:
		c.deny(append(r.Denied, c.denied...))
		if c.silent {
			// It is being stopped and will not end soon: nobody may learn that
			// we lead.
			c.Stuck(ctx)
		}
	case evEnded:
		c.last, c.over = r, true
	default:
	}
}

// stopReasons returns why a program is stopped, for people. An orphan's reason
// is not included: the candidate that would print it has died.
func stopReasons(why string) string {
	switch why {
	case whySilent:
		return "no renewal was acknowledged in time"
	case whyRest:
		return "it ended, and left processes behind"
	case whyAsked:
		return "leader run was asked to end"
	default:
		return "the term is over"
	}
}

// deny records the processes that cannot be ended, and reports them, once.
func (c *Child) deny(all []process.Survivor) {
	c.denied = all
	if news := c.named.News(all); len(news) > 0 {
		c.Say("%s", process.DeniedWords(news, os.Geteuid()))
	}
}

// overdue kills the guard and all below it if it did not do its work in the
// first half of the margin. The other half is the candidate's, for its own
// SIGKILL. Since the reaper knows the guard by its number until it is
// collected, no other process is hit.
func (c *Child) overdue() {
	now, end := clock.Now(), c.Window.End(c.term)
	if now >= end-int64(c.Limits.Margin/2) && c.retry.Ready(now) {
		c.Reaper.Signal(c.guard, syscall.SIGKILL, false)
		c.kill(now)
	}
	c.lapse(now, end)
}

// lapse reports, once, that the trust window has closed on processes that live.
func (c *Child) lapse(now, end int64) {
	if len(c.denied) > 0 && !c.lapsed && now >= end {
		c.lapsed = true
		c.Say("%s", process.LapsedWords(c.denied))
	}
}

// kill kills all that is left of the program, and reports whether there was
// anything.
func (c *Child) kill(now int64) bool {
	killed := c.cgroup.Kill()
	met := process.KillBelow(c.pid, c.Aside)
	c.retry.Took(now, met)
	if killed {
		met.Denied = c.cgroup.Excuse(met.Denied)
	}
	c.deny(met.Denied)
	return len(met.Found) > 0 || c.cgroup.Populated()
}

// mourn reports why a guard ended without reporting the program's end.
func (c *Child) mourn(status syscall.WaitStatus) {
	switch {
	case c.over:
	case status.Signaled():
		c.Say("the guard of %s was ended by %v (%d): the term ends, and what is left of the program is killed", c.name, status.Signal(), int(status.Signal()))
	default:
		c.Say("the guard of %s ended with status %d: the term ends, and what is left of the program is killed", c.name, status.ExitStatus())
	}
}

// clear waits for the guard's end, and ends what a guard that was killed has
// left to us. The term is not released before it returns. A guard that has
// reported the end is left to exit by itself.
func (c *Child) clear() {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for c.Reaper.Runs(c.guard) || c.kill(clock.Now()) {
		backoff := process.KillInterval
		if c.Reaper.Runs(c.guard) {
			if !c.over {
				c.Reaper.Signal(c.guard, syscall.SIGKILL, false) // it cannot report any more
			}
		} else {
			backoff = c.retry.Backoff
			c.lapse(clock.Now(), c.Window.End(c.term))
		}
		retry.Reset(backoff)
		select {
		case status := <-c.exited:
			c.mourn(status)
		case <-c.Reaper.Changed:
		case <-retry.C:
		}
	}
	select {
	case status := <-c.exited:
		c.mourn(status)
	default:
	}
	if len(c.named) > 0 {
		c.Say("processes that could not be ended have ended by themselves")
	}
	c.cgroup.Remove()
}
