package leader_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	simSeeds = flag.Int("seeds", 300, "schedules that TestSimulation runs")
	simSeed  = flag.Uint64("seed", 0, "the only schedule that TestSimulation runs, as a failure printed it")
)

// TestSimulation runs whole elections, as the program runs them, against registers and a
// network that fail in random ways, in virtual time, and judges G1 to G6:
//
//	make sim SEEDS=10000
//	go test -run TestSimulation -v . -args -seed=42
//
// A schedule has a stormy part and a calm end. Every kind of fault and of disturbance must
// happen somewhere in a run of the default size or larger, or the run fails: a
// simulation in which nothing goes wrong proves nothing.
func TestSimulation(t *testing.T) {
	var total simCount
	defer func() { total.report(t) }()
	if *simSeed != 0 {
		t.Run("", func(t *testing.T) { simulate(t, *simSeed, &total) })
		return
	}
	base := rand.Uint64N(1<<40) + 1
	t.Logf("seeds %d to %d", base, base+uint64(*simSeeds)-1)
	t.Run("schedules", func(t *testing.T) {
		for i := range uint64(*simSeeds) {
			t.Run(fmt.Sprint(base+i), func(t *testing.T) {
				t.Parallel()
				simulate(t, base+i, &total)
			})
		}
	})
	if *simSeeds >= 300 {
		total.demandAll(t)
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
	losses    map[leader.Reason]int
	deeds     map[string]int
	faults    map[faultstore.Fault]uint64
}

func (c *simCount) add(w *simWorld) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.losses == nil {
		c.losses, c.deeds, c.faults = map[leader.Reason]int{}, map[string]int{}, map[faultstore.Fault]uint64{}
	}
	c.schedules++
	c.virtual += time.Since(w.begun)
	c.terms += w.terms
	c.resolved += w.resolved
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
	t.Logf("schedules %d, virtual time %v, terms %d, unknown outcomes resolved %d\nlosses %v\ndisturbances %v\nfaults %v",
		c.schedules, c.virtual.Round(time.Second), c.terms, c.resolved, c.losses, c.deeds, c.faults)
}

func (c *simCount) demandAll(t *testing.T) {
	if c.resolved == 0 {
		t.Error("no unknown outcome was ever resolved")
	}
	for _, d := range simDeeds {
		if c.deeds[d.name] == 0 {
			t.Errorf("disturbance %q never happened", d.name)
		}
	}
	for f, n := range c.faults {
		if n == 0 {
			t.Errorf("fault %v never happened", f)
		}
	}
	for _, r := range []leader.Reason{
		leader.ReasonTrustExpired, leader.ReasonDeleted, leader.ReasonOverwritten,
		leader.ReasonDisconnected, leader.ReasonResigned, leader.ReasonTransferred, leader.ReasonStopped,
		leader.ReasonSteppedDown, leader.ReasonPaused, leader.ReasonUnhealthy, leader.ReasonOutranked,
	} {
		if c.losses[r] == 0 {
			t.Errorf("no term ever ended by %q", r)
		}
	}
}

// A simWorld is one schedule while it runs.
type simWorld struct {
	t      *testing.T
	rng    *rand.Rand
	begun  time.Time
	ttl    time.Duration
	drain  time.Duration
	grace  leader.AcquireGrace
	ranks  int // how many standings there may be; with one, all are alike
	policy leader.VersionPolicy

	backoff time.Duration // of all or of none: those who back off take no offers
	faults  *faultstore.Faults
	calm    atomic.Bool
	procs   []*simProc

	mu       sync.Mutex
	resolved int
	log      []string
	lastTerm uint64
	terms    int
	losses   map[leader.Reason]int
	deeds    map[string]int
}

// A simProc is one process: a candidate and its work.
type simProc struct {
	w     *simWorld
	name  string
	e     leader.Election
	stall atomic.Int64 // how long the election's goroutine is to be stuck, once
	sick  atomic.Bool

	mu      sync.Mutex
	leading leader.Term // promoted and not demoted yet
	lost    time.Time   // when the term's context ended while the work went on
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
		losses: map[leader.Reason]int{}, deeds: map[string]int{},
	}
	w.ttl = time.Duration(500+w.rng.IntN(2500)) * time.Millisecond
	w.drain = time.Duration(1+w.rng.IntN(4)) * w.ttl / 2
	w.grace = leader.GraceOff
	if w.rng.IntN(4) == 0 {
		w.grace = leader.GraceOn // and only then may the store forget
	}
	if w.rng.IntN(2) == 0 {
		w.ranks, w.policy = 1+w.rng.IntN(3), leader.VersionPolicy(w.rng.IntN(3))
	}
	w.backoff = time.Duration(w.rng.IntN(4)/3) * w.ttl / 20
	network := faultstore.Random(seed, w.rates())
	w.faults = faultstore.New(faultstore.Options{Policy: func(c faultstore.Call) faultstore.Fate {
		w.judgeWrite(c)
		if w.calm.Load() {
			return faultstore.Fate{}
		}
		return network(c)
	}})
	for i := range 2 + w.rng.IntN(4) {
		p := &simProc{w: w, name: string(rune('a' + i))}
		w.procs = append(w.procs, p)
		p.begin()
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

func (p *simProc) begin() {
	w := p.w
	e, err := leader.NewElectionWithStore(w.faults.Client(p.name), leader.ElectionConfig{
		Group: "g", InstanceID: p.name, TTL: w.ttl, HeartbeatInterval: (w.ttl / 4).Truncate(time.Millisecond),
		AcquireGrace: w.grace, DemoteTimeout: w.drain, DeleteOnStop: w.draw(2) == 0,
		DisconnectGracePeriod: time.Duration(w.draw(2)) * w.ttl / 4,
		HealthChecker:         p, HealthCheckInterval: w.ttl / 5,
		Priority: w.rank(), Version: fmt.Sprintf("1.%d.0", w.rank()), VersionPolicy: w.policy,
		AllowPriorityTakeover: w.draw(4) != 0, MinTenure: 2 * w.ttl,
		Campaign: leader.CampaignConfig{Splay: time.Duration(w.draw(2)) * w.ttl / 20, Backoff: w.backoff},
		Hooks: leader.Hooks{Transition: p.transition, Note: p.noted, Call: func(leader.Call) {
			if d := p.stall.Swap(0); d > 0 {
				w.note("%s stalls for %v", p.name, time.Duration(d))
				time.Sleep(time.Duration(d))
			}
		}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p.mu.Lock()
	p.e = e
	p.mu.Unlock()
	e.OnPromote(p.promoted)
	e.OnDemote(p.demoted)
	if err := e.Start(context.Background()); err != nil {
		w.t.Errorf("%s: start: %v", p.name, err)
	}
}

// rank draws a priority, or the number of a version.
func (w *simWorld) rank() int {
	if w.ranks == 0 {
		return 0
	}
	return int(w.draw(int64(w.ranks)))
}

// Check is the program's health.
func (p *simProc) Check(context.Context) bool { return !p.sick.Load() }

func (p *simProc) election() leader.Election {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.e
}

func (p *simProc) stop() {
	if err := p.election().Stop(); err != nil && !errors.Is(err, leader.ErrDemoteTimeout) {
		p.w.t.Errorf("%s: stop: %v", p.name, err)
	}
	time.Sleep(2 * p.w.drain) // work that outlived its time ends, too
}

// transition judges G1 and G2. Two reigns overlap if and only if one of them is under way
// when the other begins, so looking at every beginning misses nothing; virtual
// time stands still meanwhile.
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
	for _, other := range w.procs {
		if other != p && other.election().IsLeader() {
			w.t.Errorf("G1: %s and %s lead at %v", p.name, other.name, time.Since(w.begun))
		}
	}
	p.judgeClaim(tr.Term)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terms++
	if tr.Term.Number <= w.lastTerm && w.grace != leader.GraceOn { // a store that forgets may count anew
		w.t.Errorf("G2: %s leads in term %d after term %d", p.name, tr.Term.Number, w.lastTerm)
	}
	w.lastTerm = tr.Term.Number
}

// judgeClaim judges G6: a term is never guessed. Its number is the revision of a write that the store
// applied, and the register holds it, a renewal of it, or what replaced it since.
func (p *simProc) judgeClaim(term leader.Term) {
	if p.w.grace == leader.GraceOn { // the store may have forgotten it
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
}

// promoted is the work of a leader. It judges G3, and takes a while to stop.
func (p *simProc) promoted(ctx context.Context, token string) {
	term, ok := leader.TermFromContext(ctx)
	if !ok || term.Token != token {
		p.w.t.Errorf("%s: context of term %v, token %q", p.name, term, token)
	}
	p.mu.Lock()
	if !p.leading.IsZero() {
		p.w.t.Errorf("G3: %s promoted in term %d before the demotion of term %d", p.name, term.Number, p.leading.Number)
	}
	p.leading, p.lost = term, time.Time{}
	p.mu.Unlock()
	for _, other := range p.w.procs {
		if other != p && other.contextLives() && ctx.Err() == nil {
			p.w.t.Errorf("G1: contexts of %s and %s live at %v", p.name, other.name, time.Since(p.w.begun))
		}
	}
	<-ctx.Done()
	if p.election().Term() == term {
		p.w.t.Errorf("G3: %s leads in term %d after its context has ended", p.name, term.Number)
	}
	p.mu.Lock()
	p.lost = time.Now()
	p.mu.Unlock()
	time.Sleep(time.Duration(p.w.draw(int64(p.w.drain) * 5 / 4)))
}

func (p *simProc) contextLives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.leading.IsZero() && p.lost.IsZero()
}

func (p *simProc) demoted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leading.IsZero() {
		p.w.t.Errorf("G3: %s demoted without a promotion", p.name)
	}
	p.leading = leader.Term{}
}

// judgeWrite judges G4: a vacancy is written only when the work has stopped, or its time is up. The release of an earlier
// claim may get on its way late, when the next has been won already. It expects a revision before that one's, and is refused.
func (w *simWorld) judgeWrite(c faultstore.Call) {
	release := c.Op == faultstore.CompareAndSwap && c.Write.Tombstone
	if !release && c.Op != faultstore.Offer {
		return
	}
	for _, p := range w.procs {
		if p.name != c.Client {
			continue
		}
		p.mu.Lock()
		stands := c.Op == faultstore.Offer || c.Write.Expected >= p.leading.Number
		if !p.leading.IsZero() && stands && (p.lost.IsZero() || time.Since(p.lost) < w.drain) {
			w.t.Errorf("G4: %s releases at %v while its work of term %d goes on", p.name, time.Since(w.begun), p.leading.Number)
		}
		p.mu.Unlock()
	}
}

// A simDeed is something that somebody does to the election.
type simDeed struct {
	name    string
	forgets bool // only where the store may forget
	do      func(w *simWorld, p *simProc)
}

var simDeeds = []simDeed{
	{"partition", false, func(w *simWorld, p *simProc) { w.faults.Partition(p.name) }},
	{"black hole", false, func(w *simWorld, p *simProc) { w.faults.BlackHole(p.name) }},
	{"heal", false, func(w *simWorld, p *simProc) { w.faults.Heal(p.name) }},
	{"stall", false, func(w *simWorld, p *simProc) { p.stall.Store(w.draw(int64(3 * w.ttl))) }},
	{"delete", false, func(w *simWorld, _ *simProc) { w.faults.Delete("g") }},
	{"garbage", false, func(w *simWorld, _ *simProc) { w.faults.Put("g", []byte("garbage")) }},
	{"resign", false, func(_ *simWorld, p *simProc) { go func() { _ = p.election().Resign(context.Background()) }() }},
	{"transfer", false, func(w *simWorld, p *simProc) {
		to := w.procs[w.draw(int64(len(w.procs)))].name
		go func() { _ = p.election().Transfer(context.Background(), to) }()
	}},
	{"validate", false, func(_ *simWorld, p *simProc) {
		go func() { _ = p.election().ValidateToken(context.Background()) }()
	}},
	{"sickness", false, func(w *simWorld, p *simProc) {
		p.sick.Store(true)
		time.AfterFunc(time.Duration(w.draw(int64(4*w.ttl))), func() { p.sick.Store(false) })
	}},
	{"maintenance", false, func(w *simWorld, p *simProc) {
		work := time.Duration(w.draw(int64(2 * w.ttl)))
		w.control(func(ctx context.Context) error {
			err := p.election().Pause(ctx, "simulated")
			time.Sleep(work)
			return errors.Join(err, p.election().Resume(ctx))
		})
	}},
	{"step-down", false, func(w *simWorld, _ *simProc) {
		w.mu.Lock()
		term := w.lastTerm
		w.mu.Unlock()
		w.faults.Put("_ctl.g", fmt.Appendf(nil, `{"op":"step-down","term":%d,"by":"operator"}`, term))
	}},
	{"restart", false, func(_ *simWorld, p *simProc) { p.stop(); p.begin() }},
	{"rollback", true, func(w *simWorld, _ *simProc) { w.faults.Rollback(time.Duration(w.draw(int64(5 * w.ttl)))) }},
	{"wipe", true, func(w *simWorld, _ *simProc) { w.faults.Wipe() }},
}

// storm disturbs the election for a while.
func (w *simWorld) storm() {
	for range 10 + w.draw(40) {
		time.Sleep(time.Duration(w.draw(int64(2 * w.ttl))))
		d := simDeeds[w.draw(int64(len(simDeeds)))]
		if d.forgets && w.grace != leader.GraceOn {
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
	// What is under way already may take that long: late writes, gaps, stalls, work that stops.
	w.calm.Store(true)
	for _, p := range w.procs {
		p.stall.Store(0)
		p.sick.Store(false)
		w.faults.Heal(p.name)
	}
	time.Sleep(3*time.Second + 6*w.ttl + 2*w.drain)
	if string(w.faults.Entry("g").Value) == "garbage" {
		// Candidates that never saw a holder leave garbage alone for MaxTTL. The
		// remedy is the operator's: delete the key.
		w.note("remedy")
		w.faults.Delete("g")
	}
	w.maintain()
	w.note("calm")
	patience := 2 * w.ttl
	if w.grace == leader.GraceOn {
		patience += w.ttl // the cool-down comes on top
	}
	// Not at its end alone: there one may be handing over to another that is preferred.
	led := false
	for begun := time.Now(); !led && time.Since(begun) < patience; time.Sleep(w.ttl / 20) {
		led = slices.ContainsFunc(w.procs, func(p *simProc) bool { return p.election().IsLeader() })
	}
	if !led {
		w.t.Errorf("G5: nobody leads after the calm")
		for _, p := range w.procs {
			w.t.Logf("%s: %+v", p.name, p.election().Status())
		}
		w.t.Logf("record: %s", value(w.faults.Entry("g")))
	}
}

// maintain pauses the group, judges that nobody leads then, and resumes it.
func (w *simWorld) maintain() {
	if err := w.procs[0].election().Pause(context.Background(), "maintenance"); err != nil {
		w.t.Errorf("pause: %v", err)
	}
	w.note("maintenance")
	time.Sleep(2*w.ttl + 2*w.drain)
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

// control changes the control record in the background, for as long as the storm may keep it from that.
func (w *simWorld) control(change func(context.Context) error) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 4*w.ttl)
		defer cancel()
		if err := change(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("control record: %v", err)
		}
	}()
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
