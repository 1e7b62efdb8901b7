//go:build unix

package runner

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"time"
)

// A parent starts the program, each time through a guard of its own.
type parent struct {
	reaper  *reaper
	clock   *suspendClock
	window  *window
	limits  limits
	passing chan syscall.Signal // to the program that runs

	cgroups    cgroups // where the program's are made
	needCgroup bool    // it is not to run without one

	// aside reports whether a process is none of the program's.
	aside func(pid int) bool
	// stuck is called when the program is to end, and does not.
	stuck func(ctx context.Context)
	say   func(format string, args ...any)
}

// A child is one run of the program, as the candidate sees it: through its
// guard.
type child struct {
	*parent

	name   string // of the program, for people
	term   string // correlation of the term
	guard  int    // its process
	pid    int    // of the program, and of its group
	exited <-chan syscall.WaitStatus
	orders *os.File
	told   chan report // closed at the end of the reports
	last   report
	silent bool // the guard stopped the program by itself
	over   bool // the end was reported
	cgroup cgroup

	hunt   hunt
	named  naming
	denied []survivor // who lives and cannot be ended, by the last look
	lapsed bool       // the user knows that the trust window has closed all the same
}

// A verdict is how a run ended.
type verdict struct {
	code int
	err  string // why the program could not be started
	// ended: code is the program's.
	ended bool
	// late: too little of the trust window was left to start it.
	late bool
	// broken: it ended without the program's or our will, and the term is not to go on.
	broken bool
}

// orderPatience bounds the write of an order. A guard that reads none for so long is dealt with by the deadline.
const orderPatience = 50 * time.Millisecond

// take starts a guard, which starts the program, in a cgroup of its own if there
// is one to be had.
func (p *parent) take(term string, first order) (c *child, err error) {
	own, err := p.cgroups.make()
	if err != nil && p.needCgroup {
		return nil, err
	}
	first.Op, first.Limits, first.Until = opStart, p.limits, p.window.end(term)
	first.Cgroup, first.NeedCgroup = string(own), p.needCgroup
	if c, err = p.engage(term); err != nil {
		own.remove()
		return nil, err
	}
	c.cgroup, c.name = own, first.Argv[0]
	c.order(first)
	return c, nil
}

// engage starts a guard.
func (p *parent) engage(term string) (*child, error) {
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
	c := &child{parent: p, term: term, orders: ordersW, told: make(chan report)}
	self, err := executable()
	if err == nil {
		// A session of its own: what stops or ends the candidate's process group is not to reach the guard.
		c.guard, c.exited, err = p.reaper.start(self, []string{"leader", "run-guard"}, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2, ordersR.Fd(), reportsW.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
	}
	if err != nil {
		_, _ = ordersW.Close(), reportsR.Close()
		return nil, err
	}
	go c.listen(reportsR)
	return c, nil
}

func (c *child) listen(reports *os.File) {
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

// order tells the guard something. One that cannot be told acts by the last deadline that it knows.
func (c *child) order(o order) {
	b, err := json.Marshal(o)
	if err == nil && c.orders.SetWriteDeadline(time.Now().Add(orderPatience)) == nil {
		_, _ = c.orders.Write(append(b, '\n'))
	}
}

// follow passes on what the guard must know until the program and all of its own have ended.
func (c *child) follow(ctx context.Context) verdict {
	defer func() { _ = c.orders.Close() }()
	look := time.NewTicker(min(max(c.limits.Margin/4, 5*time.Millisecond), 200*time.Millisecond))
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
			c.order(order{Op: opStop})
		case sig := <-c.passing:
			c.order(order{Op: opSignal, Signal: int(sig)})
		case <-c.window.moved:
			c.order(order{Op: opTrust, Until: c.window.end(c.term)})
		case <-look.C:
			c.clock.sample()
			c.overdue()
		}
	}
	c.clear()
	late := c.last.Err != "" && c.last.Code == 0
	return verdict{code: c.last.Code, err: c.last.Err, ended: c.over && !late, late: late, broken: c.silent || !c.over}
}

func (c *child) hear(ctx context.Context, r report) {
	switch r.Event {
	case evStarted:
		c.pid = r.PID
		c.say("started %s as process %d", c.name, r.PID)
	case evStopping:
		c.silent = c.silent || r.Why == whySilent
		c.say("stopping %s: %s", c.name, stopReasons(r.Why))
	case evAhead:
		c.say("%s", aheadWords(r.Denied, os.Geteuid()))
	case evDeaf:
		c.say("%s", deafWords(syscall.Signal(r.Signal), r.Denied, os.Geteuid()))
	case evDenied:
		c.deny(append(r.Denied, c.denied...))
		if c.silent {
			// It is being stopped and will not end soon: who asks is not to be told that we lead.
			c.stuck(ctx)
		}
	case evEnded:
		c.last, c.over = r, true
	default:
	}
}

func stopReasons(why string) string {
	switch why {
	case whySilent:
		return "no renewal was acknowledged in time"
	case whyRest:
		return "it ended, and left processes behind"
	default:
		return "the term is over"
	}
}

// deny takes in who cannot be ended, and tells of them, once.
func (c *child) deny(all []survivor) {
	c.denied = all
	if news := c.named.news(all); len(news) > 0 {
		c.say("%s", deniedWords(news, os.Geteuid()))
	}
}

// overdue kills the guard and all below it if it did not do its work in the first half of the margin.
func (c *child) overdue() {
	now, end := sharedNow(), c.window.end(c.term)
	if now >= end-int64(c.limits.Margin/2) && c.hunt.ready(now) {
		c.reaper.signal(c.guard, syscall.SIGKILL, false)
		c.kill(now)
	}
	c.lapse(now, end)
}

// lapse tells the user, once, that the trust window has closed on processes that
// live.
func (c *child) lapse(now, end int64) {
	if len(c.denied) > 0 && !c.lapsed && now >= end {
		c.lapsed = true
		c.say("%s", lapsedWords(c.denied))
	}
}

// kill kills all that is left of the program, and reports whether there was anything.
func (c *child) kill(now int64) bool {
	killed := c.cgroup.kill()
	met := killBelow(c.pid, c.aside)
	c.hunt.took(now, met)
	if killed {
		met.denied = c.cgroup.excuse(met.denied)
	}
	c.deny(met.denied)
	return len(met.found) > 0 || c.cgroup.populated()
}

// clear waits for the guard's end, and ends what a guard that was killed has left to us.
func (c *child) clear() {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for c.reaper.runs(c.guard) || c.kill(sharedNow()) {
		rest := killInterval
		if c.reaper.runs(c.guard) {
			if !c.over {
				c.reaper.signal(c.guard, syscall.SIGKILL, false) // it cannot report any more
			}
		} else {
			rest = c.hunt.rest
			c.lapse(sharedNow(), c.window.end(c.term))
		}
		retry.Reset(rest)
		select {
		case <-c.exited:
		case <-c.reaper.changed:
		case <-retry.C:
		}
	}
	if len(c.named) > 0 {
		c.say("what could not be ended has ended by itself")
	}
	c.cgroup.remove()
}
