package leader_test

import (
	"context"
	"errors"
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

func TestEachTermHasATokenOfItsOwn(t *testing.T) {
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

// What a read would show is stale: only the compare-and-swap finds the
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

// A call that gives up returns what the store answered, besides the error of
// its context.
func TestValidationThatGivesUpSaysWhatTheStoreAnswered(t *testing.T) {
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

func TestWhoDoesNotLeadValidatesAndDoesNothing(t *testing.T) {
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

func TestTheContextOfDoCarriesTheTerm(t *testing.T) {
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

func TestDoValidatesAsTheStrategySays(t *testing.T) {
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

func TestContextOfAnOperationEndsWithTheTerm(t *testing.T) {
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
