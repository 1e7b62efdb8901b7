package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/store"
)

// A stage is the place of a demo: the server, the workers, what was done to
// them and what followed. A single goroutine, play's, owns all of it; other
// goroutines post to it. So nothing is locked, and decisions see one state of
// all workers, though their reports arrive in any order. Only scene is shared.
//
// posted has some room, so that workers which report in a burst do not wait for
// each other. done is closed at the end: nobody takes in what is posted then.
type stage struct {
	plan      plan
	conn      natsconn.Flags
	url       string // for people
	domain    string
	suffix    string // of the workers' names, where other demos may take part
	worker    []string
	server    app.Server                  // nil if it is not ours, or a quorum
	elsewhere store.Store                 // of --store; nil on one NATS server
	nc        *nats.Conn                  // nil elsewhere than on NATS
	erase     func(context.Context) error // deletes the key, as other tools do

	closers []func() // what close ends in addition

	now    func() int64 // reads the machine's clock, as all times here
	begun  int64
	posted chan func()
	done   chan struct{}
	tell   func(Event)
	scene  atomic.Pointer[scene] // for the view

	processes   []*process // in the order of the view's rows
	named       int
	unborn      int    // workers that are still to be started
	latest      uint64 // the latest term that anybody was heard to lead
	script      Script // what is still to be played
	trials      []*trial
	leaderships []leadership
	detector    detector
	waiting     int64   // since when a due step has found nobody to hit; 0 if it has not
	waited      bool    // that was reported
	idleSince   int64   // since when a finished script left nothing open; 0 if it has
	members     members // of the demo's quorum; nil without one
	busy        string  // what is done to a server; empty if nothing is
	leaving     bool
	finished    bool
	failure     error
}

// A leadership is one term as the samples show it.
type leadership struct {
	worker string
	term   uint64
	from   int64 // its promotion
	seen   int64 // the last instant at which its leader was seen to lead
	hit    bool  // a fault was meant for it
}

func newStage(p plan) *stage {
	return &stage{plan: p, script: p.Script, now: monoNow, posted: make(chan func(), 64), done: make(chan struct{})}
}

// suffix makes names unlike the names of another demo in the same group.
func suffix() string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails, according to its documentation
	return "-" + hex.EncodeToString(b[:])
}

// close ends what stage made. The workers are gone by then. The server is last:
// the connections to it end in peace.
func (st *stage) close() error {
	if st.nc != nil {
		st.nc.Close()
	}
	for _, f := range st.closers {
		f()
	}
	var errs []error
	if st.server != nil {
		errs = append(errs, st.server.Close())
	}
	for _, m := range st.members {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// owned reports whether the servers are the demo's own.
func (st *stage) owned() bool { return st.server != nil || st.members != nil }

// play runs the demo to its end: until ctx is done, somebody leaves, or the
// script or the time is over. It ticks for what no message announces: a step
// that is due, and what the view shows of time. A tick is a little shorter than
// a frame of the view.
func (st *stage) play(ctx context.Context, tell func(Event)) error {
	defer pinned()()
	st.tell, st.begun = tell, st.now()
	defer close(st.done)
	st.begin()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	stop := ctx.Done()
	// stop is taken once, and makes the workers leave: the loop goes on until
	// they are gone, since they report until then.
	for !st.finished {
		select {
		case f := <-st.posted:
			f()
		case <-tick.C:
			st.tick()
		case <-stop:
			stop = nil
			st.leave()
		}
	}
	return st.verdict()
}

// verdict reports the summary, and returns its error. Two leaders are the
// worst, and decide the exit status whatever else failed; a script that was not
// played to its end is an error, since what it was to show was not shown.
func (st *stage) verdict() error {
	if !st.owned() {
		what := "bucket " + st.plan.Bucket
		if st.plan.Store != "" {
			what = "record of " + st.plan.Key
		}
		st.emit(Event{Kind: EventNote, Text: fmt.Sprintf("the %s stays on %s", what, st.url)})
	}
	st.tellOutcomes(true)
	sum := st.summary()
	st.emit(Event{Kind: EventEnd, Summary: &sum})
	st.show()
	err := st.failure
	if n := len(st.script); n > 0 && err == nil {
		err = fmt.Errorf("%d steps of the script were not played: %s", n, st.script)
	}
	if sum.TwoLeaders > 0 {
		err = errors.Join(app.ErrTwoLeaders, err)
	}
	return err
}

// post has f called by the stage's goroutine. It waits while that is busy, but
// not for a demo that is over: so workers and timers never block a goroutine
// forever.
func (st *stage) post(f func()) {
	select {
	case st.posted <- f:
	case <-st.done:
	}
}

// after posts f after d. It does nothing once the demo is ending.
func (st *stage) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		st.post(func() {
			if !st.leaving {
				f()
			}
		})
	})
}

// emit reports an event, with the current instant if it has no time.
func (st *stage) emit(e Event) {
	if e.T == 0 {
		e.T = st.offset(st.now())
	}
	st.tell(e)
}

// offset is t in seconds since the start.
func (st *stage) offset(t int64) float64 {
	return float64(time.Duration(t-st.begun).Microseconds()) / 1e6
}

// begin reports what is played, and has the ticks start the workers.
func (st *stage) begin() {
	c := st.plan
	st.emit(Event{
		Kind: EventBegin, URL: st.url, Bucket: c.Bucket, Group: c.Key, Workers: c.Workers,
		Text: fmt.Sprintf("TTL %v, heartbeat %v", c.TTL, c.Heartbeat),
	})
	if st.members != nil {
		st.closers = slices.Insert(st.closers, 0, st.members.watch(st.elsewhere, c.Key, st.post))
	}
	st.unborn = c.Workers
	st.show()
	if c.For > 0 {
		st.after(c.For, st.leave)
	}
}

// birthTime is for how long workers are started in a row: two hundred take many
// seconds, and keys are to be obeyed meanwhile.
const birthTime = 20 * time.Millisecond

// bear starts some of the workers that are still to come. Their first campaigns
// are spread over a TTL, as in life: all at once they would race for a record
// that nobody had yet, unless just that is to be seen.
func (st *stage) bear() {
	for end := st.now() + int64(birthTime); st.unborn > 0 && !st.leaving && st.now() < end; st.unborn-- {
		var delay time.Duration
		if !st.plan.NoSplay {
			delay = mrand.N(st.plan.TTL)
		}
		st.join(len(st.processes), delay)
	}
}

// join starts a worker in a row of the view. Its name is new, also where it
// replaces a dead worker: it must not take the dead worker's record for its
// own. Its reports are posted, since other goroutines read them.
func (st *stage) join(row int, delay time.Duration) {
	st.named++
	c := st.plan
	s := spec{
		ID: st.name(st.named), Conn: st.conn, Store: c.Store, Bucket: c.Bucket, Group: c.Key,
		TTL: c.TTL, Heartbeat: c.Heartbeat, Delay: delay, Fresh: st.owned(),
	}
	p, err := launch(st.worker, s, func(m message) { st.post(func() { st.hear(m) }) })
	// Only a process that was never there ends the demo. A process that took no
	// spec ends by itself, and its end is reported.
	if p == nil {
		st.fail(fmt.Errorf("start a worker: %w", err))
		return
	}
	// It sees nothing before it takes part: see sampled.
	p.told = st.now() + int64(delay)
	// In the row of the worker before, so that rows stay where the eye has
	// them.
	if row < len(st.processes) {
		st.processes[row] = p
	} else {
		st.processes = append(st.processes, p)
	}
	st.emit(Event{Kind: EventJoin, Worker: p.id, PID: p.cmd.Process.Pid})
}

// name is the name of the n-th worker.
func (st *stage) name(n int) string { return fmt.Sprintf("w%d%s", n, st.suffix) }

// fail ends the demo with an error, in order: workers must not outlive it. The
// first error is the cause of those that follow.
func (st *stage) fail(err error) {
	if st.failure == nil {
		st.failure = err
	}
	st.leave()
}

// ended records that a worker's process has ended. A worker that ended by its
// own decision, such as a wrong configuration, is not replaced: the next would
// do the same. That is only an error when nobody is left, since a visited
// server may refuse some.
func (st *stage) ended(p *process, err error) {
	expected := p.leaving
	p.gone, p.leaving = true, true
	switch {
	case st.leaving:
		st.leaveOn()
	case expected:
	case p.failed():
		st.emit(Event{Kind: EventExit, Worker: p.id, Text: fmt.Sprint(err)})
		if st.unborn == 0 && !slices.ContainsFunc(st.processes, (*process).alive) {
			st.fail(fmt.Errorf("no worker is left; the last one failed: %s", p.complaint))
		}
	default:
		// Somebody else killed it, from another terminal: a crash like ours.
		st.emit(Event{Kind: EventExit, Worker: p.id, Text: fmt.Sprint(err)})
		if p.last.Leading && p.last.Seen >= st.latest {
			st.trial(Crash, p)
		}
		st.replaceLater(p)
	}
}

// replaceLater lets a new worker take the row of one that is gone.
func (st *stage) replaceLater(p *process) {
	st.after(st.outage(), func() {
		if row := slices.Index(st.processes, p); row >= 0 {
			st.join(row, 0)
		}
	})
}

// window is the whole length of a trust window.
func (st *stage) window() time.Duration {
	return time.Duration(float64(st.plan.TTL) * (1 - leader.DefaultClockDrift))
}

// outage is how long a fault lasts: long enough for another to lead.
func (st *stage) outage() time.Duration { return 2 * st.plan.TTL }

// leader returns the process that leads, or nil. A worker whose last reported
// term is older than another's leads no more, whatever a late report contains.
func (st *stage) leader() *process {
	now := st.now()
	var found *process
	for _, p := range st.processes {
		if p.leads(now) && p.last.Seen >= st.latest && p.fault == "" && (found == nil || p.last.Seen > found.last.Seen) {
			found = p
		}
	}
	return found
}

// tick does what the time has come for, and publishes a new scene.
func (st *stage) tick() {
	st.bear()
	st.tellOutcomes(false)
	st.playScript()
	st.show()
}
