//go:build faults

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// rolePoints are all places at which a goroutine of a RoleManager may be
// struck, and that of its health checks.
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
	defer inject.Install(nil)
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
	disposed atomic.Int64
	spoilt   atomic.Int64 // strikes at its dispose
}

func (w *roleFaults) run() {
	w.mem = memstore.New()
	inject.Install(w.strike)
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
	cfg.Election.Logger = slog.New(slog.DiscardHandler)
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
				w.t.Errorf("G5: nobody leads %s, says %s: %v", r.Name, p.name, r.Leader.Reason)
			}
		}
		if n := led(p.m); n == 0 || n > 2 {
			w.t.Errorf("%s leads %d of %s", p.name, n, strings.Join(faultRoles, ", "))
		}
	}
}
