package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	demoteTimeout = 5 * time.Second
	// drift is the default of the candidates.
	drift = 0.1
	// slack is what the limit of a wait allows a busy machine beyond what the
	// protocol promises.
	slack = 4 * time.Second
	// healing is how long the servers may take to be back. It is theirs, and
	// bounds no promise of the library's.
	healing = 90 * time.Second
	// crowd is how many candidates a herd has.
	crowd = 200
)

// A round is a number of candidates on an arena of their own, set on fire.
type round struct {
	*arena
	plan   plan
	ctx    context.Context
	launch *launcher
	ttl    time.Duration

	ledger, guarded string
	resources       []*resource

	seats []*seat
	herds int

	mu     sync.Mutex // guards what follows
	all    []*process
	waits  []history.Wait
	forgot []history.Sample
	counts counts
}

// A seat is a candidate of the round, whichever process it runs in at present.
type seat struct {
	r       *round
	id      string
	rate    int // of its clocks, in thousandths
	proxies []*natslab.Proxy

	fault sync.Mutex // one fault at a time

	mu      sync.Mutex // guards what follows
	current *process
	begun   int
}

// An outcome is what a round showed.
type outcome struct {
	plan       plan
	counts     counts
	violations []history.Violation
	// trouble is why the round could not be held to its end.
	trouble error
}

// run holds a round, which act fills between the start and the end. Files go
// into a directory of its own under dir.
func run(ctx context.Context, p plan, dir string, l *launcher, act func(*round)) (o outcome) {
	o.plan = p
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp(dir, "round-")
	if err != nil {
		o.trouble = err
		return o
	}
	b := &bench{dir: dir}
	defer func() { _ = os.RemoveAll(dir) }()
	defer b.Close()
	r := &round{plan: p, ctx: ctx, launch: l, ttl: p.ttl, counts: newCounts()}
	began := time.Now()
	o.trouble = b.Run(func() error { return r.hold(b, act) })
	r.counts.elapsed = time.Since(began)
	h, err := r.history()
	o.trouble = errors.Join(o.trouble, err)
	r.counts.add(h)
	o.counts, o.violations = r.counts, history.Judge(h)
	return o
}

// hold does everything, and ends all processes.
func (r *round) hold(b *bench, act func(*round)) error {
	defer r.killAll()
	ledger, posts := serveLedger(b)
	guarded, puts := serveGuarded(b)
	r.ledger, r.guarded, r.resources = ledger, guarded, []*resource{posts, puts}
	r.arena = newArena(b, r.plan.shape)
	for i := range r.plan.candidates {
		s := &seat{r: r, id: fmt.Sprintf("c%d", i), rate: trueClock, proxies: r.proxies()}
		if len(r.plan.rates) > 0 {
			s.rate = r.plan.rates[i]
		}
		r.seats = append(r.seats, s)
		s.begin()
	}
	r.await("the start")
	act(r)
	if r.ctx.Err() == nil {
		r.rollOff()
	}
	return nil
}

// spec is what a new process is told.
func (r *round) spec(name string, ids, urls []string, rate int) candidate.Spec {
	return candidate.Spec{
		Name: name, IDs: ids, URLs: urls, User: user, Password: password,
		Bucket: bucket, Group: group, TTL: r.ttl, Heartbeat: r.plan.heartbeat, Timeout: r.plan.timeout,
		CoolDown: r.shape.coolDown, DemoteTimeout: demoteTimeout, ClockRate: rate,
		Ledger: r.ledger, Guarded: r.guarded,
	}
}

func (r *round) begin(spec candidate.Spec) *process {
	p, err := launch(r.launch, r.dir, spec)
	r.check(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, p)
	return p
}

// begin starts the candidate's process, if it does not run.
func (s *seat) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.current.alive() {
		return
	}
	s.begun++
	s.current = s.r.begin(s.r.spec(fmt.Sprintf("%s-%d", s.id, s.begun), []string{s.id}, urls(s.proxies), s.rate))
}

func (s *seat) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// killAll ends all processes that have not ended, after a failure.
func (r *round) killAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.all {
		if p.alive() {
			p.kill()
		}
	}
}

// leader returns the seat that leads now, or nil.
func (r *round) leader() *seat {
	for _, s := range r.seats {
		if p := s.process(); p != nil && p.alive() {
			if term, _ := p.leads(); term != 0 {
				return s
			}
		}
	}
	return nil
}

// play plays an episode: all its faults, and then the wait for a leader.
func (r *round) play(e episode) {
	var faults sync.WaitGroup
	errs := make([]error, len(e.faults))
	for i, f := range e.faults {
		faults.Go(func() {
			errs[i] = r.Run(func() error {
				r.sleep(f.at)
				f.kind.run(r, f)
				return nil
			})
		})
	}
	faults.Wait()
	r.check(errors.Join(errs...))
	r.await(e.String())
	r.counts.played++
	r.sleep(e.calm)
}

// sleep lets time pass for a fault. An end of the whole run ends it early.
func (r *round) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// limit is for how long nobody may lead after a fault.
func (r *round) limit() time.Duration {
	d := 2 * r.ttl // G5
	if r.shape.coolsDown() {
		d += wait(r.ttl) + r.plan.heartbeat // the cool-down, and the renewal that ends it
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
func (r *round) await(after string) {
	r.heal()
	r.eventually("the store takes writes after "+after, healing, r.probe)
	w := history.Wait{After: after, From: candidate.Now(), Limit: r.limit()}
	// Past the limit, by which the judge condemns, we wait on to learn how long
	// it takes.
	_ = r.poll(2*w.Limit, func() bool {
		for _, s := range r.seats {
			if p := s.process(); p.alive() {
				if term, asked := p.leads(); term != 0 && asked >= w.From {
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
func (r *round) rollOff() {
	for range r.seats {
		s := r.leader()
		if s == nil {
			break // await has noted it
		}
		r.stop(s.process())
		if left := r.alive(); left > 0 {
			r.await(fmt.Sprintf("the stop of %s, with %d left", s.id, left))
		}
	}
	for _, s := range r.seats {
		if p := s.process(); p.alive() {
			r.stop(p)
		}
	}
}

func (r *round) alive() (n int) {
	for _, s := range r.seats {
		if s.process().alive() {
			n++
		}
	}
	return n
}

// stop has a process stop, and waits for its end.
func (r *round) stop(p *process) {
	p.tell(candidate.Stop)
	if !r.poll(healing, func() bool { return !p.alive() }) {
		r.Fatalf("%s did not stop", p.spec.Name)
	}
}

// poll waits until a condition holds, for so long at the most.
func (r *round) poll(patience time.Duration, holds func() bool) bool {
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

func (r *round) eventually(what string, patience time.Duration, try func(context.Context) error) {
	var err error
	if !r.poll(patience, func() bool { err = try(context.Background()); return err == nil }) {
		r.Fatalf("never: %s: %v", what, err)
	}
}

// forget notes that what f does may make the store lose what it acknowledged.
func (r *round) forget(f func()) {
	begun := candidate.Now()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.forgot = append(r.forgot, history.Sample{T0: begun, T1: candidate.Now()})
	}()
	f()
}

// history collects what the round has left behind.
func (r *round) history() (history.Round, error) {
	h := history.Round{
		Waits: r.waits, Forgot: r.forgot, DemoteTimeout: shortest(demoteTimeout),
		// A claim waits for a lease, and is promoted after a cool-down of
		// another.
		Settle: longest(3*wait(r.ttl)) + slack,
	}
	if r.arena != nil {
		h.Stored = r.seen()
	}
	for _, res := range r.resources {
		h.Resources = append(h.Resources, res.report())
	}
	var errs []error
	for _, p := range r.all {
		remains, err := p.remains()
		errs = append(errs, err)
		h.Processes = append(h.Processes, remains)
	}
	return h, errors.Join(errs...)
}

// String names the faults of an episode.
func (e episode) String() string {
	names := make([]string, len(e.faults))
	for i, f := range e.faults {
		names[i] = f.kind.name
	}
	return strings.Join(names, " + ")
}

// between draws a duration.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}
