//go:build faults

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	inject "github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// faultPoints are all places at which one of our goroutines may panic. The test
// fails if one of them is never passed, or is not among them.
var faultPoints = []string{
	"loop", "step", "perform", "write", "send", "answer", "look", "examine", "join", "poll", "health checks", "health", "check",
	"validations", "validation", "takeover request", "drain", "callbacks", "news", "window", "delivery", "connection", "delivery queue",
}

// TestFaults lets each of our goroutines panic at random, and judges from
// outside:
//
//	go test -race -tags faults -run TestFaults .
//
// At most one leads, callbacks alternate, contexts end, Done closes and Err
// returns why, nothing is left behind (a bubble ends with its last goroutine),
// and a goroutine that a supervisor restarts leads again.
func TestFaults(t *testing.T) {
	defer inject.Set(nil)
	total := newStrikes(faultPoints)
	base := *simSeed
	if base == 0 {
		base = rand.Uint64N(1 << 40)
	}
	t.Logf("replay: go test -tags faults -run TestFaults . -args -seed=%d (the goroutines' order is not the seed's)", base)
	// Some points are passed by chance alone: worlds go on until each has been
	// struck, within reason.
	points := uint64(len(faultPoints))
	for i := uint64(0); i < 4*points || i < 20*points && total.missing() > 0; i++ {
		t.Run(fmt.Sprint(base+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &faultWorld{t: t, rng: rand.New(rand.NewPCG(base+i, 2)), total: total}
				w.aim = faultPoints[i%points]
				w.ranked = w.aim == "takeover request" || w.rng.IntN(4) == 0
				w.run()
			})
		})
	}
	total.demandAll(t)
}

// strikes count the panics at each point.
type strikes struct {
	points []string // all that may be struck

	mu             sync.Mutex
	passed, struck map[string]int
}

func newStrikes(points []string) *strikes {
	return &strikes{points: points, passed: map[string]int{}, struck: map[string]int{}}
}

func (s *strikes) count(point string, struck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed[point]++
	if struck {
		s.struck[point]++
	}
}

// missing is how many points have not been struck yet.
func (s *strikes) missing() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.points {
		if s.struck[p] == 0 {
			n++
		}
	}
	return n
}

func (s *strikes) demandAll(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("panics: %v", s.struck)
	for _, p := range s.points {
		if s.struck[p] == 0 {
			t.Errorf("%q never panicked, and was passed %d times", p, s.passed[p])
		}
	}
	for p := range maps.Keys(s.passed) {
		if !slices.Contains(s.points, p) {
			t.Errorf("%q is not known to this test", p)
		}
	}
}

// A faultWorld is one group whose candidates are struck.
type faultWorld struct {
	t     *testing.T
	total *strikes

	mu   sync.Mutex
	rng  *rand.Rand
	calm bool
	aim  string // the point that is struck often in this world
	// ranked: the candidates differ by priority.
	ranked bool
	procs  []*faultProc
}

// A faultProc is a candidate with its supervisor.
type faultProc struct {
	w    *faultWorld
	name string
	st   store.Store

	cutOff atomic.Bool // no write is answered

	mu      sync.Mutex
	e       leader.Election
	term    leader.Term // promoted and not demoted yet
	ctx     context.Context
	crashes int
}

// pollOnly hides what else a store can do.
type pollOnly struct{ store.Store }

// online adds to a store a connection that comes and goes.
type online struct {
	*memstore.Store
	p *faultProc
}

func (o online) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if o.p.cutOff.Load() {
		<-ctx.Done()
		return 0, fmt.Errorf("%w: %w", store.ErrUnknown, ctx.Err())
	}
	return o.Store.CompareAndSwap(ctx, w)
}

// Check finds a store that is as old as possible, and reports that: a claim
// that found nothing asks for its age again.
func (o online) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	report, err := o.Store.Check(ctx, r)
	report.Age = time.Hour
	return report, err
}

func (o online) ConnState() store.ConnState { return store.Connected }

func (o online) OnConnState(tell func(store.ConnState)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for tick := time.NewTicker(ttl); ; {
			select {
			case <-tick.C:
				tell(store.Connected)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// An unawaited store is one whose writes nobody waits for.
type unawaited struct{ online }

func (u unawaited) CompareAndSwapAsync(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	go func() {
		defer cancel()
		done(u.CompareAndSwap(ctx, w))
	}()
	return canceling(cancel)
}

func (w *faultWorld) run() {
	inject.Set(w.strike)
	mem := memstore.NewWithOptions(memstore.Options{Logger: slog.New(slog.DiscardHandler)})
	for i := range 3 {
		p := &faultProc{w: w, name: string(rune('a' + i))}
		p.st = []store.Store{online{mem, p}, unawaited{online{mem, p}}, pollOnly{mem}}[i]
		w.procs = append(w.procs, p)
	}
	for _, p := range w.procs { // which look at all others
		p.begin()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var supervisors sync.WaitGroup
	for _, p := range w.procs {
		supervisors.Go(func() { p.supervise(ctx) })
	}
	w.storm(mem)
	w.calmDown()
	cancel()
	supervisors.Wait()
	for _, p := range w.procs {
		if err := p.election().Stop(); err != nil {
			w.t.Errorf("%s: stop: %v", p.name, err)
		}
		p.judgeEnd()
	}
	synctest.Wait()
}

// strike panics now and then.
func (w *faultWorld) strike(point string) {
	w.mu.Lock()
	rate := 0.002
	if point == w.aim {
		rate = aimed(point)
	}
	struck := !w.calm && w.rng.Float64() < rate
	w.mu.Unlock()
	w.total.count(point, struck)
	if struck {
		panic("struck: " + point)
	}
}

// aimed is how often a point is struck that a world aims at: more often where
// it is seldom passed.
func aimed(point string) float64 {
	switch point {
	case "window", "look", "takeover request", "examine":
		return 0.7
	default:
		return 0.2
	}
}

func (w *faultWorld) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *faultWorld) storm(mem *memstore.Store) {
	for range 200 {
		time.Sleep(time.Duration(1+w.draw(int(ttl/4))) + 1)
		w.judge()
		switch p := w.procs[w.draw(len(w.procs))]; w.draw(12) {
		case 0:
			mem.Delete("g")
		case 1:
			mem.Put("g", []byte("garbage"))
			mem.Delete("g")
		case 2, 3, 7:
			go func() { _ = p.election().Resign(context.Background()) }()
		case 4:
			mem.Put("_ctl.g", []byte(`{"paused":{"by":"operator"}}`))
			time.Sleep(heartbeat)
			mem.Put("_ctl.g", []byte("garbage"))
			time.Sleep(2 * heartbeat)
			mem.Delete("_ctl.g")
		case 6:
			for _, p := range w.procs {
				if p.election().IsLeader() {
					p.cutOff.Store(true)
					time.AfterFunc(2*ttl, func() { p.cutOff.Store(false) })
				}
			}
			time.Sleep(ttl)
		case 5:
			mem.Delete("g") // twice as often as the rest, for claims that are refused
			go func() { _ = p.election().ValidateToken(context.Background()) }()
		}
	}
}

// judge judges G1: at most one leads.
func (w *faultWorld) judge() {
	var leading []string
	for _, p := range w.procs {
		if e := p.election(); e != nil && e.IsLeader() {
			leading = append(leading, p.name)
		}
	}
	if len(leading) > 1 {
		w.t.Errorf("G1: %v lead", leading)
	}
}

// calmDown judges G5: somebody leads within two leases.
func (w *faultWorld) calmDown() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	for _, p := range w.procs {
		p.cutOff.Store(false)
	}
	synctest.Wait()
	// The sum of what is under way, the supervisor's delay, and the lease of
	// who was struck last.
	time.Sleep(2*ttl + wait + 2*time.Second)
	led := false
	for begun := time.Now(); !led && time.Since(begun) < 2*ttl; time.Sleep(ttl / 20) {
		w.judge()
		led = slices.ContainsFunc(w.procs, func(p *faultProc) bool { return p.election().IsLeader() })
	}
	if !led {
		for _, p := range w.procs {
			w.t.Errorf("G5: nobody leads: %s: %s", p.name, status(p.election()))
		}
	}
}

func (p *faultProc) election() leader.Election {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.e
}

func (p *faultProc) begin() {
	cfg := config(p.name)
	cfg.HealthChecker, cfg.HealthCheckInterval, cfg.MaxConsecutiveFailures = p, heartbeat, 5
	cfg.DemoteTimeout = ttl
	cfg.Fencing.ValidationInterval = heartbeat
	if p.w.ranked {
		cfg.Priority, cfg.AllowPriorityTakeover, cfg.MinTenure = p.w.draw(3), true, ttl
	}
	e, err := leader.NewElectionWithStore(p.st, cfg)
	if err != nil {
		p.w.t.Error(err)
		return
	}
	e.OnPromote(p.promoted)
	e.OnDemote(p.demoted)
	e.OnLeaderChange(func(leader.LeaderInfo) {})
	p.mu.Lock()
	p.e = e
	p.mu.Unlock()
	if err := e.Start(context.Background()); err != nil {
		p.w.t.Errorf("%s: start: %v", p.name, err)
	}
}

// Check is the program's health.
func (p *faultProc) Check(context.Context) bool { return true }

// supervise makes a new election in the place of one that has ended by itself.
func (p *faultProc) supervise(ctx context.Context) {
	for {
		e := p.election()
		select {
		case <-ctx.Done():
			return
		case <-e.Done():
		}
		if err := e.Err(); !errors.Is(err, leader.ErrPanicked) {
			p.w.t.Errorf("%s: ended by itself with %v", p.name, err)
		}
		if err := e.Stop(); !errors.Is(err, leader.ErrPanicked) {
			p.w.t.Errorf("%s: Stop after a panic: %v", p.name, err)
		}
		if s := e.Status(); s.State != leader.StateStopped || s.IsLeader {
			p.w.t.Errorf("%s: %s after its end", p.name, status(e))
		}
		p.judgeEnd()
		p.mu.Lock()
		p.crashes++
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		p.begin()
	}
}

// promoted judges G3, and G1 where a term begins, since two leaders may overlap
// for less than the storm sleeps. It works until its context ends.
func (p *faultProc) promoted(ctx context.Context, _ string) {
	term, _ := leader.TermFromContext(ctx)
	p.mu.Lock()
	if !p.term.IsZero() {
		p.w.t.Errorf("G3: %s promoted in term %d before the demotion of term %d", p.name, term.Number, p.term.Number)
	}
	p.term, p.ctx = term, ctx
	p.mu.Unlock()
	p.w.judge()
	<-ctx.Done()
}

func (p *faultProc) demoted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term.IsZero() {
		p.w.t.Errorf("G3: %s demoted without a promotion", p.name)
	} else if p.ctx.Err() == nil {
		p.w.t.Errorf("G3: %s demoted while its context lives", p.name)
	}
	p.term = leader.Term{}
}

// judgeEnd judges that an election that is over has notified the program.
func (p *faultProc) judgeEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.term.IsZero() {
		p.w.t.Errorf("%s: over, and its term %d was never demoted", p.name, p.term.Number)
	}
	p.term = leader.Term{}
}

// rolePoints are all places at which a goroutine of a RoleManager, or of its
// health checks, may panic.
var rolePoints = []string{
	"roles: manager", "roles: turn", "roles: health", "roles: health checks", "roles: spreading", "roles: stop",
	"roles: asking", "roles: forgetting a role", "roles: dispose", "health",
}

// TestFaultsOfRoles lets the goroutines of role managers panic at random, and
// judges from outside:
//
//	go test -race -tags faults -run TestFaultsOfRoles .
//
// At most one leads a role, an instance that is fit again leads again, roles
// that were removed are gone, a manager whose context has ended comes to its
// end by itself and closes its store, and nothing is left behind.
func TestFaultsOfRoles(t *testing.T) {
	defer inject.Set(nil)
	total := newStrikes(rolePoints)
	base := *simSeed
	if base == 0 {
		base = rand.Uint64N(1 << 40)
	}
	t.Logf("replay: go test -tags faults -run TestFaultsOfRoles . -args -seed=%d (the goroutines' order is not the seed's)", base)
	points := uint64(len(rolePoints))
	for i := uint64(0); i < 3*points || i < 20*points && total.missing() > 0; i++ {
		t.Run(fmt.Sprint(base+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &roleFaults{t: t, rng: rand.New(rand.NewPCG(base+i, 3)), total: total, aim: rolePoints[i%points]}
				w.run()
			})
		})
	}
	total.demandAll(t)
}

// A roleFaults is a world of three managers of the same roles that are struck.
type roleFaults struct {
	t     *testing.T
	total *strikes
	mem   *memstore.Store
	procs []*roleProc

	mu   sync.Mutex
	rng  *rand.Rand
	calm bool
	aim  string
}

var faultRoles = []string{"role.a", "role.b", "role.c", "role.d", "role.e"}

// A roleProc is a program with a manager, and what is known of it from outside.
type roleProc struct {
	w    *roleFaults
	name string
	sick atomic.Bool

	// Of the present manager.
	m        *leader.RoleManager
	end      context.CancelFunc
	over     chan struct{} // closed when its reader has heard that it ended
	ended    atomic.Bool   // its log shows that spreading has ended
	disposed atomic.Int64
	spoilt   atomic.Int64 // strikes at its dispose
}

func (w *roleFaults) run() {
	w.mem = memstore.New()
	inject.Set(w.strike)
	for _, name := range []string{"a", "b", "c"} {
		p := &roleProc{w: w, name: name}
		w.procs = append(w.procs, p)
		p.begin()
	}
	w.storm()
	w.calmDown()
	for _, p := range w.procs {
		p.finish()
	}
	synctest.Wait()
}

func (w *roleFaults) strike(point string) {
	if !slices.Contains(rolePoints, point) {
		return // struck in TestFaults
	}
	w.mu.Lock()
	rate := 0.005
	if point == w.aim {
		rate = 0.3
	}
	struck := !w.calm && w.rng.Float64() < rate
	w.mu.Unlock()
	w.total.count(point, struck)
	if struck {
		if point == "roles: dispose" {
			for _, p := range w.procs {
				p.spoilt.Add(1)
			}
		}
		panic("struck: " + point)
	}
}

func (w *roleFaults) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (p *roleProc) begin() {
	cfg := spreading(p.name)
	p.ended.Store(false)
	cfg.Election.Logger = slog.New(spreadingEnds{slog.DiscardHandler, &p.ended})
	cfg.Election.HealthChecker, cfg.Election.HealthCheckInterval, cfg.Election.MaxConsecutiveFailures = p, heartbeat, 2
	cfg.Spread.Pace = 1
	var st store.Store = p.w.mem
	if p.name == "b" { // nobody waits for its writes, as on NATS
		st = unawaited{online{p.w.mem, &faultProc{}}}
	}
	m, err := leader.NewRoleManagerWithStore(st, cfg)
	if err != nil {
		p.w.t.Fatal(err)
	}
	p.disposed.Store(0)
	p.spoilt.Store(0)
	leader.SetDispose(m, func() { p.disposed.Add(1) })
	ctx, cancel := context.WithCancel(context.Background())
	p.m, p.end, p.over = m, cancel, make(chan struct{})
	for _, name := range faultRoles {
		p.add(name)
	}
	if err := m.Start(ctx); err != nil {
		p.w.t.Errorf("%s: start: %v", p.name, err)
	}
	go func() {
		defer close(p.over)
		for range m.Observe(context.Background()) {
		}
	}()
}

func (p *roleProc) add(name string) {
	if err := p.m.Add(context.Background(), leader.Role{Name: name}); err != nil {
		p.w.t.Errorf("%s: add %s: %v", p.name, name, err)
	}
}

// Check is the program's health.
func (p *roleProc) Check(context.Context) bool { return !p.sick.Load() }

// finish ends the manager by its context alone, and judges that it ends.
func (p *roleProc) finish() {
	p.end()
	select {
	case <-p.over:
	case <-time.After(10 * ttl):
		p.w.t.Errorf("%s: a manager whose context has ended goes on", p.name)
		_ = p.m.Stop()
		<-p.over
	}
	if n := p.disposed.Load(); n != 1 && p.spoilt.Load() < 3 {
		p.w.t.Errorf("%s: the store was closed %d times", p.name, n)
	}
}

func (w *roleFaults) storm() {
	for range 80 {
		time.Sleep(time.Duration(1+w.draw(int(ttl/2))) + 1)
		w.judge()
		switch p := w.procs[w.draw(len(w.procs))]; w.draw(6) {
		case 0:
			p.sick.Store(!p.sick.Load())
		case 1:
			p.again(faultRoles[w.draw(len(faultRoles))])
		case 2:
			p.finish()
			p.begin()
		case 3:
			name := faultRoles[w.draw(len(faultRoles))]
			if e := p.m.Election(name); e != nil {
				_ = e.Resign(context.Background())
			}
		}
	}
}

// again removes a role and adds it once more. The first removal is given up at
// once, so that the manager has to see to the rest.
func (p *roleProc) again(name string) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.m.Remove(done, name); err != nil && !errors.Is(err, leader.ErrStopTimeout) {
		p.w.t.Errorf("%s: remove %s: %v", p.name, name, err)
	}
	for begun := time.Now(); p.m.Election(name) != nil; time.Sleep(ttl / 10) {
		if time.Since(begun) > 10*ttl {
			p.w.t.Errorf("%s: %s was removed, and is still there", p.name, name)
			return
		}
	}
	p.add(name)
}

// judge judges G1 for each role.
func (w *roleFaults) judge() {
	for _, name := range faultRoles {
		var leading []string
		for _, p := range w.procs {
			if e := p.m.Election(name); e != nil && e.IsLeader() {
				leading = append(leading, p.name)
			}
		}
		if len(leading) > 1 {
			w.t.Errorf("G1: %v lead %s", leading, name)
		}
	}
}

// calmDown judges that all roles are led once nobody is struck any more, that
// nobody is barred for a reason that is over, and that the load is even.
func (w *roleFaults) calmDown() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	for _, p := range w.procs {
		p.sick.Store(false)
	}
	time.Sleep(20 * ttl)
	w.judge()
	for _, p := range w.procs {
		for _, r := range p.m.Roles() {
			if r.State != leader.StateLeader && r.State != leader.StateFollower || r.Barred != "" {
				w.t.Errorf("%s: %s is %v, barred %q, long after the last panic", p.name, r.Name, r.State, r.Barred)
			}
			if r.Leader.ID == "" {
				w.t.Errorf("G5: nobody leads %s according to %s: %v", r.Name, p.name, r.Leader.Reason)
			}
		}
		spreads := !slices.ContainsFunc(w.procs, func(p *roleProc) bool { return p.ended.Load() })
		if n := led(p.m); spreads && (n == 0 || n > 2) {
			w.t.Errorf("%s leads %d of %s", p.name, n, strings.Join(faultRoles, ", "))
		}
	}
}

// A spreadingEnds is a log's handler that notes when a panic ends spreading.
type spreadingEnds struct {
	slog.Handler

	ended *atomic.Bool
}

func (h spreadingEnds) Enabled(context.Context, slog.Level) bool { return true }

func (h spreadingEnds) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h spreadingEnds) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "spreading" {
			h.ended.Store(true)
		}
		return true
	})
	return nil
}
