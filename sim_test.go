package leader_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
)

var (
	simSeeds = flag.Int("seeds", unlessRaced(300, 60), "schedules that TestSimulation runs")
	simSeed  = flag.Uint64("seed", 0, "the only schedule that TestSimulation runs, as a failure printed it")
)

// unlessRaced takes a smaller number under the race detector.
func unlessRaced(full, raced int) int {
	if raceEnabled {
		return raced
	}
	return full
}

// TestSimulation runs whole elections, as the program runs them, against
// registers and a network that fail in random ways, in virtual time, and judges
// G1 to G6:
//
//	make sim SEEDS=10000
//	go test -run TestSimulation -v . -args -seed=42
//
// A schedule has a stormy part and a calm end, in which it judges, too, that
// everybody hears who leads, and that a stop for which one waits holds the
// record. Every kind of fault and of disturbance must happen somewhere in a run
// of the default size or larger, or the run fails: a simulation in which
// nothing goes wrong proves nothing.
func TestSimulation(t *testing.T) {
	var total simCount
	defer func() { total.report(t) }()
	if *simSeed != 0 {
		t.Run("", func(t *testing.T) { simulate(t, *simSeed, &total) })
		return
	}
	base := rand.Uint64N(1<<40) + 1
	t.Logf("seeds %d to %d", base, base+uint64(*simSeeds)-1)
	seeds := uint64(*simSeeds)
	schedules := func(from, to uint64) {
		t.Run("schedules", func(t *testing.T) {
			for i := from; i < to; i++ {
				t.Run(fmt.Sprint(base+i), func(t *testing.T) {
					t.Parallel()
					simulate(t, base+i, &total)
				})
			}
		})
	}
	schedules(0, seeds)
	if seeds >= 300 {
		// Some kinds are rare, and happen often in few schedules: more are run
		// until each has happened, within reason.
		for more := seeds; more < 2*seeds && !t.Failed() && !total.complete(); more += 50 {
			schedules(more, more+50)
		}
		total.demandAll(t.Errorf)
	}
	// The rarest happens about twice in a hundred schedules.
	if *simSeeds >= 1000 && total.losses[leader.ReasonSuperseded] == 0 {
		t.Error("no term ever ended superseded")
	}
}

// A simCount adds up what happened in all schedules.
type simCount struct {
	mu        sync.Mutex
	schedules int
	virtual   time.Duration
	terms     int
	resolved  int
	ended     int
	shortened int   // terms of a shorter lease than the one before
	awaited   int   // leaders that were stopped by two calls, while their work went on
	both      int   // machines that were suspended and had their clock set back
	proofs    int64 // tokens found valid
	begun     int64 // operations
	losses    map[leader.Reason]int
	deeds     map[string]int
	faults    map[faultstore.Fault]uint64
	pairs     simPairs
}

func (c *simCount) add(w *simWorld) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.losses == nil {
		c.losses, c.deeds, c.faults = map[leader.Reason]int{}, map[string]int{}, map[faultstore.Fault]uint64{}
		c.pairs = simPairs{}
	}
	c.schedules++
	for p, n := range w.pairs {
		c.pairs[p] += n
	}
	c.virtual += time.Since(w.begun)
	c.terms += w.terms
	c.resolved += w.resolved
	c.ended += w.ended
	c.shortened += w.shortened
	if w.awaited {
		c.awaited++
	}
	for _, p := range w.procs {
		if !p.suspendFrom.IsZero() && !p.setBackFrom.IsZero() {
			c.both++
		}
	}
	c.proofs += w.proofs.Load()
	c.begun += w.operations.Load()
	for r, n := range w.losses {
		c.losses[r] += n
	}
	for d, n := range w.deeds {
		c.deeds[d] += n
	}
	for f, n := range w.faults.Counts() {
		c.faults[f] += n
	}
}

func (c *simCount) report(t *testing.T) {
	t.Logf("schedules %d, virtual time %v, terms %d, unknown outcomes resolved %d, records ended by operators %d, leases shortened %d, stops awaited %d, machines suspended and set back %d, tokens found valid %d, operations begun %d\nlosses %v\ndisturbances %v\nfaults %v",
		c.schedules, c.virtual.Round(time.Second), c.terms, c.resolved, c.ended, c.shortened, c.awaited, c.both, c.proofs, c.begun, c.losses, c.deeds, c.faults)
}

// demandAll complains of each kind that never happened.
func (c *simCount) demandAll(errorf func(format string, args ...any)) {
	c.pairs.demandAll(errorf)
	if c.proofs == 0 || c.begun == 0 {
		errorf("%d tokens were found valid, and %d operations started", c.proofs, c.begun)
	}
	if c.resolved == 0 {
		errorf("no unknown outcome was ever resolved")
	}
	if c.ended == 0 {
		errorf("no operator ever ended a record")
	}
	if c.awaited == 0 {
		errorf("no stop ever was awaited by one call, and given up by another, while the work went on")
	}
	if c.both == 0 {
		errorf("no machine ever was suspended, and had its clock set back")
	}
	if c.shortened == 0 {
		errorf("no lease ever was shorter than the one before")
	}
	for _, d := range simDeeds {
		if c.deeds[d.name] == 0 {
			errorf("disturbance %q never happened", d.name)
		}
	}
	for f, n := range c.faults {
		if n == 0 {
			errorf("fault %v never happened", f)
		}
	}
	for _, r := range []leader.Reason{
		leader.ReasonTrustExpired, leader.ReasonDeleted, leader.ReasonOverwritten,
		leader.ReasonDisconnected, leader.ReasonResigned, leader.ReasonTransferred, leader.ReasonStopped,
		leader.ReasonSteppedDown, leader.ReasonPaused, leader.ReasonDrained, leader.ReasonUnhealthy, leader.ReasonOutranked,
	} {
		if c.losses[r] == 0 {
			errorf("no term ever ended by %q", r)
		}
	}
}

// complete reports whether each kind has happened.
func (c *simCount) complete() bool {
	complete := true
	c.demandAll(func(string, ...any) { complete = false })
	return complete
}

// A simWorld is one schedule while it runs.
type simWorld struct {
	t     *testing.T
	rng   *rand.Rand
	begun time.Time
	ttl   time.Duration // the shortest lease
	// longest is the longest: longer than ttl where the group is on its way from
	// one TTL to another.
	longest time.Duration
	drain   time.Duration // the work of a leader takes at most a quarter longer to stop
	shared  leader.ElectionConfig
	choice  simChoice // of the shared fields
	alike   bool      // all candidates are of one standing
	ages    bool      // the store reports its age, and may be made again
	remade  atomic.Bool
	lives   atomic.Int64 // of all processes
	// Facts that processes learned about the current term.
	proofs, operations atomic.Int64

	faults *faultstore.Faults
	calm   atomic.Bool
	denied sync.Map // the names of those that lack a right for now
	procs  []*simProc

	mu       sync.Mutex
	resolved int
	ended    int // records, by operators
	log      []string
	lastTerm uint64
	lastTTL  time.Duration // of the latest term
	terms    int
	// shortened counts the terms whose lease is shorter than the previous one.
	shortened int
	awaited   bool // a stop was, that another call had given up
	losses    map[leader.Reason]int
	deeds     map[string]int
	pairs     simPairs
}

// A simProc is one process: a candidate and its work, on its own machine.
type simProc struct {
	w       *simWorld
	name    string
	e       leader.Election
	machine *leader.Machine
	// The machine is suspended now and then, and its wall clock set back, but
	// not both within one lease: who does that finds its window open for the
	// moment until the alarm rings. These are when that may be done next.
	suspendFrom, setBackFrom time.Time

	stall atomic.Int64 // how long the election's goroutine is to be stuck, once
	sick  atomic.Bool
	deaf  atomic.Bool // it may not read its drain's record in this life

	mu      sync.Mutex
	end     context.CancelFunc      // of the context of Start
	told    leader.LeaderInfo       // by OnLeaderChange
	seen    leader.LeaderInfo       // by Observe
	tasks   map[uint64]func() error // the state of operations that are under way
	leading leader.Term             // promoted and not demoted yet
	work    context.Context         // descends from the term's context
	over    bool                    // the term has ended while the work went on
	lost    time.Duration           // when, by the machine's monotonic clock
	drain   time.Duration           // DemoteTimeout
	ttl     time.Duration           // of its lease
}

func simulate(t *testing.T, seed uint64, total *simCount) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(t, seed)
		defer func() {
			if t.Failed() {
				t.Logf("replay: go test -run TestSimulation -v . -args -seed=%d\n%s", seed, strings.Join(w.log, "\n"))
			}
		}()
		w.storm()
		w.calmDown()
		w.stopTwice()
		for _, p := range w.procs {
			p.stop()
		}
		total.add(w)
		w.faults.Close()
	})
}

func newSimWorld(t *testing.T, seed uint64) *simWorld {
	w := &simWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), begun: time.Now(),
		losses: map[leader.Reason]int{}, deeds: map[string]int{}, pairs: simPairs{},
	}
	w.shared = w.chooseShared()
	w.alike = w.rng.IntN(3) != 0
	w.longest = w.ttl
	w.ages = w.shared.AcquireGrace == leader.GraceAuto && w.rng.IntN(2) == 0
	if !w.forgets() && !w.ages && w.rng.IntN(3) == 0 { // where A4 allows for it
		w.longest = min(w.ttl*time.Duration(2+w.rng.IntN(3)), leader.MaxTTL)
	}
	w.drain = time.Duration(1+w.rng.IntN(4)) * w.ttl / 2
	network := faultstore.Random(seed, w.rates())
	w.faults = faultstore.New(faultstore.Options{WatchTimeout: 2 * w.ttl, Ages: w.ages, Policy: func(c faultstore.Call) faultstore.Fate {
		w.judgeWrite(c)
		if w.calm.Load() {
			return faultstore.Fate{}
		}
		fate := network(c)
		// Not of a Check: where that is denied, an election does not begin.
		if _, denied := w.denied.Load(c.Client); denied && c.Op != faultstore.Check {
			fate.Deny = true
		}
		return fate
	}})
	for i := range 2 + w.rng.IntN(4) {
		p := &simProc{w: w, name: string(rune('a' + i)), machine: leader.NewMachine(w.rate())}
		w.procs = append(w.procs, p)
		p.create()
	}
	// After all are created: a start may take its time, since it asks the store for
	// its age, and those before it look at all others meanwhile.
	for _, p := range w.procs {
		p.start()
	}
	return w
}

// rates are how bad the network is: from none to rougher than rough.
func (w *simWorld) rates() faultstore.Rates {
	r := faultstore.Rough()
	f := w.rng.Float64() * 2
	for _, p := range []*float64{&r.Lose, &r.Reply, &r.Late, &r.Refuse, &r.Conflict, &r.Stale, &r.LoseEvent, &r.Repeat, &r.Gap} {
		*p *= f
	}
	return r
}

// forgets reports whether the store may forget what it acknowledged.
func (w *simWorld) forgets() bool { return w.shared.AcquireGrace == leader.GraceOn }

// uneven reports whether the candidates' leases differ in length.
func (w *simWorld) uneven() bool { return w.longest > w.ttl }

// lease draws the TTL of one life of a candidate: mostly the one that the group
// comes from or the one that it goes to.
func (w *simWorld) lease() time.Duration {
	switch more := w.longest - w.ttl; w.draw(5) {
	case 0, 1:
		return w.ttl
	case 2, 3:
		return w.longest
	default:
		return w.ttl + time.Duration(w.draw(int64(more)+1)).Truncate(time.Millisecond)
	}
}

// drift is the greatest that the group allows for.
func (w *simWorld) drift() float64 { return cmp.Or(w.shared.ClockDrift, leader.DefaultClockDrift) }

// rate draws at which rate a machine's clocks run, in parts of a million:
// mostly as wrong as may be. A millionth is left for what is lost in rounding.
func (w *simWorld) rate() int64 {
	off := max(int64(w.drift()*1e6)-1, 0)
	return 1e6 + off*[]int64{-1, -1, 0, 1, 1}[w.rng.IntN(5)]
}

// begin begins a life of the candidate.
func (p *simProc) begin() {
	p.create()
	p.start()
}

func (p *simProc) create() {
	w := p.w
	cfg := p.config()
	var st store.Store = w.faults.Client(p.name)
	switch w.draw(8) {
	case 0:
		st = simPolled{w.faults.Client(p.name)}
	case 1, 2, 3, 4:
		st = faultstore.AsyncClient{Client: w.faults.Client(p.name)}
	}
	e, err := leader.NewElectionWithStore(st, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	leader.SetMachine(e, p.machine)
	leader.SetProcess(e, fmt.Sprint(w.lives.Add(1))) // a restart ends a drain
	p.deaf.Store(false)
	p.mu.Lock()
	p.e, p.drain, p.ttl = e, cfg.DemoteTimeout, cfg.TTL
	p.told, p.seen = leader.LeaderInfo{}, leader.LeaderInfo{}
	p.mu.Unlock()
	e.OnPromote(p.promoted)
	e.OnDemote(p.demoted)
	e.OnLeaderChange(func(info leader.LeaderInfo) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told = info
	})
}

func (p *simProc) start() {
	ctx, end := context.WithCancel(context.Background())
	p.mu.Lock()
	p.end = end
	p.mu.Unlock()
	e := p.election()
	if err := e.Start(ctx); err != nil {
		p.w.t.Errorf("%s: start: %v", p.name, err)
	}
	go func() { // until the election has ended
		for info := range e.Observe(context.Background()) {
			p.mu.Lock()
			if p.e == e {
				p.seen = info
			}
			p.mu.Unlock()
		}
	}()
}

// A simPolled is a link to a store that has no watch, nor any other optional
// ability, but for its age: a store without an age could not report that it was
// made again.
type simPolled struct{ c *faultstore.Client }

func (s simPolled) Get(ctx context.Context, key string) (store.Entry, error) {
	return s.c.Get(ctx, key)
}

func (s simPolled) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	return s.c.CompareAndSwap(ctx, w)
}

func (s simPolled) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	return s.c.Check(ctx, r)
}

// config draws the configuration of one life of the candidate.
func (p *simProc) config() leader.ElectionConfig {
	w, cfg := p.w, p.w.shared
	cfg.Group, cfg.InstanceID, cfg.Version, cfg.HealthChecker = "g", p.name, "1.0.0", p
	cfg.Hooks = leader.Hooks{Transition: p.transition, Note: p.noted, Call: func(leader.Call) {
		if d := p.stall.Swap(0); d > 0 {
			w.note("%s stalls for %v", p.name, time.Duration(d))
			time.Sleep(time.Duration(d))
		}
	}}
	w.choose(&cfg)
	return cfg
}

// Check is the program's health.
func (p *simProc) Check(context.Context) bool { return !p.sick.Load() }

func (p *simProc) election() leader.Election {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.e
}

// lease returns the TTL of this life of the candidate.
func (p *simProc) lease() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ttl
}

// stop stops the election, in one of all possible ways: the context of Start
// may end before, and another call, which gives up, may have started.
func (p *simProc) stop() {
	w, e := p.w, p.election()
	way := w.draw(8)
	if way < 2 {
		p.end()
	}
	if way == 1 || way == 2 {
		opts := leader.StopOptions{DeleteKey: w.draw(2) == 0, WaitForDemote: w.draw(2) == 0, Timeout: 1 + time.Duration(w.draw(int64(w.drain)))}
		go func() {
			if err := e.StopWithContext(context.Background(), opts); err != nil && !errors.Is(err, leader.ErrDemoteTimeout) && !errors.Is(err, leader.ErrStopTimeout) {
				w.t.Errorf("%s: the other stop: %v", p.name, err)
			}
		}()
	}
	if way < 3 {
		time.Sleep(time.Duration(w.draw(int64(w.drain))))
	}
	if err := e.Stop(); err != nil && !errors.Is(err, leader.ErrDemoteTimeout) {
		w.t.Errorf("%s: stop: %v", p.name, err)
	}
	p.end()
	time.Sleep(2 * p.w.drain) // work that outlived its time ends, too
}

// transition judges G1 and G2. Two leaders overlap if and only if one of them
// is under way when the other begins, or a machine wakes from a suspension, so
// looking at every beginning and every awakening misses nothing; virtual time
// does not pass meanwhile.
func (p *simProc) transition(tr leader.Transition) {
	w := p.w
	w.note("%s %s -> %s: %s, term %d", p.name, tr.From, tr.To, tr.Reason, tr.Term.Number)
	if tr.From == leader.StateLeader {
		w.mu.Lock()
		w.losses[tr.Reason]++
		w.mu.Unlock()
	}
	if tr.To != leader.StateLeader || !p.election().IsLeader() {
		return
	}
	p.judgeLeader()
	p.judgeClaim(tr.Term)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terms++
	if tr.Term.Number <= w.lastTerm && !w.forgets() { // a store that forgets may restart its count
		w.t.Errorf("G2: %s leads in term %d after term %d", p.name, tr.Term.Number, w.lastTerm)
	}
	w.lastTerm = tr.Term.Number
	ttl := p.lease()
	if ttl < w.lastTTL {
		w.shortened++
	}
	w.lastTTL = ttl
}

// judgeLeader judges G1 in true time, when p begins or goes on to lead. A
// machine that is suspended does nothing, and so does its leader.
func (p *simProc) judgeLeader() {
	if !p.machine.Runs() {
		return
	}
	for _, other := range p.w.procs {
		if other == p || !other.machine.Runs() {
			continue
		}
		// The contexts first: who asks whether one leads ends a term that is
		// over.
		if p.workLives() && other.workLives() {
			p.w.t.Errorf("G1: contexts of %s and %s live at %v", p.name, other.name, time.Since(p.w.begun))
		}
		if p.workLives() && other.operates() || p.operates() && other.workLives() {
			p.w.t.Errorf("G1: an operation of %s or of %s goes on at %v", p.name, other.name, time.Since(p.w.begun))
		}
		if p.election().IsLeader() && other.election().IsLeader() {
			p.w.t.Errorf("G1: %s and %s lead at %v", p.name, other.name, time.Since(p.w.begun))
		}
	}
}

// rivals returns the terms in which others are at work.
func (w *simWorld) rivals(p *simProc) map[*simProc]leader.Term {
	at := map[*simProc]leader.Term{}
	for _, other := range w.procs {
		if term := other.working(); other != p && other.machine.Runs() && !term.IsZero() {
			at[other] = term
		}
	}
	return at
}

// judgeAlone judges G1 for a process that has just learned that it leads:
// nobody has been at work in one term from the question on.
func (p *simProc) judgeAlone(before map[*simProc]leader.Term, what string) {
	if !p.machine.Runs() {
		return
	}
	for other, term := range p.w.rivals(p) {
		if before[other] == term {
			p.w.t.Errorf("G1: %s: %s, while %s is at work in term %d, at %v", p.name, what, other.name, term.Number, time.Since(p.w.begun))
		}
	}
}

// validate asks a process for a proof that it leads, and judges the answer.
func (p *simProc) validate() {
	before := p.w.rivals(p)
	if p.election().ValidateToken(context.Background()) == nil {
		p.w.proofs.Add(1)
		p.judgeAlone(before, "its token is valid")
	}
}

// leading returns a process that leads and is not suspended, or else p.
func (w *simWorld) leading(p *simProc) *simProc {
	for _, q := range w.procs {
		if q.machine.Runs() && q.election().IsLeader() {
			return q
		}
	}
	return p
}

// suspend suspends the machine for so long. Mostly its connections are dead
// after that, and it is some time before it hears of what happened meanwhile.
// Else what came meanwhile is there when it wakes.
func (p *simProc) suspend(d time.Duration) {
	p.machine.Suspend()
	time.AfterFunc(d, p.wake)
	if p.w.draw(3) == 0 {
		return
	}
	p.w.faults.BlackHole(p.name)
	time.AfterFunc(d+time.Duration(p.w.draw(int64(p.w.ttl))), func() { p.w.faults.Heal(p.name) })
}

// wake ends a suspension, and looks who leads as soon as the machine has done
// what was due.
func (p *simProc) wake() {
	p.machine.Wake()
	time.AfterFunc(1, p.judgeLeader)
}

// judgeClaim judges G6: a term is never guessed. Its number is the revision of
// a write that the store applied, and the register holds it, a renewal of it,
// or what replaced it since.
func (p *simProc) judgeClaim(term leader.Term) {
	if p.w.forgets() || p.w.remade.Load() { // the store may have forgotten it, or be another one
		return
	}
	e := p.w.faults.Entry("g")
	if e.Revision < term.Number || e.Revision == term.Number && !strings.Contains(string(e.Value), term.Token) {
		p.w.t.Errorf("G6: %s leads in term %d by a write that was not applied: %s", p.name, term.Number, value(e))
	}
}

func (p *simProc) noted(n leader.Note) {
	if n.Kind == leader.NoteResolved {
		p.w.mu.Lock()
		p.w.resolved++
		p.w.mu.Unlock()
	}
	if strings.Contains(n.Text, "nobody can drain it") {
		p.deaf.Store(true)
	}
	// All have the same drift and names of their own, whatever is late, lost
	// or restarted. A store that forgets may bring back what a predecessor
	// wrote, and one that is made again may apply it once more.
	if !p.w.forgets() && !p.w.remade.Load() && n.Kind == leader.NoteWarning && (strings.Contains(n.Text, "ClockDrift of") || strings.Contains(n.Text, "InstanceID")) {
		p.w.t.Errorf("%s warns of a rival: %s", p.name, n.Text)
	}
}

// promoted is the work of a leader. It judges G3, and takes a while to stop.
func (p *simProc) promoted(ctx context.Context, token string) {
	term, ok := leader.TermFromContext(ctx)
	if !ok || term.Token != token {
		p.w.t.Errorf("%s: context of term %v, token %q", p.name, term, token)
	}
	// As the program's own calls do, the work goes by a context that descends
	// from the term's, and knows of its end by cancellation alone.
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	if !p.leading.IsZero() {
		p.w.t.Errorf("G3: %s promoted in term %d before the demotion of term %d", p.name, term.Number, p.leading.Number)
	}
	p.leading, p.work, p.over = term, work, false
	p.mu.Unlock()
	p.judgeLeader()
	<-work.Done()
	if p.election().Term() == term {
		p.w.t.Errorf("G3: %s leads in term %d after its context has ended", p.name, term.Number)
	}
	p.mu.Lock()
	p.over, p.lost = true, p.machine.Mono()
	p.mu.Unlock()
	time.Sleep(time.Duration(p.w.draw(int64(p.w.drain) * 5 / 4)))
}

// operate performs an operation, which may last until its context ends, and
// mostly ends before.
func (p *simProc) operate(long time.Duration) {
	_ = p.election().Do(context.Background(), func(ctx context.Context) error {
		n := uint64(p.w.operations.Add(1))
		p.judgeAlone(p.w.rivals(p), "an operation begins")
		// As the work, it goes by a context that descends from its own.
		work, cancel := context.WithCancel(ctx)
		defer cancel()
		p.mu.Lock()
		if p.tasks == nil {
			p.tasks = map[uint64]func() error{}
		}
		p.tasks[n] = work.Err
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.tasks, n)
		}()
		select {
		case <-work.Done():
		case <-time.After(long):
		}
		return nil
	})
}

// operates reports whether an operation has not been asked to stop.
func (p *simProc) operates() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, over := range p.tasks {
		if over() == nil {
			return true
		}
	}
	return false
}

// workLives reports whether the work has not been asked to stop.
func (p *simProc) workLives() bool { return !p.working().IsZero() }

// working returns the term in which its work has not been asked to stop, zero
// if there is none.
func (p *simProc) working() leader.Term {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leading.IsZero() || p.work.Err() != nil {
		return leader.Term{}
	}
	return p.leading
}

func (p *simProc) demoted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leading.IsZero() {
		p.w.t.Errorf("G3: %s demoted without a promotion", p.name)
	}
	p.leading = leader.Term{}
}

// judgeWrite judges G4: a vacancy is written only when the work has stopped, or
// its time is up. The release of an earlier claim may get on its way late, when
// the next has been won already. It expects a revision before that one's, and
// is refused.
func (w *simWorld) judgeWrite(c faultstore.Call) {
	if c.Op != faultstore.CompareAndSwap || !c.Write.Tombstone {
		return
	}
	for _, p := range w.procs {
		if p.name != c.Client {
			continue
		}
		atWork := p.atWork()
		p.mu.Lock()
		if c.Write.Expected >= p.leading.Number && atWork {
			w.t.Errorf("G4: %s releases at %v while its work of term %d goes on", p.name, time.Since(w.begun), p.leading.Number)
		}
		p.mu.Unlock()
	}
}

// A simDeed is something that somebody does to the election.
type simDeed struct {
	name string
	only func(*simWorld) bool // where it may be done; nil: anywhere
	do   func(w *simWorld, p *simProc)
}

var simDeeds = []simDeed{
	{"partition", nil, func(w *simWorld, p *simProc) { w.faults.Partition(w.leading(p).name) }},
	{"black hole", nil, func(w *simWorld, p *simProc) { w.faults.BlackHole(w.leading(p).name) }},
	{"heal", nil, func(w *simWorld, p *simProc) { w.faults.Heal(p.name) }},
	{"false disconnection", nil, func(w *simWorld, p *simProc) { w.faults.Report(store.Disconnected, p.name) }},
	{"false connection", nil, func(w *simWorld, p *simProc) { w.faults.Report(store.Connected, p.name) }},
	{"flapping", nil, func(w *simWorld, p *simProc) {
		rest := time.Duration(w.draw(int64(w.ttl / 4)))
		go func() {
			for range 4 {
				w.faults.Report(store.Disconnected, p.name)
				time.Sleep(rest)
				w.faults.Report(store.Connected, p.name)
				time.Sleep(rest)
			}
		}()
	}},
	{"suspension", nil, func(w *simWorld, p *simProc) {
		if w.draw(4) != 0 {
			p = w.leading(p)
		}
		if d := time.Duration(w.draw(int64(5 * w.ttl))); !time.Now().Before(p.suspendFrom) {
			p.setBackFrom = time.Now().Add(d + 2*w.longest)
			p.suspend(d)
		}
	}},
	{"leap forward", nil, func(w *simWorld, p *simProc) { p.machine.Leap(time.Duration(w.draw(int64(10 * w.ttl)))) }},
	{"leap back", nil, func(w *simWorld, p *simProc) {
		if d := time.Duration(w.draw(int64(10 * w.ttl))); !time.Now().Before(p.setBackFrom) {
			p.suspendFrom = time.Now().Add(2 * w.longest)
			p.machine.Leap(-d)
		}
	}},
	{"stall", nil, func(w *simWorld, p *simProc) { p.stall.Store(w.draw(int64(3 * w.ttl))) }},
	// It may hide the longer lease (A4).
	{"delete", func(w *simWorld) bool { return !w.uneven() }, func(w *simWorld, _ *simProc) { w.faults.Delete("g") }},
	{"garbage", nil, func(w *simWorld, _ *simProc) {
		// The last is a record without the length of its lease.
		texts := []string{"garbage", "{}", `{"reason":"released"}`, `{"id":"x","token":"y","term":1}`}
		w.faults.Put("g", []byte(texts[w.draw(int64(len(texts)))]))
	}},
	{"vacate", nil, func(w *simWorld, _ *simProc) {
		w.operate(func(ctx context.Context, c *leader.Control) error {
			_, err := c.Vacate(ctx, leader.VacateRequest{Group: "g", Why: "simulated"})
			return err
		})
	}},
	{"forget", nil, func(w *simWorld, _ *simProc) {
		w.operate(func(ctx context.Context, c *leader.Control) error {
			_, err := c.Forget(ctx, "g", "simulated")
			return err
		})
	}},
	{"remake", func(w *simWorld) bool { return w.ages }, func(w *simWorld, _ *simProc) {
		w.remade.Store(true)
		w.faults.Remake()
	}},
	{"resign", nil, func(w *simWorld, p *simProc) {
		go func() { _ = w.leading(p).election().Resign(context.Background()) }()
	}},
	{"transfer", nil, func(w *simWorld, p *simProc) {
		to := w.procs[w.draw(int64(len(w.procs)))].name
		go func() { _ = p.election().Transfer(context.Background(), to) }()
	}},
	{"validate", nil, func(w *simWorld, p *simProc) {
		if w.draw(4) != 0 {
			p = w.leading(p)
		}
		go p.validate()
	}},
	{"operation", nil, func(w *simWorld, p *simProc) {
		if w.draw(4) != 0 {
			p = w.leading(p)
		}
		go p.operate(time.Duration(w.draw(3)) * time.Duration(w.draw(int64(4*w.ttl))))
	}},
	{"denial", nil, func(w *simWorld, p *simProc) {
		if w.draw(2) == 0 {
			p = w.leading(p)
		}
		w.denied.Store(p.name, true)
		time.AfterFunc(time.Duration(w.draw(int64(4*w.ttl))), func() { w.denied.Delete(p.name) })
	}},
	{"sickness", nil, func(w *simWorld, p *simProc) {
		p.sick.Store(true)
		time.AfterFunc(time.Duration(w.draw(int64(4*w.ttl))), func() { p.sick.Store(false) })
	}},
	{"maintenance", nil, func(w *simWorld, p *simProc) {
		work := time.Duration(w.draw(int64(2 * w.ttl)))
		w.change(func(ctx context.Context) error {
			err := p.election().Pause(ctx, "simulated")
			time.Sleep(work)
			return errors.Join(err, p.election().Resume(ctx))
		})
	}},
	{"drain", nil, func(w *simWorld, p *simProc) {
		work := time.Duration(w.draw(int64(4 * w.ttl)))
		w.operator(func(ctx context.Context, c *leader.Control) {
			_ = c.Drain(ctx, p.name, "simulated")
			time.Sleep(work)
			_ = c.Undrain(ctx, p.name) // where it fails, the drain lasts until the calm or a restart
		})
	}},
	{"step-down", nil, func(w *simWorld, _ *simProc) {
		w.mu.Lock()
		term := w.lastTerm
		w.mu.Unlock()
		w.faults.Put("_ctl.g", fmt.Appendf(nil, `{"op":"step-down","term":%d,"by":"operator"}`, term))
	}},
	{"restart", nil, func(_ *simWorld, p *simProc) { p.stop(); p.begin() }},
	{"rollback", (*simWorld).forgets, func(w *simWorld, _ *simProc) { w.faults.Rollback(time.Duration(w.draw(int64(5 * w.ttl)))) }},
	{"wipe", (*simWorld).forgets, func(w *simWorld, _ *simProc) { w.faults.Wipe() }},
	{"purge", (*simWorld).forgets, func(w *simWorld, _ *simProc) { w.faults.Purge("g") }},
}

// storm disturbs the election for a while.
func (w *simWorld) storm() {
	for range 10 + w.draw(40) {
		time.Sleep(time.Duration(w.draw(int64(2 * w.ttl))))
		d := simDeeds[w.draw(int64(len(simDeeds)))]
		if d.only != nil && !d.only(w) {
			continue
		}
		p := w.procs[w.draw(int64(len(w.procs)))]
		w.note("%s of %s", d.name, p.name)
		w.mu.Lock()
		w.deeds[d.name]++
		w.mu.Unlock()
		d.do(w, p)
	}
}

// calmDown ends all faults and judges G5: somebody leads within 2 × TTL.
func (w *simWorld) calmDown() {
	// Events that are under way already may take that long: late writes, gaps,
	// stalls, work that stops.
	w.calm.Store(true)
	for _, p := range w.procs {
		p.stall.Store(0)
		p.wake()
		p.sick.Store(false)
		w.faults.Heal(p.name)
	}
	time.Sleep(3*time.Second + 6*w.longest + 2*w.drain)
	w.withdraw()
	w.maintain()
	w.note("calm")
	patience := 2*w.longest + w.shared.Campaign.MaxBackoff
	if w.forgets() {
		patience += w.longest // the cool-down comes on top
	}
	patience = time.Duration(float64(patience) * (1 + w.drift()) / (1 - w.drift())) // by the slowest clock
	// It counts promotions, too: a leader may hand over at once to a candidate that
	// is preferred, between two samples or at the end.
	before, led := w.promotions(), false
	for begun := time.Now(); !led && time.Since(begun) < patience; time.Sleep(w.ttl / 20) {
		led = w.promotions() > before || slices.ContainsFunc(w.procs, func(p *simProc) bool { return p.election().IsLeader() })
	}
	if !led {
		w.t.Errorf("G5: nobody leads after the calm")
		for _, p := range w.procs {
			w.t.Logf("%s: %+v", p.name, p.election().Status())
		}
		w.t.Logf("record: %s", value(w.faults.Entry("g")))
		return
	}
	w.judgeNews()
}

// promotions is the number of terms that have begun.
func (w *simWorld) promotions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.terms
}

// judgeNews judges that everybody hears who leads, by OnLeaderChange and by
// Observe: in the calm the last news is the truth, if not at once. Lost news
// would never come.
func (w *simWorld) judgeNews() {
	var wrong []string
	for begun := time.Now(); time.Since(begun) < 20*w.longest; time.Sleep(w.ttl / 20) {
		var now leader.Term
		for _, p := range w.procs {
			if p.election().IsLeader() {
				now = p.election().Term()
			}
		}
		wrong = nil
		for _, p := range w.procs {
			p.mu.Lock()
			if p.told.Term != now.Number || p.told.ID == "" || p.seen.Term != now.Number || p.seen.ID == "" {
				wrong = append(wrong, fmt.Sprintf("%s was notified of %q in term %d, and saw %q in term %d", p.name, p.told.ID, p.told.Term, p.seen.ID, p.seen.Term))
			}
			p.mu.Unlock()
		}
		if !now.IsZero() && len(wrong) == 0 {
			return
		}
	}
	w.t.Errorf("after the calm: %q", wrong)
}

// stopTwice stops a leader by two calls, of which one gives up. It judges that
// the record is held for the other, until the work has stopped or its time is
// up: the program that waits believes so.
func (w *simWorld) stopTwice() {
	p := w.leading(nil)
	if p == nil {
		return // it is handing over
	}
	stopped := make(chan error, 1)
	go func() { stopped <- p.election().Stop() }()
	patience := 1 + time.Duration(w.draw(int64(w.ttl)))
	var gaveUp atomic.Bool
	go func() {
		opts := leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: patience}
		gaveUp.Store(errors.Is(p.election().StopWithContext(context.Background(), opts), leader.ErrStopTimeout))
	}()
	for {
		select {
		case err := <-stopped:
			if err != nil && !errors.Is(err, leader.ErrDemoteTimeout) {
				w.t.Errorf("%s: stop: %v", p.name, err)
			}
			return
		case <-time.After(w.ttl / 20):
		}
		w.awaited = w.awaited || gaveUp.Load() && p.atWork()
		for _, other := range w.procs {
			if other != p && other.election().IsLeader() && p.atWork() {
				w.t.Errorf("stop: %s leads at %v beside the work of %s, whose stop is awaited", other.name, time.Since(w.begun), p.name)
				return
			}
		}
	}
}

// atWork reports whether the work goes on, and may yet.
func (p *simProc) atWork() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.leading.IsZero() && (!p.over || p.machine.Mono()-p.lost < p.drain)
}

// withdraw drains one instance, judges that it does not lead then, and ends this
// drain and all others: by an order, or by a restart.
func (w *simWorld) withdraw() {
	c := w.control()
	defer c.Close()
	p := w.procs[w.draw(int64(len(w.procs)))]
	if err := c.Drain(context.Background(), p.name, "maintenance"); err != nil {
		w.t.Errorf("drain: %v", err)
	}
	w.note("withdrawal of %s", p.name)
	state := func(p *simProc) leader.DrainState {
		s, err := c.DrainState(context.Background(), p.name)
		if err != nil {
			w.t.Errorf("drain: %v", err)
		}
		return s
	}
	if !w.within(leader.DrainInterval+2*w.longest, func() bool { return p.deaf.Load() || state(p).Taken }) {
		w.t.Errorf("drain: %s does not obey: %+v", p.name, p.election().Status())
	}
	time.Sleep(2 * w.drain) // a leader hands over
	for range 10 {
		time.Sleep(w.ttl / 2)
		if p.election().IsLeader() && !p.deaf.Load() {
			w.t.Errorf("drain: %s leads: %+v", p.name, p.election().Status())
		}
	}
	for _, q := range w.procs {
		if q == p && !p.deaf.Load() && w.draw(2) == 0 {
			p.stop()
			p.begin()
		} else if err := c.Undrain(context.Background(), q.name); err != nil {
			w.t.Errorf("undrain: %v", err)
		}
	}
	for _, q := range w.procs {
		if !w.within(leader.DrainInterval+2*w.longest, func() bool { return !state(q).Drained && q.election().Status().Barred != leader.ReasonDrained }) {
			w.t.Errorf("undrain: %s is drained yet", q.name)
		}
	}
}

// within waits until the condition holds, for so long at most, and reports
// whether it did.
func (w *simWorld) within(most time.Duration, holds func() bool) bool {
	for begun := time.Now(); !holds(); time.Sleep(w.ttl / 2) {
		if time.Since(begun) >= most {
			return false
		}
	}
	return true
}

// maintain pauses the group, judges that nobody leads then, and resumes it.
func (w *simWorld) maintain() {
	if err := w.procs[0].election().Pause(context.Background(), "maintenance"); err != nil {
		w.t.Errorf("pause: %v", err)
	}
	w.note("maintenance")
	time.Sleep(2*w.longest + 2*w.drain)
	for range 10 {
		time.Sleep(w.ttl / 2)
		for _, p := range w.procs {
			if p.election().IsLeader() {
				w.t.Errorf("pause: %s leads: %+v", p.name, p.election().Status())
			}
		}
	}
	if err := w.procs[0].election().Resume(context.Background()); err != nil {
		w.t.Errorf("resume: %v", err)
	}
}

// change changes the control record in the background, for as long as the
// storm may keep it from that.
func (w *simWorld) change(change func(context.Context) error) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 4*w.ttl)
		defer cancel()
		// A denied call returns the denial.
		if err := change(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrPermanent) {
			w.t.Errorf("control record: %v", err)
		}
	}()
}

// operate lets an operator, whose network is no better than the candidates',
// end the record of a holder that is gone. The call itself finds out whether
// the holder is gone.
func (w *simWorld) operate(end func(context.Context, *leader.Control) error) {
	w.operator(func(ctx context.Context, c *leader.Control) {
		if end(ctx, c) == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended++
		}
	})
}

// operator lets an operator do something in the background, for a while.
func (w *simWorld) operator(do func(context.Context, *leader.Control)) {
	c := w.control()
	go func() {
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 6*w.ttl)
		defer cancel()
		do(ctx, c)
	}()
}

func (w *simWorld) control() *leader.Control {
	c, err := leader.NewControlWithStore(w.faults.Client("operator"), "operator")
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func value(e store.Entry) string { return fmt.Sprintf("%d %s", e.Revision, e.Value) }

func (w *simWorld) draw(n int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Int64N(n)
}

func (w *simWorld) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%10v "+format, append([]any{time.Since(w.begun).Round(time.Millisecond)}, args...)...))
}

// A simField is a field of the configuration and the values that the simulation
// gives it: the default, something in between, and the extremes that Validate
// accepts, as far as an election can go on with them.
type simField struct {
	name   string
	shared bool // the candidates of a group agree on it
	levels []func(w *simWorld, c *leader.ElectionConfig)
}

const endless = time.Duration(math.MaxInt64)

// setting returns a level that sets one field to a constant.
func setting[T any](field func(*leader.ElectionConfig) *T, value T) func(*simWorld, *leader.ElectionConfig) {
	return func(_ *simWorld, c *leader.ElectionConfig) { *field(c) = value }
}

// settings are levels that set one field to constants.
func settings[T any](field func(*leader.ElectionConfig) *T, values ...T) (levels []func(*simWorld, *leader.ElectionConfig)) {
	for _, v := range values {
		levels = append(levels, setting(field, v))
	}
	return levels
}

// leases are levels that set one field to parts of the TTL.
func leases(field func(*leader.ElectionConfig) *time.Duration, parts ...float64) (levels []func(*simWorld, *leader.ElectionConfig)) {
	for _, p := range parts {
		levels = append(levels, func(w *simWorld, c *leader.ElectionConfig) { *field(c) = time.Duration(p * float64(w.ttl)) })
	}
	return levels
}

type (
	simConfig = leader.ElectionConfig
	simLevels = []func(*simWorld, *leader.ElectionConfig)
)

func someTTL(w *simWorld, c *simConfig) {
	c.TTL = time.Duration(500+w.rng.IntN(2500)) * time.Millisecond
}

// demoteInTime gives most of the work enough time to stop.
func demoteInTime(w *simWorld, c *simConfig) { c.DemoteTimeout = w.drain }

// simFields are all fields that change what an election does. Heartbeats, time
// limits and delays of a nanosecond, and delays without end, are valid and left
// out: with the former a schedule never ends, and with the latter nobody need
// ever lead again.
var simFields = []simField{
	{"TTL", true, simLevels{
		func(_ *simWorld, c *simConfig) { c.TTL = leader.MinTTL },
		someTTL, someTTL, someTTL,
		func(_ *simWorld, c *simConfig) { c.TTL = leader.MaxTTL },
	}},
	{"ClockDrift", true, settings(func(c *simConfig) *float64 { return &c.ClockDrift }, math.SmallestNonzeroFloat64, 0, 0.3)},
	{"AcquireGrace", true, settings(func(c *simConfig) *leader.AcquireGrace { return &c.AcquireGrace }, leader.GraceAuto, leader.GraceOn, leader.GraceOff)},
	{"VersionPolicy", true, settings(func(c *simConfig) *leader.VersionPolicy { return &c.VersionPolicy }, leader.PreferAny, leader.PreferOlder, leader.PreferNewer)},
	// Of all or of none, and mostly of none: those who back off leave the first
	// claim to others.
	{"Campaign.Backoff", true, leases(func(c *simConfig) *time.Duration { return &c.Campaign.Backoff }, 0, 0, 0, .05)},
	{"Campaign.MaxBackoff", true, leases(func(c *simConfig) *time.Duration { return &c.Campaign.MaxBackoff }, .05, .25)},

	{"ForeignTTL", false, simLevels{
		func(*simWorld, *simConfig) {},
		func(w *simWorld, c *simConfig) { c.ForeignTTL = w.ttl },
		func(w *simWorld, c *simConfig) { c.ForeignTTL = min(2*w.ttl, leader.MaxTTL) },
	}},
	{"HeartbeatInterval", false, leases(func(c *simConfig) *time.Duration { return &c.HeartbeatInterval }, .1, .25, 1./3)},
	{"ConnectionTimeout", false, leases(func(c *simConfig) *time.Duration { return &c.ConnectionTimeout }, 0, 0, 0, .005, .1, 1)},
	{"DisconnectGracePeriod", false, append(
		leases(func(c *simConfig) *time.Duration { return &c.DisconnectGracePeriod }, 0, .25),
		settings(func(c *simConfig) *time.Duration { return &c.DisconnectGracePeriod }, 1, endless)...)},
	{"DemoteTimeout", false, append(
		settings(func(c *simConfig) *time.Duration { return &c.DemoteTimeout }, 1, endless),
		simLevels{demoteInTime, demoteInTime}...)},
	{"DeleteOnStop", false, settings(func(c *simConfig) *bool { return &c.DeleteOnStop }, false, true)},
	{"RetryConfig.MaxAttempts", false, settings(func(c *simConfig) *int { return &c.RetryConfig.MaxAttempts }, 0, 0, 1, math.MaxInt)},
	{"RetryConfig.InitialBackoff", false, leases(func(c *simConfig) *time.Duration { return &c.RetryConfig.InitialBackoff }, 0, .005, .25)},
	{"RetryConfig.MaxBackoff", false, leases(func(c *simConfig) *time.Duration { return &c.RetryConfig.MaxBackoff }, 0, .25, 1)},
	{"RetryConfig.BackoffMultiplier", false, settings(func(c *simConfig) *float64 { return &c.RetryConfig.BackoffMultiplier }, 0, 1, math.MaxFloat64)},
	{"RetryConfig.Jitter", false, settings(func(c *simConfig) *float64 { return &c.RetryConfig.Jitter }, 0, math.SmallestNonzeroFloat64, 1)},
	{"Campaign.Splay", false, leases(func(c *simConfig) *time.Duration { return &c.Campaign.Splay }, 0, .05, 1)},
	{"Priority", false, settings(func(c *simConfig) *int { return &c.Priority }, 0, 1, math.MinInt, math.MaxInt)},
	{"Version", false, settings(func(c *simConfig) *string { return &c.Version }, "1.0.0", "v1.20.0-rc.1", "2")},
	{"AllowPriorityTakeover", false, settings(func(c *simConfig) *bool { return &c.AllowPriorityTakeover }, true, true, false)},
	{"MinTenure", false, append(
		leases(func(c *simConfig) *time.Duration { return &c.MinTenure }, 0, 2),
		settings(func(c *simConfig) *time.Duration { return &c.MinTenure }, 1, endless)...)},
	{"HealthCheckInterval", false, append(
		leases(func(c *simConfig) *time.Duration { return &c.HealthCheckInterval }, 0, .1, 2),
		func(_ *simWorld, c *simConfig) { c.HealthChecker = nil })},
	{"HealthCheckTimeout", false, settings(func(c *simConfig) *time.Duration { return &c.HealthCheckTimeout }, 0, 1)},
	{"MaxConsecutiveFailures", false, settings(func(c *simConfig) *int { return &c.MaxConsecutiveFailures }, 0, 1, 1, math.MaxInt)},
	{"Fencing.ValidationInterval", false, append(
		leases(func(c *simConfig) *time.Duration { return &c.Fencing.ValidationInterval }, 0, .3),
		setting(func(c *simConfig) *time.Duration { return &c.Fencing.ValidationInterval }, endless))},
	{"Fencing.ValidateOnCriticalOps", false, settings(func(c *simConfig) *bool { return &c.Fencing.ValidateOnCriticalOps }, false, true)},
	{"Fencing.CacheToken", false, settings(func(c *simConfig) *bool { return &c.Fencing.CacheToken }, false, true)},
}

// A simChoice is a level of each field.
type simChoice []int

// chooseShared draws what the candidates of a group agree on.
func (w *simWorld) chooseShared() (c leader.ElectionConfig) {
	w.choice = make(simChoice, len(simFields))
	for i, f := range simFields {
		if f.shared {
			w.choice[i] = w.rng.IntN(len(f.levels))
			f.levels[w.choice[i]](w, &c)
			w.ttl = c.TTL // the first, by which the others are measured
		}
	}
	return c
}

// choose draws the rest of a candidate's configuration.
func (w *simWorld) choose(c *leader.ElectionConfig) {
	choice := append(simChoice(nil), w.choice...)
	for i, f := range simFields {
		if f.shared || w.alike && (f.name == "Priority" || f.name == "Version") {
			continue // and else the first level
		}
		choice[i] = int(w.draw(int64(len(f.levels))))
		f.levels[choice[i]](w, c)
	}
	if w.uneven() {
		// A foreign record may hide the longest lease. The levels do not
		// include it then, and meet nothing.
		c.TTL, c.ForeignTTL = w.lease(), w.longest
		c.HeartbeatInterval = time.Duration(float64(c.HeartbeatInterval) / float64(w.ttl) * float64(c.TTL)).Truncate(time.Microsecond)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pairs.add(choice)
}

// A simPair is two fields, the former one first, each at a level.
type simPair struct{ field, level, other, otherLevel int }

// simPairs counts the pairs that occurred in one configuration.
type simPairs map[simPair]int

func (p simPairs) add(c simChoice) {
	for i := range c {
		for j := range i {
			p[simPair{j, c[j], i, c[i]}]++
		}
	}
}

// demandAll demands that each level of each field met each of each other.
func (p simPairs) demandAll(errorf func(format string, args ...any)) {
	for i, f := range simFields {
		for j, g := range simFields[:i] {
			for l := range f.levels {
				for k := range g.levels {
					if p[simPair{j, k, i, l}] == 0 {
						errorf("%s never was at its level %d when %s was at %d", f.name, l, g.name, k)
					}
				}
			}
		}
	}
}
