package leader_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

type ctxKey struct{}

func TestTermContextCarriesTheTermAndTheValuesOfStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := candidate(t, memstore.New(), config("a"))
		var ctx context.Context
		var token string
		a.OnPromote(func(c context.Context, tok string) { ctx, token = c, tok }) //nolint:fatcontext // looked at later
		parent, cancel := context.WithTimeout(context.WithValue(t.Context(), ctxKey{}, "v"), time.Hour)
		defer cancel()
		if err := a.Start(parent); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		term, ok := leader.TermFromContext(context.WithValue(ctx, ctxKey{}, "w"))
		if !ok || term != a.Term() || token != a.Token() || token == "" || ctx.Value(ctxKey{}) != "v" {
			t.Errorf("%v %v, token %q, value %v", term, ok, token, ctx.Value(ctxKey{}))
		}
		if _, ok := ctx.Deadline(); ok || ctx.Err() != nil {
			t.Errorf("has a deadline: %v, %v", ok, ctx.Err())
		}
		if term, ok := leader.TermFromContext(t.Context()); ok {
			t.Errorf("%v out of nowhere", term)
		}
		derived, cancel2 := context.WithCancel(ctx)
		defer cancel2()
		halt(t, a)
		<-derived.Done()
		for _, c := range []context.Context{ctx, derived} {
			var l *leader.LossError
			if cause := context.Cause(c); !errors.As(cause, &l) || l.Reason != leader.ReasonStopped || l.Term != term || !errors.Is(cause, leader.ErrNotLeader) {
				t.Errorf("%v: %v", c.Err(), cause)
			}
		}
	})
}

func TestTermsHaveDifferentTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]bool{}
		a := candidate(t, memstore.New(), config("a"))
		a.OnPromote(func(_ context.Context, token string) {
			if seen[token] || len(token) != 36 {
				t.Errorf("token %q", token)
			}
			seen[token] = true
		})
		started(t, a)
		for range 5 {
			time.Sleep(2 * wait)
			mustLead(t, a)
			_ = a.Resign(t.Context())
		}
		if len(seen) != 5 {
			t.Errorf("%d terms", len(seen))
		}
	})
}

// The election's goroutine is stuck in a hook: the window ends the term all the
// same.
func TestTermEndsOnTimeAlthoughTheElectionIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		// Nor does its watch show it the renewal before the answer does.
		f, cfg := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			fate.Lose = stuck.Load() && c.Op == faultstore.Event && c.Client == "a"
			return fate
		}), config("a")
		cfg.Hooks.Call = func(leader.Call) {
			if stuck.Load() {
				time.Sleep(time.Minute)
			}
		}
		a := candidate(t, f.Client("a"), cfg)
		var ctx context.Context
		a.OnPromote(func(c context.Context, _ string) { ctx = c }) //nolint:fatcontext // looked at later
		mustLead(t, started(t, a))
		b := start(t, f.Client("b"), config("b"))
		stuck.Store(true)
		until := a.TrustUntil()
		<-ctx.Done()
		stuck.Store(false)
		// The renewal at the first heartbeat was acknowledged, but not heard
		// of.
		if d := time.Since(until); d != 0 || a.IsLeader() || a.Token() != "" {
			t.Errorf("ended %v after the window, leads: %v", d, a.IsLeader())
		}
		if s := a.Status(); s.State != leader.StateDemoted || s.Reason != leader.ReasonTrustExpired {
			t.Errorf("%s", status(a))
		}
		var l *leader.LossError
		if !errors.As(context.Cause(ctx), &l) || l.Reason != leader.ReasonTrustExpired {
			t.Errorf("%v", context.Cause(ctx))
		}
		time.Sleep(2 * wait)
		mustLead(t, b, a)
		time.Sleep(time.Minute)
		mustBe(t, a, leader.StateFollower)
	})
}

func TestValidationIsARenewalSentAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			if c.Op == faultstore.CompareAndSwap && slow.Load() {
				return faultstore.Fate{Delay: 100 * time.Millisecond, Reply: 100 * time.Millisecond}
			}
			return faultstore.Fate{}
		})
		a := start(t, f.Client("a"), config("a"))
		mustLead(t, a)
		slow.Store(true)
		time.Sleep(heartbeat + 50*time.Millisecond) // a renewal is under way
		begun := time.Now()
		if err := a.ValidateToken(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The watch shows that one after 50 ms more. Then ours leaves, and is
		// seen 100 ms later.
		if d := time.Since(begun); d != 150*time.Millisecond {
			t.Fatalf("answered after %v", d)
		}
		if hb := a.Status().LastHeartbeat; hb.Before(begun) {
			t.Fatalf("proved by a renewal of %v", begun.Sub(hb))
		}
	})
}

// A read would show an old record: only the compare-and-swap finds the
// successor.
func TestValidationFailsWhenTheRecordWasReplacedUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Lose: c.Op == faultstore.Event, Stale: time.Hour * time.Duration(c.Op&1^1)}
		})
		a := start(t, f.Client("a"), config("a"))
		mustLead(t, a)
		time.Sleep(heartbeat / 2)
		f.Put("g", []byte(`{"id":"b","token":"x","ttl":3000,"reason":""}`))
		mustLead(t, a)
		err := a.ValidateToken(t.Context())
		if !errors.Is(err, leader.ErrNotLeader) || a.IsLeader() {
			t.Fatalf("%v, leads: %v", err, a.IsLeader())
		}
	})
}

func TestValidationDuringAPartitionEndsWithItsContextOrTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a := start(t, f.Client("a"), config("a"))
		mustLead(t, a)
		time.Sleep(time.Nanosecond) // the claim left before
		f.BlackHole("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.ValidateToken(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, leader.ErrNotLeader) {
			t.Fatal(err)
		}
		begun := time.Now()
		err := a.ValidateToken(t.Context())
		if l := (*leader.LossError)(nil); !errors.As(err, &l) || l.Reason != leader.ReasonTrustExpired || time.Since(begun) != trust-time.Second-1 {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
	})
}

// A call that gives up returns the store's answer, in addition to the error of
// its context.
func TestValidationThatGivesUpReturnsTheErrorOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Refuse: refuse.Load() && c.Op == faultstore.CompareAndSwap}
		})
		a := start(t, f.Client("a"), config("a"))
		mustLead(t, a)
		time.Sleep(time.Nanosecond) // the claim left before
		refuse.Store(true)
		err := a.ValidateToken(lasting(t, 200*time.Millisecond))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrTransient) {
			t.Error(err)
		}
	})
}

// A permanent fault does not pass by itself, so a call does not wait for its
// context.
func TestPermanentFaultEndsTheCallsThatWaitForTheStore(t *testing.T) {
	for name, call := range map[string]func(context.Context, leader.Election) error{
		"ValidateToken": func(ctx context.Context, e leader.Election) error { return e.ValidateToken(ctx) },
		"Resign":        func(ctx context.Context, e leader.Election) error { return e.Resign(ctx) },
		"Do": func(ctx context.Context, e leader.Election) error {
			return e.Do(ctx, func(context.Context) error { t.Error("done"); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var deny atomic.Bool
				f := network(t, func(c faultstore.Call) faultstore.Fate {
					return faultstore.Fate{Deny: deny.Load() && c.Op == faultstore.CompareAndSwap}
				})
				cfg := config("a")
				cfg.Fencing.ValidateOnCriticalOps = true
				a := start(t, f.Client("a"), cfg)
				mustLead(t, a)
				time.Sleep(time.Nanosecond) // the claim left before
				deny.Store(true)
				begun := time.Now()
				if err := call(t.Context(), a); !errors.Is(err, store.ErrPermanent) || time.Since(begun) > heartbeat {
					t.Errorf("%v after %v", err, time.Since(begun))
				}
			})
		})
	}
}

func TestValidationAndDoNeedATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		op := func(context.Context) error { t.Error("called"); return nil }
		for _, e := range []leader.Election{b, candidate(t, st, config("c"))} {
			for _, err := range []error{
				e.ValidateToken(t.Context()), e.Do(t.Context(), op), e.Resign(t.Context()), e.Transfer(t.Context(), "x"),
			} {
				if !errors.Is(err, leader.ErrNotLeader) {
					t.Error(err)
				}
			}
		}
		halt(t, a, b)
		for _, err := range []error{a.ValidateToken(t.Context()), a.Do(t.Context(), op), a.Resign(t.Context())} {
			if !errors.Is(err, leader.ErrNotLeader) {
				t.Error(err)
			}
		}
	})
}

func TestContextOfDoCarriesTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, memstore.New(), config("a"))
		mustLead(t, a)
		want := a.Term()
		ctx := context.WithValue(t.Context(), testKey{}, "kept")
		err := a.Do(ctx, func(ctx context.Context) error {
			if got, ok := leader.TermFromContext(ctx); !ok || got != want || ctx.Value(testKey{}) != "kept" {
				t.Errorf("%v %v, %v", got, ok, ctx.Value(testKey{}))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

type testKey struct{}

func TestDoValidatesByItsStrategy(t *testing.T) {
	for name, c := range map[string]struct {
		fencing  leader.FencingConfig
		at       time.Duration // after the latest renewal
		validate bool
	}{
		"default":                    {leader.FencingConfig{}, 900 * time.Millisecond, false},
		"cached":                     {leader.FencingConfig{CacheToken: true}, 900 * time.Millisecond, false},
		"critical":                   {leader.FencingConfig{ValidateOnCriticalOps: true}, 1, true},
		"critical beats cached":      {leader.FencingConfig{ValidateOnCriticalOps: true, CacheToken: true}, 1, true},
		"an interval alone":          {leader.FencingConfig{ValidationInterval: time.Hour}, 900 * time.Millisecond, false},
		"critical with an interval":  {leader.FencingConfig{ValidateOnCriticalOps: true, ValidationInterval: time.Hour}, 1, true},
		"cached and young enough":    {leader.FencingConfig{CacheToken: true, ValidationInterval: 950 * time.Millisecond}, 900 * time.Millisecond, false},
		"cached and older than that": {leader.FencingConfig{CacheToken: true, ValidationInterval: 800 * time.Millisecond}, 790 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				renewals, cfg := 0, config("a")
				cfg.Fencing = c.fencing
				cfg.Hooks.Call = func(leader.Call) { renewals++ }
				a := start(t, memstore.New(), cfg)
				mustLead(t, a)
				time.Sleep(c.at)
				synctest.Wait()
				renewals = 0
				want := errors.New("of the operation")
				got := a.Do(t.Context(), func(context.Context) error { return want })
				synctest.Wait() // the watch may answer before the call does
				if !errors.Is(got, want) || (renewals == 1) != c.validate {
					t.Errorf("%v, %d renewals", got, renewals)
				}
			})
		})
	}
}

func TestDoWithAnOldProofAsksForANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := network(t, nil), config("a")
		cfg.Fencing = leader.FencingConfig{CacheToken: true, ValidationInterval: 1500 * time.Millisecond}
		a := start(t, f.Client("a"), cfg)
		mustLead(t, a)
		f.BlackHole("a")
		time.Sleep(1500 * time.Millisecond)
		op := func(context.Context) error { return nil }
		if err := a.Do(t.Context(), op); err != nil {
			t.Fatalf("the proof is as old as allowed: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := a.Do(t.Context(), op); !errors.Is(err, leader.ErrNotLeader) {
			t.Fatal(err)
		}
	})
}

func TestBackgroundValidationRenewsAtItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renewals, cfg := 0, config("a")
		cfg.Fencing.ValidationInterval = heartbeat / 4
		cfg.Hooks.Call = func(c leader.Call) {
			if c.Kind == "renew" && c.Outcome == store.OK {
				renewals++
			}
		}
		a := start(t, memstore.New(), cfg)
		time.Sleep(10*heartbeat + 1)
		mustLead(t, a)
		if renewals != 40 {
			t.Fatalf("%d renewals", renewals)
		}
	})
}

func TestContextOfDoEndsWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, memstore.New(), config("a"))
		mustLead(t, a)
		err := a.Do(context.WithValue(t.Context(), ctxKey{}, "v"), func(ctx context.Context) error {
			if ctx.Err() != nil || ctx.Value(ctxKey{}) != "v" {
				t.Errorf("%v %v", ctx.Err(), ctx.Value(ctxKey{}))
			}
			go func() { _ = a.Resign(t.Context()) }()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if l := (*leader.LossError)(nil); !errors.As(err, &l) || l.Reason != leader.ReasonResigned {
			t.Fatal(err)
		}
	})
}

// The timers of a suspended machine stop with its monotonic clock, and continue
// afterwards. A context that descends from a term's knows its cancellation
// alone, and has to be over when the machine wakes.
func TestSuspensionPastTheWindowEndsWhatDescendsFromTheTermsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := leader.NewMachine(1e6), candidate(t, memstore.New(), config("a"))
		leader.SetMachine(a, m)
		child := make(chan context.Context, 1)
		a.OnPromote(func(ctx context.Context, _ string) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			child <- ctx
			<-ctx.Done()
		})
		started(t, a)
		mustLead(t, a)
		ctx := <-child
		time.Sleep(heartbeat / 2)
		m.Suspend()
		time.Sleep(trust)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("the machine is not suspended")
		}
		m.Wake()
		synctest.Wait() // and nobody looks at IsLeader
		if ctx.Err() == nil {
			t.Error("the work goes on after its window")
		}
	})
}

// A machine that wakes within its window, and does not reach its store, leads
// for what is left: it slept for the rest. Others measure by TrustUntil what
// they grant on the strength of the term.
func TestSuspensionWithinTheWindowTakesFromTrustUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := faultstore.New(faultstore.Options{})
		t.Cleanup(net.Close)
		m, a := leader.NewMachine(1e6), candidate(t, net.Client("a"), config("a"))
		leader.SetMachine(a, m)
		started(t, a)
		mustLead(t, a)
		net.Partition("a")
		m.Suspend()
		time.Sleep(trust / 2)
		m.Wake()
		synctest.Wait()
		left := a.TrustUntil().Sub(m.Present())
		if status := a.Status().TrustUntil.Sub(m.Present()); !a.IsLeader() || left <= 0 || status != left {
			t.Fatalf("leads %v, for %v (status: %v)", a.IsLeader(), left, status)
		}
		time.Sleep(left)
		if over := a.TrustUntil(); a.IsLeader() || !over.IsZero() {
			t.Errorf("leads on, until %v", over)
		}
	})
}

// A proof ages while the machine sleeps, although the monotonic clock stops: by
// that clock alone it would be as young after the suspension as before.
func TestProofAgesInASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := network(t, nil), config("a")
		cfg.Fencing.ValidationInterval = heartbeat / 2
		m, a := leader.NewMachine(1e6), candidate(t, f.Client("a"), cfg)
		leader.SetMachine(a, m)
		started(t, a)
		mustLead(t, a)
		f.BlackHole("a")
		do := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 1)
			defer cancel()
			return a.Do(ctx, func(context.Context) error { return nil })
		}
		time.Sleep(heartbeat / 4)
		if err := do(); err != nil {
			t.Fatalf("the proof is young enough: %v", err)
		}
		m.Suspend()
		time.Sleep(heartbeat / 2)
		m.Wake()
		if err := do(); !errors.Is(err, context.DeadlineExceeded) || !a.IsLeader() {
			t.Errorf("%v, leads: %v", err, a.IsLeader())
		}
	})
}

// An operation that went to sleep with its machine asks its own context first,
// which is to know as much as IsLeader.
func TestContextOfDoEndsInASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := leader.NewMachine(1e6), candidate(t, memstore.New(), config("a"))
		leader.SetMachine(a, m)
		started(t, a)
		mustLead(t, a)
		err := a.Do(t.Context(), func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("before: %v", ctx.Err())
			}
			m.Suspend()
			time.Sleep(trust)
			m.Wake()
			if err := ctx.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("Err: %v", err)
			}
			return context.Cause(ctx)
		})
		if l := (*leader.LossError)(nil); !errors.As(err, &l) || l.Reason != leader.ReasonTrustExpired {
			t.Errorf("cause: %v", err)
		}
	})
}

// These tests show what an election cannot give, as docs/reference/protocol.md explains
// under Limits. They pass because the hole is there, and because a fenced
// resource closes it.

// A ledger is a protected resource that fences: it refuses a term that does not
// supersede all it has seen.
type ledger struct {
	mu                sync.Mutex
	last              leader.Term
	fenced, unguarded []uint64 // terms whose writes were accepted with the rule, and without it
}

func (l *ledger) write(t leader.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unguarded = append(l.unguarded, t.Number)
	if t.Supersedes(l.last) {
		l.last = t
		l.fenced = append(l.fenced, t.Number)
	}
}

// stale reports whether a term's write was accepted after a later term's write.
func stale(terms []uint64) bool {
	for i := 1; i < len(terms); i++ {
		if terms[i] < terms[i-1] {
			return true
		}
	}
	return false
}

func (l *ledger) judge(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !stale(l.unguarded) {
		t.Errorf("the hole was not there: writes of terms %v", l.unguarded)
	}
	if stale(l.fenced) {
		t.Errorf("the fenced resource accepted a stale write: %v", l.fenced)
	}
}

// candidates are a leader a, which is about to lose its connection, and b,
// which will succeed it.
func candidates(t *testing.T, grace leader.AcquireGrace) (net *faultstore.Faults, a, b leader.Election) {
	net = faultstore.New(faultstore.Options{})
	begin := func(id string) leader.Election {
		cfg := config(id)
		cfg.AcquireGrace, cfg.DemoteTimeout = grace, time.Second
		e, err := leader.NewElectionWithStore(net.Client(id), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	a, b = begin("a"), begin("b")
	t.Cleanup(net.Close)
	return net, a, b
}

func startOne(t *testing.T, e leader.Election) {
	t.Helper()
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func stopAll(t *testing.T, es ...leader.Election) {
	for _, e := range es {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestHolePauseBetweenIsLeaderAndUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, a, b := candidates(t, leader.GraceOff)
		startOne(t, a)
		startOne(t, b)
		var l ledger
		term := a.Term()
		if !a.IsLeader() {
			t.Fatal("a does not lead")
		}
		// Here the scheduler, the garbage collector or a page fault takes the
		// thread for a while.
		net.BlackHole("a")
		time.Sleep(10 * time.Second)
		l.write(b.Term())
		l.write(term) // what a had decided to do
		l.judge(t)
		stopAll(t, a, b)
	})
}

func TestHoleWriteInFlightAfterDemotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := candidates(t, leader.GraceOff)
		startOne(t, a)
		startOne(t, b)
		var l ledger
		arrived := make(chan struct{})
		term := a.Term()
		time.AfterFunc(5*time.Second, func() { // sent now, by a leader in its full right
			l.write(term)
			close(arrived)
		})
		stopAll(t, a) // and even a graceful hand-over does not call it back
		mustLead(t, b, a)
		l.write(b.Term())
		<-arrived
		l.judge(t)
		stopAll(t, b)
	})
}

func TestHoleWorkThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := candidates(t, leader.GraceOff)
		var l ledger
		over := make(chan struct{})
		a.OnPromote(func(ctx context.Context, _ string) {
			term, _ := leader.TermFromContext(ctx)
			time.Sleep(10 * time.Second) // not a look at ctx
			l.write(term)
			close(over)
		})
		startOne(t, a)
		startOne(t, b)
		if err := a.Stop(); err == nil {
			t.Error("Stop does not report that the work went on")
		}
		mustLead(t, b, a)
		l.write(b.Term())
		<-over
		l.judge(t)
		stopAll(t, b)
	})
}

// A store that forgets what it acknowledged shows two leaders, unless new
// leaders cool down.
func TestHoleStoreThatForgets(t *testing.T) {
	leaders := func(t *testing.T, grace leader.AcquireGrace) (most int) {
		synctest.Test(t, func(t *testing.T) {
			net, a, b := candidates(t, grace)
			startOne(t, a)
			time.Sleep(5 * time.Second)
			net.Wipe()
			startOne(t, b) // it never saw a's record
			for range 100 {
				time.Sleep(50 * time.Millisecond)
				n := 0
				for _, e := range []leader.Election{a, b} {
					if e.IsLeader() {
						n++
					}
				}
				most = max(most, n)
			}
			stopAll(t, a, b)
		})
		return most
	}
	if n := leaders(t, leader.GraceOff); n != 2 {
		t.Errorf("the hole was not there: at most %d leaders", n)
	}
	if n := leaders(t, leader.GraceOn); n != 1 {
		t.Errorf("with a cool-down, %d leaders at once", n)
	}
}
