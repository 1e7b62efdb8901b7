//go:build unix

package runner

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"time"
)

// A custody is one run of the program, as the candidate sees it: through its guard.
type custody struct {
	r      *runner
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
func (r *runner) take(term string, first order) (c *custody, err error) {
	own, err := r.cgroups.make()
	if err != nil && r.needCgroup {
		return nil, err
	}
	first.Cgroup, first.NeedCgroup = string(own), r.needCgroup
	if c, err = r.engage(term); err != nil {
		own.remove()
		return nil, err
	}
	c.cgroup = own
	c.order(first)
	return c, nil
}

// engage starts a guard.
func (r *runner) engage(term string) (*custody, error) {
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
	c := &custody{r: r, term: term, orders: ordersW, told: make(chan report)}
	self, err := executable()
	if err == nil {
		// A session of its own: what stops or ends the candidate's process group is not to reach the guard.
		c.guard, c.exited, err = r.reaper.start(self, []string{"leader", "run-guard"}, &syscall.ProcAttr{
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

func (c *custody) listen(reports *os.File) {
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
func (c *custody) order(o order) {
	b, err := json.Marshal(o)
	if err == nil && c.orders.SetWriteDeadline(time.Now().Add(orderPatience)) == nil {
		_, _ = c.orders.Write(append(b, '\n'))
	}
}

// follow passes on what the guard must know until the program and all of its own have ended.
func (c *custody) follow(ctx context.Context) verdict {
	defer func() { _ = c.orders.Close() }()
	look := time.NewTicker(min(max(c.r.limits.Margin/4, 5*time.Millisecond), 200*time.Millisecond))
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
		case sig := <-c.r.passing:
			c.order(order{Op: opSignal, Signal: int(sig)})
		case <-c.r.window.moved:
			c.order(order{Op: opTrust, Until: c.r.window.end(c.term)})
		case <-look.C:
			c.r.clock.sample()
			c.overdue()
		}
	}
	c.clear()
	late := c.last.Err != "" && c.last.Code == 0
	return verdict{code: c.last.Code, err: c.last.Err, ended: c.over && !late, late: late, broken: c.silent || !c.over}
}

func (c *custody) hear(ctx context.Context, r report) {
	switch r.Event {
	case evStarted:
		c.pid = r.PID
		c.r.say("started %s as process %d", c.r.argv[0], r.PID)
	case evStopping:
		c.silent = c.silent || r.Why == whySilent
		c.r.say("stopping %s: %s", c.r.argv[0], stopReasons(r.Why))
	case evAhead:
		c.r.say("%s", aheadWords(r.Denied, os.Geteuid()))
	case evDeaf:
		c.r.say("%s", deafWords(syscall.Signal(r.Signal), r.Denied, os.Geteuid()))
	case evDenied:
		c.deny(append(r.Denied, c.denied...))
		if c.silent {
			// It is being stopped and will not end soon: who asks is not to be told that we lead.
			_ = c.r.at.Load().e.Resign(ctx) // the callback that calls it does not wait; the record is kept until it returns
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
func (c *custody) deny(all []survivor) {
	c.denied = all
	if news := c.named.news(all); len(news) > 0 {
		c.r.say("%s", deniedWords(news, os.Geteuid()))
	}
}

// overdue kills the guard and all below it if it did not do its work in the first half of the margin.
func (c *custody) overdue() {
	now, end := sharedNow(), c.r.window.end(c.term)
	if now >= end-int64(c.r.limits.Margin/2) && c.hunt.ready(now) {
		c.r.reaper.signal(c.guard, syscall.SIGKILL, false)
		c.kill(now)
	}
	c.lapse(now, end)
}

// lapse tells the user, once, that the trust window has closed on processes that
// live.
func (c *custody) lapse(now, end int64) {
	if len(c.denied) > 0 && !c.lapsed && now >= end {
		c.lapsed = true
		c.r.say("%s", lapsedWords(c.denied))
	}
}

// kill kills all that is left of the program, and reports whether there was anything.
func (c *custody) kill(now int64) bool {
	killed := c.cgroup.kill()
	met := killBelow(c.pid, c.r.aside)
	c.hunt.took(now, met)
	if killed {
		met.denied = c.cgroup.excuse(met.denied)
	}
	c.deny(met.denied)
	return len(met.found) > 0 || c.cgroup.populated()
}

// clear waits for the guard's end, and ends what a guard that was killed has left to us.
func (c *custody) clear() {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for c.r.reaper.runs(c.guard) || c.kill(sharedNow()) {
		rest := killInterval
		if c.r.reaper.runs(c.guard) {
			if !c.over {
				c.r.reaper.signal(c.guard, syscall.SIGKILL, false) // it cannot report any more
			}
		} else {
			rest = c.hunt.rest
			c.lapse(sharedNow(), c.r.window.end(c.term))
		}
		retry.Reset(rest)
		select {
		case <-c.exited:
		case <-c.r.reaper.changed:
		case <-retry.C:
		}
	}
	if len(c.named) > 0 {
		c.r.say("what could not be ended has ended by itself")
	}
	c.cgroup.remove()
}
