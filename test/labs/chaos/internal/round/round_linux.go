package round

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/arena"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/process"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/results"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	demoteTimeout = 5 * time.Second
	// drift is the default of the candidates.
	drift = 0.1
	// slack is what the limit of a wait allows a busy machine beyond what the
	// protocol promises.
	slack = 4 * time.Second
)

// Healing is how long the servers may take to be back. It is theirs, and bounds
// no promise of the library's.
const Healing = 90 * time.Second

// A Round is a number of candidates on an arena of their own, set on fire.
type Round struct {
	*arena.Arena
	Plan       schedule.Plan
	Launcher   *process.Launcher
	Contenders []*Contender

	ctx context.Context
	dir string

	ledger, guarded string
	others          []string // URLs of the quorum's other members
	resources       []*arena.Resource

	servers natslab.Command
	clock   [2]history.ServerReading

	mu     sync.Mutex // guards what follows
	herds  int
	all    []*process.Process
	waits  []history.Wait
	forgot []history.Sample
	stuck  bool // the servers did not do what is theirs
	counts results.Counts
}

// Run runs a round on servers that a command starts. act fills it between the
// start and the end. Files go into a new directory under dir.
func Run(ctx context.Context, p schedule.Plan, dir string, l *process.Launcher, servers natslab.Command, act func(*Round)) (o results.Outcome) {
	o.Plan = p
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp(dir, "round-")
	if err != nil {
		o.Trouble = err
		return o
	}
	b := arena.NewBench(dir)
	defer func() { _ = os.RemoveAll(dir) }()
	defer b.Close()
	r := &Round{Plan: p, ctx: ctx, dir: dir, Launcher: l, servers: servers, counts: results.NewCounts()}
	began := time.Now()
	ended := b.Run(func() error { return r.hold(b, act) })
	r.counts.Elapsed = time.Since(began)
	h, err := r.history()
	if r.stuck {
		o.Stuck, o.Trouble = ended, err
	} else {
		o.Trouble = errors.Join(ended, err)
	}
	r.counts.Add(h)
	o.Counts, o.Violations = r.counts, history.Judge(h)
	return o
}

// hold does everything, and ends all processes.
func (r *Round) hold(b *arena.Bench, act func(*Round)) error {
	defer r.killAll()
	ledger, posts := arena.ServeLedger(b)
	guarded, puts := arena.ServeGuarded(b)
	r.ledger, r.guarded, r.resources = ledger, guarded, []*arena.Resource{posts, puts}
	ids := make([]string, r.Plan.Candidates)
	for i := range ids {
		ids[i] = fmt.Sprintf("c%d", i)
	}
	r.Arena = arena.New(b, r.servers, r.Plan.Shape, r.Plan.Expiry, ids...)
	if r.Plan.Quorum {
		r.others = r.Others()
	}
	r.readClock(0)
	for i, id := range ids {
		s := &Contender{r: r, ID: id, rate: schedule.TrueClock, Settings: r.Plan.Settings[i], proxies: r.Proxies()}
		if len(r.Plan.Rates) > 0 {
			s.rate = r.Plan.Rates[i]
		}
		r.Contenders = append(r.Contenders, s)
		s.Begin()
	}
	r.await("the start")
	r.readClock(1) // before the first fault, since a restarted server has the true time
	act(r)
	if r.ctx.Err() == nil {
		r.rollOff()
	}
	return nil
}

// readClock reads the servers' clock, if its rate differs from the machine's.
func (r *Round) readClock(i int) {
	if r.Plan.ServerRate != 0 {
		r.Eventually("a server reports the time", Healing, func(ctx context.Context) error {
			asked := overlap.Now()
			t, err := r.ServersClock(ctx)
			r.clock[i] = history.ServerReading{Own: t.UnixNano(), Asked: history.Sample{T0: asked, T1: overlap.Now()}}
			return err
		})
	}
}

// spec is the configuration of a new process.
func (r *Round) spec(name, user string, ids, urls []string, rate int, s schedule.Settings) candidate.Spec {
	return candidate.Spec{
		Name: name, IDs: ids, URLs: urls, Others: r.others, User: user, Password: arena.Password,
		Bucket: arena.Bucket, Group: arena.Group, Settings: s,
		CoolDown: r.Plan.Shape.CoolDown, DemoteTimeout: demoteTimeout, ClockRate: rate,
		Ledger: r.ledger, Guarded: r.guarded,
	}
}

func (r *Round) begin(spec candidate.Spec) *process.Process {
	p, err := process.Launch(r.Launcher, r.dir, spec)
	r.Check(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, p)
	return p
}

// Herd starts a process of n candidates, whose clocks run at a rate, in
// thousandths.
func (r *Round) Herd(n, rate int) *process.Process {
	r.mu.Lock()
	r.herds++
	name := fmt.Sprintf("herd-%d", r.herds)
	r.mu.Unlock()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return r.begin(r.spec(name, arena.Guest, ids, arena.URLs(r.Proxies()), rate, r.Plan.Common()))
}

// killAll ends all processes that have not ended, after a failure.
func (r *Round) killAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.all {
		if p.Alive() {
			p.Kill()
		}
	}
}

// Leader returns the contender that leads now, or nil.
func (r *Round) Leader() *Contender {
	for _, s := range r.Contenders {
		if p := s.Process(); p != nil && p.Alive() {
			if term, _ := p.Leads(); term != 0 {
				return s
			}
		}
	}
	return nil
}

// Play plays an episode: it does all its faults, and waits for a leader then.
func (r *Round) Play(e schedule.Episode, do func(*Round, schedule.Fault)) {
	var faults sync.WaitGroup
	errs := make([]error, len(e.Faults))
	for i, f := range e.Faults {
		faults.Go(func() {
			errs[i] = r.Run(func() error {
				r.Sleep(f.At)
				do(r, f)
				return nil
			})
		})
	}
	faults.Wait()
	r.Check(errors.Join(errs...))
	r.await(e.String())
	r.counts.Played++
	r.Sleep(e.Calm)
}

// Sleep lets time pass for a fault. An end of the whole run ends it early.
func (r *Round) Sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// Done reports whether the whole run ends.
func (r *Round) Done() bool { return r.ctx.Err() != nil }

// Context is done when the whole run ends.
func (r *Round) Context() context.Context { return r.ctx }

// Count has f count.
func (r *Round) Count(f func(*results.Counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.counts)
}

// limit is for how long nobody may lead after a fault.
func (r *Round) limit() time.Duration {
	d := 2 * r.Plan.TTL // G5
	if r.Plan.Ranked() {
		d += r.Plan.TTL / 2 // who is preferred goes first
	}
	if r.Plan.CoolsDown() {
		d += wait(r.Plan.TTL) + r.Plan.Heartbeat // the cool-down, and the renewal that ends it
	}
	return longest(d) + slack
}

// longest is for how long a duration by the clock of a candidate may last.
func longest(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 - drift)) }

// shortest is how soon it may be over.
func shortest(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 + drift)) }

// wait is for how long a lease is left alone.
func wait(ttl time.Duration) time.Duration { return ttl + time.Duration(float64(ttl)*drift) }

// await waits until the store takes writes and then until somebody leads, and
// notes how long the latter took.
func (r *Round) await(after string) {
	r.Heal()
	r.Eventually("the store takes writes after "+after, Healing, r.Probe)
	w := history.Wait{After: after, From: overlap.Now(), Limit: r.limit()}
	// Past the limit, by which the judge condemns, we wait on to learn how long
	// it takes.
	_ = r.Poll(2*w.Limit, func() bool {
		for _, s := range r.Contenders {
			if p := s.Process(); p.Alive() {
				if term, asked := p.Leads(); term != 0 && asked >= w.From {
					w.Led = asked
					return true
				}
			}
		}
		return false
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = append(r.waits, w)
}

// rollOff stops the leaders one after the other. So each candidate shows that
// it can lead still.
func (r *Round) rollOff() {
	for range r.Contenders {
		s := r.Leader()
		if s == nil {
			break // await has noted it
		}
		r.Stop(s.Process())
		if left := r.alive(); left > 0 {
			r.await(fmt.Sprintf("the stop of %s, with %d left", s.ID, left))
		}
	}
	for _, s := range r.Contenders {
		if p := s.Process(); p.Alive() {
			r.Stop(p)
		}
	}
}

func (r *Round) alive() (n int) {
	for _, s := range r.Contenders {
		if s.Process().Alive() {
			n++
		}
	}
	return n
}

// Stop has a process stop, and waits for its end.
func (r *Round) Stop(p *process.Process) {
	p.Tell(candidate.Stop)
	if !r.Poll(Healing, func() bool { return !p.Alive() }) {
		r.Fatalf("%s did not stop", p.Name())
	}
}

// Poll waits until a condition holds, for so long at most, and reports whether
// it does.
func (r *Round) Poll(patience time.Duration, holds func() bool) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return holds()
		}
	}
	return true
}

// Eventually waits for the servers: it tries until there is no error, for so
// long at most, and ends the round then.
func (r *Round) Eventually(what string, patience time.Duration, try func(context.Context) error) {
	var err error
	if !r.Poll(patience, func() bool { err = try(context.Background()); return err == nil }) {
		r.mu.Lock()
		r.stuck = true
		r.mu.Unlock()
		r.Fatalf("never: %s: %v", what, err)
	}
}

// Forget notes that what f does may make the store lose what it acknowledged.
func (r *Round) Forget(f func()) {
	begun := overlap.Now()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.forgot = append(r.forgot, history.Sample{T0: begun, T1: overlap.Now()})
	}()
	f()
}

// history collects what the round has left behind.
func (r *Round) history() (history.Round, error) {
	h := history.Round{
		ServerRate: r.Plan.ServerRate, ServersClock: r.clock,
		Waits: r.waits, Forgot: r.forgot, DemoteTimeout: shortest(demoteTimeout),
		// A claim waits for a lease, and is promoted after a cool-down of
		// another.
		Settle: longest(3*wait(r.Plan.TTL)) + slack,
	}
	if r.Arena != nil {
		h.Stored, h.Expired = r.Stored(), r.Expired()
	}
	for _, res := range r.resources {
		h.Resources = append(h.Resources, res.Report())
	}
	var errs []error
	for _, p := range r.all {
		remains, err := p.Remains()
		errs = append(errs, err)
		h.Processes = append(h.Processes, remains)
	}
	return h, errors.Join(errs...)
}
