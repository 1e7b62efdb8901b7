package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
	"github.com/seed-ff2cb582/leader/leadertest"
	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // each question that a fault leaves without an answer would be printed
	m.Run()
}

type lock = leaderkube.Lock[resourcelock.LeaderElectionRecord]

var _ resourcelock.Interface = (*lock)(nil)

const (
	ttl  = 20 * time.Second
	beat = 4 * time.Second
)

func newGroup(t *testing.T) *leadertest.Group {
	t.Helper()
	return leadertest.NewGroup(t, leader.ElectionConfig{TTL: ttl, HeartbeatInterval: beat, AcquireGrace: leader.GraceOff})
}

// A term is the time between one loop's start and stop of its program.
type term struct {
	id           string
	number       uint64
	began, ended time.Time // when the context of OnStartedLeading did
	stopped      time.Time // when OnStoppedLeading was called
	works        bool
}

// A journal has the terms of all programs, in their order.
type journal struct {
	mu    sync.Mutex
	terms []*term
}

func (j *journal) begin(id string, number uint64) *term {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := &term{id: id, number: number, began: time.Now(), works: true}
	j.terms = append(j.terms, t)
	return t
}

// overlap returns for how long two worked at once.
func (j *journal) overlap() (longest time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var spans []overlap.Span
	for i, t := range j.terms {
		end := t.ended
		if end.IsZero() {
			end = time.Now()
		}
		spans = append(spans, overlap.Span{Who: fmt.Sprint(i), From: t.began.UnixNano(), To: end.UnixNano()})
	}
	for a, b := range overlap.Pairs(spans) {
		longest = max(longest, spans[a].Shared(spans[b]))
	}
	return longest
}

func (j *journal) ids() (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.terms {
		ids = append(ids, t.id)
	}
	return ids
}

// demandOrder demands that terms grow, and that no two overlap.
func (j *journal) demandOrder(t *testing.T) {
	t.Helper()
	if o := j.overlap(); o > 0 {
		t.Errorf("two worked at once, for %v", o)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := 1; i < len(j.terms); i++ {
		if j.terms[i].number <= j.terms[i-1].number {
			t.Errorf("term %d after %d", j.terms[i].number, j.terms[i-1].number)
		}
	}
}

// A program runs client-go's loop once, as programs of Kubernetes do.
type program struct {
	*lock
	t       *testing.T
	journal *journal
	store   *leadertest.Store
	id      string

	timing  leaderkube.Timing
	bound   bool // it uses the lock's contexts
	release bool
	linger  time.Duration // how long its work goes on after the end of its context

	mu     sync.Mutex
	leader string // as OnNewLeader reported
	cancel context.CancelFunc
	done   chan struct{}
}

func newProgram(t *testing.T, g *leadertest.Group, j *journal, id string) *program {
	t.Helper()
	p := &program{t: t, journal: j, store: g.Store(id), id: id, timing: leaderkube.DefaultTiming(), release: true}
	var err error
	p.lock, err = leaderkube.NewWithStore[resourcelock.LeaderElectionRecord](p.store, g.Config(id), leaderkube.Options{Timing: p.timing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end() })
	return p
}

func (p *program) run() *program {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	var last *term
	lead := func(ctx context.Context) {
		now := p.journal.begin(p.id, p.Term().Number)
		p.mu.Lock()
		last = now
		p.mu.Unlock()
		<-ctx.Done()
		time.Sleep(p.linger)
		p.journal.mu.Lock()
		now.ended, now.works = time.Now(), false
		p.journal.mu.Unlock()
	}
	if p.bound {
		ctx, lead = p.Context(ctx), p.Leading(lead)
	}
	config := leaderelection.LeaderElectionConfig{
		Lock: p.lock, ReleaseOnCancel: p.release,
		LeaseDuration: p.timing.LeaseDuration, RenewDeadline: p.timing.RenewDeadline, RetryPeriod: p.timing.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: lead,
			OnStoppedLeading: func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				if last != nil {
					last.stopped = time.Now()
				}
			},
			OnNewLeader: func(id string) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.leader = id
			},
		},
	}
	go func() {
		defer close(p.done)
		leaderelection.RunOrDie(ctx, config)
	}()
	return p
}

// quit ends the program as SIGTERM does.
func (p *program) quit() {
	p.cancel()
	<-p.done
}

func (p *program) end() {
	if p.cancel != nil {
		p.quit()
	}
	if err := p.Close(context.Background()); err != nil && !errors.Is(err, leader.ErrDemoteTimeout) {
		p.t.Error(err)
	}
}

func (p *program) saw() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leader
}

// await lets time pass until n terms have started, and returns how long that
// took.
func (j *journal) await(t *testing.T, n int) time.Duration {
	t.Helper()
	begun := time.Now()
	for time.Since(begun) < 10*time.Minute {
		synctest.Wait()
		if len(j.ids()) >= n {
			return time.Since(begun)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("terms %v, want %d", j.ids(), n)
	return 0
}

func TestTheLoopIsElectedAndHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, j := newGroup(t), &journal{}
		a := newProgram(t, g, j, "a").run()
		if took := j.await(t, 1); took > time.Second {
			t.Errorf("the first led after %v", took)
		}
		b := newProgram(t, g, j, "b").run()
		time.Sleep(5 * time.Minute)
		if a.saw() != "a" || b.saw() != "a" || len(j.ids()) != 1 {
			t.Errorf("a saw %q and b %q, terms %v", a.saw(), b.saw(), j.ids())
		}
		a.quit()
		if took := j.await(t, 2); took > 100*time.Millisecond {
			t.Errorf("handed over in %v: not at once, but at a RetryPeriod", took)
		}
		time.Sleep(time.Second)
		if b.saw() != "b" {
			t.Errorf("b saw %q", b.saw())
		}
		j.demandOrder(t)
	})
}

func TestALeaderThatIsCutOffEndsBeforeAnotherLeadsByTheLockAlone(t *testing.T) {
	for _, bound := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g, j := newGroup(t), &journal{}
			a, b := newProgram(t, g, j, "a"), newProgram(t, g, j, "b")
			a.bound, b.bound = bound, bound
			a.run()
			j.await(t, 1)
			b.run()
			time.Sleep(time.Minute + 1234*time.Millisecond)
			a.store.CutOff()
			took := j.await(t, 2)
			if took > ttl+ttl/10+100*time.Millisecond {
				t.Errorf("bound %v: another led after %v", bound, took)
			}
			j.demandOrder(t)
			a.store.Reconnect()
			time.Sleep(time.Minute)
			j.demandOrder(t)
		})
	}
}

func TestATermThatIsEndedFromOutsideEndsTheLoopFirst(t *testing.T) {
	for name, strike := range map[string]func(*leadertest.Group){
		"step-down": func(g *leadertest.Group) { g.Promote("b") },
		"deletion":  (*leadertest.Group).DeleteRecord,
	} {
		for _, bound := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				g, j := newGroup(t), &journal{}
				a, b := newProgram(t, g, j, "a"), newProgram(t, g, j, "b")
				a.bound, b.bound = bound, bound
				a.run()
				j.await(t, 1)
				b.run()
				time.Sleep(time.Minute)
				begun := time.Now()
				strike(g)
				j.await(t, 2)
				took := time.Since(begun)
				tail := a.timing.RenewDeadline + a.timing.RetryPeriod
				if bound && took > 100*time.Millisecond || !bound && (took < a.timing.RenewDeadline-time.Millisecond || took > tail+time.Second) {
					t.Errorf("%s, bound %v: another led after %v", name, bound, took)
				}
				j.demandOrder(t)
				time.Sleep(time.Minute)
				j.demandOrder(t)
			})
		}
	}
}

func TestWorkOfLeadingEndsBeforeTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, j := newGroup(t), &journal{}
		a, b := newProgram(t, g, j, "a"), newProgram(t, g, j, "b")
		a.bound, a.linger = true, 3*time.Second
		a.run()
		j.await(t, 1)
		b.run()
		time.Sleep(time.Minute)
		begun := time.Now()
		a.quit()
		j.await(t, 2)
		if took := time.Since(begun); took < a.linger || took > a.linger+100*time.Millisecond {
			t.Errorf("another led after %v", took)
		}
		j.demandOrder(t)
	})
}

func TestWithoutReleaseOnCancelTheRecordRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, j := newGroup(t), &journal{}
		a, b := newProgram(t, g, j, "a"), newProgram(t, g, j, "b")
		a.release = false
		a.run()
		j.await(t, 1)
		b.run()
		time.Sleep(time.Minute)
		begun := time.Now()
		a.quit()
		j.await(t, 2)
		if took := time.Since(begun); took < ttl-beat {
			t.Errorf("another led after %v, though nothing was released", took)
		}
	})
}

func TestALockServesOneLoopAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, j := newGroup(t), &journal{}
		a := newProgram(t, g, j, "a")
		for n := 1; n <= 3; n++ {
			a.run()
			j.await(t, n)
			if n == 2 {
				g.DeleteRecord() // this one ends by a loss
				<-a.done
				continue
			}
			a.quit()
		}
		j.demandOrder(t)
		b := newProgram(t, g, j, "b").run()
		j.await(t, 4)
		if !slices.Equal(j.ids(), []string{"a", "a", "a", "b"}) {
			t.Error(j.ids())
		}
		// A loop that ends before it led leaves nobody behind that campaigns.
		a.run()
		synctest.Wait()
		a.quit()
		b.quit()
		time.Sleep(3 * ttl)
		if s := a.Status(); s.State != leader.StateStopped || len(j.ids()) != 4 {
			t.Errorf("%+v, %v", s, j.ids())
		}
	})
}

func TestAManagersTimingHasToBeTheLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, j := newGroup(t), &journal{}
		a := newProgram(t, g, j, "a")
		a.timing.RenewDeadline = 14 * time.Second // of the loop; the lock was made for 10 s
		a.run()
		j.await(t, 1)
		<-a.done
		if len(j.ids()) != 1 || j.terms[0].ended.Sub(j.terms[0].began) > a.timing.RenewDeadline+a.timing.RetryPeriod+time.Second {
			t.Errorf("%+v", j.terms[0])
		}
		late := newProgram(t, g, j, "b")
		late.timing.LeaseDuration = 30 * time.Second
		late.run()
		time.Sleep(5 * time.Minute)
		if len(j.ids()) != 1 {
			t.Error("a loop with another LeaseDuration was given the lock")
		}
	})
}

func TestTheWatchDogIsContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, j := newGroup(t), &journal{}
		p := newProgram(t, g, j, "a")
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: p.lock, LeaseDuration: p.timing.LeaseDuration, RenewDeadline: p.timing.RenewDeadline, RetryPeriod: p.timing.RetryPeriod,
			ReleaseOnCancel: true,
			Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { elector.Run(ctx) })
		time.Sleep(10 * time.Minute)
		if !elector.IsLeader() || !p.IsLeader() || elector.GetLeader() != "a" || elector.Check(0) != nil {
			t.Errorf("leader %q, %v", elector.GetLeader(), elector.Check(0))
		}
		cancel()
		running.Wait()
		if elector.IsLeader() || p.IsLeader() {
			t.Error("leads on after its end")
		}
	})
}
