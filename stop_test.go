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
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// endings are the ways in which a candidate leaves its term by its own will.
var endings = map[string]func(t *testing.T, st store.Store, e leader.Election, unhealthy func()){
	"stop": func(_ *testing.T, _ store.Store, e leader.Election, _ func()) { go func() { _ = e.Stop() }() },
	"resignation": func(t *testing.T, _ store.Store, e leader.Election, _ func()) {
		go func() { _ = e.Resign(t.Context()) }()
	},
	"transfer": func(t *testing.T, _ store.Store, e leader.Election, _ func()) {
		go func() { _ = e.Transfer(t.Context(), "b") }()
	},
	"step-down": func(t *testing.T, st store.Store, e leader.Election, _ func()) {
		put(t, st, record.ControlKey("g"), record.Request{Op: record.OpStepDown, Term: e.Term().Number})
	},
	"bad health": func(_ *testing.T, _ store.Store, _ leader.Election, unhealthy func()) { unhealthy() },
}

func TestWorkStopsBeforeTheReleaseHoweverTheTermIsLeft(t *testing.T) {
	// More than three leases, and not a whole number of heartbeats: a release
	// that meets our own renewal on its way is refused, and sent again.
	const work = 10*time.Second + 200*time.Millisecond
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal()
				f := network(t, func(c faultstore.Call) faultstore.Fate {
					if c.Op == faultstore.CompareAndSwap && c.Write.Tombstone {
						j.note("released by %s", c.Client)
					}
					return faultstore.Fate{}
				})
				h, cfg := &health{}, config("a")
				cfg.DemoteTimeout, cfg.HealthChecker, cfg.MaxConsecutiveFailures = work+2*time.Second, h, 1
				a := candidate(t, f.Client("a"), cfg)
				a.OnPromote(func(ctx context.Context, _ string) {
					<-ctx.Done()
					j.note("context ended")
					time.Sleep(work / 2)
				})
				a.OnDemote(func() {
					time.Sleep(work / 2)
					j.note("work stopped")
				})
				started(t, a)
				mustLead(t, a)
				b := candidate(t, f.Client("b"), config("b"))
				b.OnPromote(func(context.Context, string) { j.note("b leads") })
				started(t, b)
				time.Sleep(ttl + heartbeat/2)
				end(t, f.Client("b"), a, func() { h.set(func(context.Context) bool { return false }) })
				time.Sleep(2*time.Second + work - time.Millisecond)
				mustNotLead(t, a)
				time.Sleep(10 * time.Second)
				j.demand(t, "context ended", "work stopped", "released by a", "b leads")
			})
		})
	}
}

func TestStopReleasesTheRecordWhenDemoteTimeoutIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.DemoteTimeout = 7 * time.Second
		a := candidate(t, st, cfg)
		a.OnDemote(func() { time.Sleep(time.Minute) })
		mustLead(t, started(t, a))
		b := start(t, st, config("b"))
		begun, stopped := time.Now(), make(chan error)
		go func() { stopped <- a.Stop() }()
		time.Sleep(7*time.Second - 1)
		mustNotLead(t, a, b)
		if err := <-stopped; !errors.Is(err, leader.ErrDemoteTimeout) || time.Since(begun) != 7*time.Second {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
		mustLead(t, b, a)
		time.Sleep(time.Minute) // the work ends
	})
}

func TestEachStopOptionIsHonoured(t *testing.T) {
	for name, c := range map[string]struct {
		opts     leader.StopOptions
		returns  time.Duration // after the call
		err      error
		released time.Duration // 0: never
	}{
		"nothing":        {leader.StopOptions{}, 0, nil, 0},
		"delete":         {leader.StopOptions{DeleteKey: true}, 0, nil, 2 * time.Second},
		"wait":           {leader.StopOptions{WaitForDemote: true}, 2 * time.Second, nil, 0},
		"both":           {leader.StopOptions{DeleteKey: true, WaitForDemote: true}, 2 * time.Second, nil, 2 * time.Second},
		"both, in time":  {leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: 3 * time.Second}, 2 * time.Second, nil, 2 * time.Second},
		"both, too late": {leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: time.Second}, time.Second, leader.ErrStopTimeout, 0},
		"wait, too late": {leader.StopOptions{WaitForDemote: true, Timeout: time.Second}, time.Second, leader.ErrStopTimeout, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, j := memstore.New(), newJournal()
				a := candidate(t, st, config("a"))
				a.OnDemote(func() { time.Sleep(2 * time.Second); j.noteAt("demoted") })
				mustLead(t, started(t, a))
				begun := time.Now()
				err := a.StopWithContext(t.Context(), c.opts)
				if !errors.Is(err, c.err) || time.Since(begun) != c.returns {
					t.Errorf("%v after %v", err, time.Since(begun))
				}
				mustNotLead(t, a)
				if c.released > 0 {
					time.Sleep(c.released - time.Since(begun))
				} else {
					time.Sleep(time.Minute)
				}
				synctest.Wait()
				if _, r := stored(t, st); (r.ID == "") != (c.released > 0) {
					t.Errorf("after %v: %+v", time.Since(begun), r)
				}
				mustBe(t, a, leader.StateStopped)
				j.demand(t, "2s demoted")
			})
		})
	}
}

// A release may have left by the time of a second stop, which asks for none;
// and a candidate that left the record behind, for example to lead on
// elsewhere, does not release it.
func TestFirstStopDecidesWhatBecomesOfTheRecord(t *testing.T) {
	for _, release := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			a := candidate(t, st, config("a"))
			a.OnDemote(func() { time.Sleep(time.Second) })
			mustLead(t, started(t, a))
			for _, opts := range []leader.StopOptions{{DeleteKey: release}, {DeleteKey: !release}} {
				if err := a.StopWithContext(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			<-a.Done()
			if e, _ := stored(t, st); e.Tombstone != release {
				t.Errorf("the first stop asks for a release: %v, and of the record is left: %+v", release, e)
			}
		})
	}
}

func TestStopGivesUpWhenItsContextIsDone(t *testing.T) {
	for _, opts := range []leader.StopOptions{{WaitForDemote: true, DeleteKey: true}, {DeleteKey: true}, {}} {
		synctest.Test(t, func(t *testing.T) {
			var stuck atomic.Bool
			cfg := config("a")
			cfg.DemoteTimeout = time.Second
			cfg.Hooks.Call = func(leader.Call) {
				if stuck.Load() {
					time.Sleep(time.Second) // the election's goroutine does not answer
				}
			}
			a := start(t, memstore.New(), cfg)
			mustLead(t, a)
			stuck.Store(true)
			time.Sleep(heartbeat)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err := a.StopWithContext(ctx, opts)
			if !errors.Is(err, leader.ErrStopTimeout) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v: %v", opts, err)
			}
			stuck.Store(false)
			time.Sleep(time.Second)
			mustBe(t, a, leader.StateStopped)
		})
	}
}

// A waiting caller has the promise that the record is released when the work
// has stopped (G4).
func TestStopThatGivesUpLeavesAPatientOneAlone(t *testing.T) {
	const work = 8 * time.Second
	for name, first := range map[string]leader.StopOptions{
		"the patient one first": {DeleteKey: true, WaitForDemote: true},
		"the other first":       {DeleteKey: true, WaitForDemote: true, Timeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, cfg := memstore.New(), config("a")
				cfg.DemoteTimeout = time.Minute
				e := candidate(t, st, cfg)
				e.OnDemote(func() { time.Sleep(work) })
				mustLead(t, started(t, e))
				other := start(t, st, config("b"))
				errs := make(chan error, 2)
				stop := func(opts leader.StopOptions) {
					go func() { errs <- e.StopWithContext(t.Context(), opts) }()
					synctest.Wait()
				}
				second := leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: time.Second}
				if first.Timeout != 0 {
					second.Timeout = 0
				}
				stop(first)
				stop(second)
				if err := <-errs; !errors.Is(err, leader.ErrStopTimeout) {
					t.Errorf("the impatient one: %v", err)
				}
				time.Sleep(work - 2*time.Second)
				if other.IsLeader() {
					t.Error("another leads beside the work")
				}
				if err := <-errs; err != nil {
					t.Errorf("the patient one: %v", err)
				}
				if _, r := stored(t, st); r.ID == "a" {
					t.Errorf("not released: %+v", r)
				}
				mustLead(t, other)
			})
		})
	}
}

// A stop that is asked for when all is done has nothing to wait for.
func TestStopAfterTheEndIsNeverTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			e, err := leader.NewElectionWithStore(memstore.New(), config("a"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if err := e.Start(ctx); err != nil {
				t.Fatal(err)
			}
			cancel()
			<-e.Done()
			for _, wait := range []bool{true, false} {
				if err := e.StopWithContext(ctx, leader.StopOptions{WaitForDemote: wait}); err != nil {
					t.Fatalf("waiting %v: %v", wait, err)
				}
			}
		}
	})
}

func TestStopMayBeRepeatedAndConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := candidate(t, memstore.New(), config("a"))
		n := 0
		a.OnDemote(func() { n++; time.Sleep(time.Second) })
		mustLead(t, started(t, a))
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := a.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		halt(t, a, a)
		if n != 1 {
			t.Errorf("demoted %d times", n)
		}
		if err := a.StopWithContext(t.Context(), leader.StopOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func TestElectionStartsOnceAndStopsPermanently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, memstore.New(), config("a"))
		if err := a.Start(t.Context()); !errors.Is(err, leader.ErrAlreadyStarted) {
			t.Error(err)
		}
		mustLead(t, a)
		halt(t, a)
		if err := a.Start(t.Context()); !errors.Is(err, leader.ErrStopped) {
			t.Error(err)
		}
	})
}

func TestStopBeforeStartEndsTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := candidate(t, memstore.New(), config("a"))
		mustBe(t, a, leader.StateInit)
		observed := make(chan struct{})
		go func() {
			defer close(observed)
			for range a.Observe(t.Context()) {
			}
		}()
		synctest.Wait()
		halt(t, a, a)
		mustBe(t, a, leader.StateStopped)
		<-observed
		if err := a.Start(t.Context()); !errors.Is(err, leader.ErrStopped) {
			t.Error(err)
		}
	})
}

func TestStartWithADoneContextMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := candidate(t, memstore.New(), config("a"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Start(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		mustLead(t, started(t, a))
	})
}

func TestStopFollowsTheEndOfTheStartContext(t *testing.T) {
	for _, release := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st, cfg, j := memstore.New(), config("a"), newJournal()
			cfg.DeleteOnStop = release
			a := candidate(t, st, cfg)
			a.OnDemote(func() { j.note("demote") })
			ctx, cancel := context.WithCancel(t.Context())
			if err := a.Start(ctx); err != nil {
				t.Fatal(err)
			}
			mustLead(t, a)
			cancel()
			mustBe(t, a, leader.StateStopped)
			if _, r := stored(t, st); (r.ID == "") != release {
				t.Errorf("DeleteOnStop %v: %+v", release, r)
			}
			j.demand(t, "demote")
			halt(t, a)
		})
	}
}

func TestStopDuringTheCheckOfStart(t *testing.T) {
	for _, verdict := range []error{nil, store.ErrTransient, store.ErrPermanent} {
		for _, waits := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				st := &checked{Store: memstore.New(), err: verdict, hold: make(chan struct{})}
				a := candidate(t, st, config("a"))
				startErr, stopErr := make(chan error, 1), make(chan error, 1)
				go func() { startErr <- a.Start(t.Context()) }()
				synctest.Wait()
				if err := a.Start(t.Context()); !errors.Is(err, leader.ErrAlreadyStarted) {
					t.Error(err)
				}
				go func() { stopErr <- a.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: waits}) }()
				synctest.Wait()
				close(st.hold)
				if err := <-startErr; !errors.Is(err, leader.ErrStopped) {
					t.Errorf("start: %v", err)
				}
				if err := <-stopErr; err != nil {
					t.Errorf("stop: %v", err)
				}
				mustBe(t, a, leader.StateStopped)
			})
		}
	}
}

func TestStopOfAFollowerWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		b := start(t, st, config("b"))
		before, _ := stored(t, st)
		halt(t, b)
		if after, _ := stored(t, st); after.Revision != before.Revision {
			t.Fatalf("%s", after.Value)
		}
		mustLead(t, a)
	})
}

// A release writes on the revision that it knows: the successor's record is not
// its to delete.
func TestStopDoesNotTouchTheRecordOfASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a := start(t, f.Client("a"), config("a"))
		mustLead(t, a)
		f.BlackHole("a")
		b := start(t, f.Client("b"), config("b"))
		time.Sleep(wait + jitter)
		mustLead(t, b, a)
		go func() { _ = a.Stop() }()
		synctest.Wait()
		f.Heal("a")
		time.Sleep(time.Minute)
		mustLead(t, b, a)
		halt(t, a)
	})
}

// A connection that is closed takes no release any more. A stop does not wait
// for that.
func TestStopDoesNotWaitForAReleaseThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &revoked{Store: memstore.New()}
		a := start(t, st, config("a"))
		mustLead(t, a)
		st.done.Store(true)
		begun := time.Now()
		halt(t, a)
		if d := time.Since(begun); d != 0 {
			t.Errorf("stopped after %v", d)
		}
	})
}

// A revoked store refuses every write from some time on.
type revoked struct {
	*memstore.Store
	done atomic.Bool
}

func (r *revoked) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if r.done.Load() {
		return 0, store.ErrPermanent
	}
	return r.Store.CompareAndSwap(ctx, w)
}

// A lingerer is a store whose watches still deliver for a while after their
// context has ended.
type lingerer struct {
	*memstore.Store
	running atomic.Int32
}

func (l *lingerer) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	inner, err := l.Store.Watch(ctx, keys, deliver)
	if err != nil {
		return nil, err
	}
	l.running.Add(1)
	return func() { inner(); l.running.Add(-1) }, nil
}

// The end of the watch's context begins its end; only its stop function waits
// for it.
func TestStopAwaitsTheEndOfTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lingerer{Store: memstore.New()}
		e, err := leader.NewElectionWithStore(l, config("a"))
		if err != nil {
			t.Fatal(err)
		}
		started(t, e)
		synctest.Wait()
		if n := l.running.Load(); n != 2 { // of the record, and of what drains the instance
			t.Fatalf("%d watches", n)
		}
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
		if n := l.running.Load(); n != 0 {
			t.Errorf("%d watches are running after Stop", n)
		}
	})
}

// A hook runs on the goroutine that a stop waits for.
func TestStopAndResignFromAHookDoNotDeadlock(t *testing.T) {
	for name, leave := range map[string]func(leader.Election) error{
		"stop":   leader.Election.Stop,
		"resign": func(e leader.Election) error { return e.Resign(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a leader.Election
				cfg := config("a")
				cfg.Hooks.Transition = func(tr leader.Transition) {
					if tr.To == leader.StateLeader {
						if err := leave(a); err != nil {
							t.Error(err)
						}
					}
				}
				a = candidate(t, memstore.New(), cfg)
				started(t, a)
				mustNotLead(t, a)
				halt(t, a)
			})
		})
	}
}

// Callbacks at the end of the election run on the same goroutine, for whose end
// a stop waits.
func TestStopFromAHookOfTheEndDoesNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a leader.Election
		cfg, told := config("a"), false
		cfg.Hooks.Note = func(n leader.Note) {
			if told = true; n.Kind == leader.NoteOverrun {
				if err := a.Stop(); err != nil {
					t.Error(err)
				}
			}
		}
		a = candidate(t, memstore.New(), cfg)
		hang := make(chan struct{})
		defer close(hang)
		a.OnLeaderChange(func(leader.LeaderInfo) { <-hang })
		mustLead(t, started(t, a))
		if err := a.Stop(); !errors.Is(err, leader.ErrDemoteTimeout) || !told {
			t.Errorf("%v; the hook was called: %v", err, told)
		}
	})
}

// The work has returned, and another leads: a stop has nothing to complain of.
func TestStopOfAFollowerReportsNoEarlierOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		cfg := config("a")
		cfg.DemoteTimeout = 4 * time.Second
		a := candidate(t, st, cfg)
		a.OnDemote(func() { time.Sleep(time.Minute) })
		mustLead(t, started(t, a))
		b := started(t, candidate(t, st, config("b")))
		go func() { _ = a.Resign(t.Context()) }()
		time.Sleep(time.Hour)
		mustLead(t, b)
		halt(t, a)
		halt(t, b)
	})
}

// The record was given up while the work went on, though it has returned before
// the store answered.
func TestStopReportsWorkThatItsReleaseDidNotAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lag := ttl / 20
		f := network(t, func(faultstore.Call) faultstore.Fate { return faultstore.Fate{Delay: lag} })
		cfg := config("a")
		cfg.DemoteTimeout = 4 * time.Second
		a := candidate(t, f.Client("a"), cfg)
		a.OnDemote(func() { time.Sleep(cfg.DemoteTimeout + lag/2) })
		started(t, a)
		time.Sleep(2 * ttl)
		mustLead(t, a)
		if err := a.Stop(); !errors.Is(err, leader.ErrDemoteTimeout) {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestStopDoesNotHangWithAHealthCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cfg := &health{}, config("a")
		h.set(func(context.Context) bool { time.Sleep(time.Minute); return true })
		cfg.HealthChecker = h
		a := start(t, memstore.New(), cfg)
		time.Sleep(heartbeat * 3 / 2)
		begun := time.Now()
		halt(t, a)
		if d := time.Since(begun); d > heartbeat {
			t.Fatalf("stopped within %v", d)
		}
		time.Sleep(time.Minute)
	})
}

// A stop does not wait again for a check that outlives its own time, and a
// check that respects its context is cancelled as soon as the work is.
func TestHealthCheckDelaysNoStopBeyondItsOwnTime(t *testing.T) {
	const work = 5 * heartbeat
	for name, c := range map[string]struct {
		check func(context.Context) bool
		at    time.Duration // when the stop is asked for; a check begins at each heartbeat
		want  time.Duration
	}{
		"respects its context": {func(ctx context.Context) bool { <-ctx.Done(); return true }, 1100 * time.Millisecond, 0},
		"ignores it":           {func(context.Context) bool { time.Sleep(time.Minute); return true }, 1100 * time.Millisecond, 900 * time.Millisecond},
		"ignores it for long":  {func(context.Context) bool { time.Sleep(time.Minute); return true }, 2500 * time.Millisecond, 0},
		"ends in time":         {func(context.Context) bool { time.Sleep(heartbeat / 2); return true }, 1100 * time.Millisecond, 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stops := map[string]func(leader.HealthChecker) func() error{
					"election": func(h leader.HealthChecker) func() error {
						cfg := config("a")
						cfg.HealthChecker = h
						return start(t, memstore.New(), cfg).Stop
					},
					"manager": func(h leader.HealthChecker) func() error {
						cfg := spreading("a")
						cfg.Election.HealthChecker = h
						return newFleet(t, 2).start(memstore.New(), cfg).Stop
					},
				}
				for kind, begin := range stops {
					h := &health{}
					h.set(c.check)
					stop := begin(h)
					time.Sleep(c.at)
					begun := time.Now()
					if err := stop(); err != nil {
						t.Error(err)
					}
					if took := time.Since(begun); took != c.want {
						t.Errorf("%s: the stop took %v, want %v", kind, took, c.want)
					}
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
	t.Run("while the work stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, cfg, ended := &health{}, config("a"), time.Time{}
			h.set(func(ctx context.Context) bool { <-ctx.Done(); ended = time.Now(); return false })
			cfg.HealthChecker, cfg.HealthCheckInterval = h, work
			a := candidate(t, memstore.New(), cfg)
			a.OnDemote(func() { time.Sleep(work / 2) })
			a.OnPromote(func(context.Context, string) {})
			mustLead(t, started(t, a))
			time.Sleep(work + heartbeat)
			begun := time.Now()
			halt(t, a)
			if !ended.Equal(begun) || time.Since(begun) != work/2 {
				t.Errorf("the check ended %v after the stop was asked for, and that took %v", ended.Sub(begun), time.Since(begun))
			}
		})
	})
}

// A stop that was asked for remains one, whatever becomes of the connection
// then.
func TestConnectionMayCloseAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a, release := candidate(t, f.Client("a"), config("a")), make(chan struct{})
		a.OnDemote(func() { <-release })
		mustLead(t, started(t, a))
		stopped := make(chan error)
		go func() { stopped <- a.Stop() }()
		synctest.Wait()
		f.Report(store.Closed, "a")
		synctest.Wait()
		close(release)
		if err := <-stopped; err != nil || a.Err() != nil {
			t.Errorf("Stop: %v, Err: %v", err, a.Err())
		}
	})
}

func TestDoneAndErrAfterAnOrdinaryStop(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, leader.Election){
		"started":     func(t *testing.T, e leader.Election) { started(t, e) },
		"not started": func(*testing.T, leader.Election) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := candidate(t, memstore.New(), config("a"))
				begin(t, a)
				select {
				case <-a.Done():
					t.Error("done before the end")
				default:
				}
				halt(t, a)
				<-a.Done()
				if err := a.Err(); err != nil {
					t.Errorf("Err: %v", err)
				}
			})
		})
	}
}

// The bubble of synctest fails a test that leaves a goroutine behind: here one
// that did everything.
func TestStopLeavesNoGoroutineBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.HealthChecker, cfg.Fencing.ValidationInterval = &health{}, heartbeat
		a := start(t, st, cfg)
		b := start(t, st, config("b"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range b.Observe(t.Context()) {
			}
		}()
		time.Sleep(time.Minute)
		put(t, st, record.ControlKey("g"), record.Request{Op: record.OpStepDown, Term: a.Term().Number})
		mustLead(t, b, a)
		halt(t, a, b)
		<-done
		synctest.Wait()
	})
}

// A busyStore is a store whose writes take until a while after their context
// ends.
type busyStore struct {
	*memstore.Store
	write func(context.Context)
}

func (s *busyStore) CompareAndSwap(ctx context.Context, _ store.Write) (uint64, error) {
	s.write(ctx)
	return 0, store.ErrUnknown
}

// A goroutine that is asked to end may be in the middle of something: Stop
// returns after that, and not before.
func TestStopReturnsAfterTheLastActOfItsGoroutines(t *testing.T) {
	var running atomic.Int32
	act := func(ctx context.Context) bool {
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		time.Sleep(heartbeat / 10)
		return true
	}
	for name, begin := range map[string]func(t *testing.T) leader.Election{
		"a write": func(t *testing.T) leader.Election {
			return start(t, &busyStore{memstore.New(), func(ctx context.Context) { act(ctx) }}, config("a"))
		},
		"a health check": func(t *testing.T) leader.Election {
			h, cfg := &health{}, config("a")
			h.set(act)
			cfg.HealthChecker = h
			return start(t, memstore.New(), cfg)
		},
		"a callback": func(t *testing.T) leader.Election {
			e := candidate(t, memstore.New(), config("a"))
			e.OnLeaderChange(func(leader.LeaderInfo) {
				running.Add(1)
				defer running.Add(-1)
				time.Sleep(time.Second)
			})
			return started(t, e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := begin(t)
				for running.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				if err := e.Stop(); err != nil {
					t.Error(err)
				}
				if n := running.Load(); n != 0 {
					t.Errorf("%d are running after Stop", n)
				}
			})
		})
	}
}
