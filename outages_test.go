package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
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

func TestDisconnectGraceEndsTheTermBeforeTheTrustDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := network(t, nil), config("a")
		cfg.DisconnectGracePeriod = 500 * time.Millisecond
		a := candidate(t, f.Client("a"), cfg)
		var ctx context.Context
		a.OnPromote(func(c context.Context, _ string) { ctx = c }) //nolint:fatcontext // looked at later
		mustLead(t, started(t, a))
		f.Partition("a")
		if s := a.Status().ConnectionStatus; s != "DISCONNECTED" {
			t.Error(s)
		}
		time.Sleep(500*time.Millisecond - 1)
		mustLead(t, a)
		f.Heal("a") // in time
		time.Sleep(time.Minute)
		mustLead(t, a)
		if s := a.Status().ConnectionStatus; s != "CONNECTED" {
			t.Error(s)
		}
		f.Partition("a")
		time.Sleep(500 * time.Millisecond)
		mustNotLead(t, a)
		if l := (*leader.LossError)(nil); !errors.As(context.Cause(ctx), &l) || l.Reason != leader.ReasonDisconnected {
			t.Error(context.Cause(ctx))
		}
		f.Heal("a")
		time.Sleep(2 * ttl)
		mustLead(t, a)
	})
}

// A refused login needs a person to repair it, so it has to be logged.
func TestOutageIsLoggedAtOnceAndEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		told := make(map[string][]time.Duration)
		var mu sync.Mutex
		var begin time.Time
		for _, id := range []string{"a", "b"} {
			cfg := config(id)
			cfg.Hooks.Note = func(n leader.Note) {
				mu.Lock()
				if n.Kind == leader.NoteDisconnected {
					told[id] = append(told[id], n.At.Sub(begin))
					if want := "is lost since " + begin.Format(time.TimeOnly) + ": the login was refused; waiting for it"; !strings.Contains(n.Text, want) {
						t.Errorf("%q, want %q", n.Text, want)
					}
				}
				mu.Unlock()
			}
			start(t, loginRefused{f.Client(id)}, cfg)
		}
		time.Sleep(2 * ttl)
		begin = time.Now()
		f.Partition("a", "b")
		time.Sleep(2*time.Minute + time.Second)
		f.Heal("a", "b")
		time.Sleep(5 * time.Minute)
		for _, id := range []string{"a", "b"} {
			if want := []time.Duration{0, time.Minute, 2 * time.Minute}; !slices.Equal(told[id], want) {
				t.Errorf("%s reported it after %v, want %v", id, told[id], want)
			}
		}
	})
}

// loginRefused reports why it is disconnected.
type loginRefused struct{ *faultstore.Client }

func (loginRefused) ConnError() error { return errors.New("the login was refused") }

// reporting is a network whose answers take so long, and on which a reports
// that it is disconnected, whatever comes in. It allows 500 writes.
func reporting(t *testing.T, answer time.Duration, leads func()) (*faultstore.Faults, leader.Election) {
	t.Helper()
	f, cfg := network(t, func(c faultstore.Call) faultstore.Fate {
		if c.Op == faultstore.CompareAndSwap && c.N == 500 {
			t.Errorf("%d writes", c.N)
		}
		return faultstore.Fate{Reply: answer, Lose: c.N >= 500}
	}), config("a")
	cfg.DisconnectGracePeriod = 100 * time.Millisecond
	f.Report(store.Disconnected, "a")
	a := candidate(t, f.Client("a"), cfg)
	a.OnPromote(func(context.Context, string) { leads() })
	return f, started(t, a)
}

// The report of a lost connection and the answer to a claim travel by different
// ways: the claim is granted when the grace is over already.
func TestClaimThatIsGrantedAfterTheGracePromotesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		f, a := reporting(t, 200*time.Millisecond, func() {
			if down {
				t.Error("promoted while the connection was down for longer than the grace")
			}
		})
		time.Sleep(10 * ttl)
		mustNotLead(t, a)
		down = false
		f.Report(store.Connected, "a")
		time.Sleep(2 * ttl)
		mustLead(t, a)
	})
}

// A candidate that cannot keep what it wins would claim, leave, write a vacancy
// and claim again as fast as the store answers.
func TestLostConnectionThatStillAnswersDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := reporting(t, time.Millisecond, func() {})
		for range 20 { // and when it flaps
			time.Sleep(ttl)
			f.Report(store.Connected, "a")
			time.Sleep(ttl / 10)
			f.Report(store.Disconnected, "a")
		}
		f.Report(store.Connected, "a")
		time.Sleep(2 * ttl)
		mustLead(t, a)
	})
}

func TestDisconnectedLeaderLastsAsLongAsItsTrustWithoutAGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a := start(t, f.Client("a"), config("a"))
		f.Partition("a")
		time.Sleep(trust - 1)
		mustLead(t, a)
		time.Sleep(time.Nanosecond)
		mustNotLead(t, a)
	})
}

func TestUnhealthyLeaderReleasesAndFollowsUntilItRecovers(t *testing.T) {
	for name, sick := range map[string]func(context.Context) bool{
		"says no": func(context.Context) bool { return false },
		"panics":  func(context.Context) bool { panic("boom") },
		"hangs":   func(context.Context) bool { time.Sleep(20 * time.Second); return true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, h, cfg := memstore.New(), &health{}, config("a")
				cfg.HealthChecker = h
				a, b := start(t, st, cfg), start(t, st, config("b"))
				time.Sleep(10*time.Second + 1)
				mustLead(t, a, b)
				h.set(sick)
				time.Sleep(2 * heartbeat)
				mustLead(t, a, b) // the default is three failures in a row
				time.Sleep(3 * heartbeat)
				mustLead(t, b, a)
				halt(t, b)
				time.Sleep(10 * wait)
				mustNotLead(t, a) // unfit, although nobody leads
				if name == "says no" && a.Status().State != leader.StateCandidate {
					t.Error(status(a))
				}
				h.set(nil)
				time.Sleep(20*time.Second + wait)
				mustLead(t, a)
			})
		})
	}
}

func TestFailuresOfHealthCountOnlyInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, h, cfg := 0, &health{}, config("a")
		h.set(func(context.Context) bool { n++; return n%3 == 0 })
		cfg.HealthChecker = h
		a := start(t, memstore.New(), cfg)
		time.Sleep(time.Hour)
		mustLead(t, a)
	})
}

// A check that respects its context and ends with it has failed once, and not
// again when its answer is read.
func TestSlowHealthCheckFailsOnce(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			n, h, cfg := 0, &health{}, config("a")
			h.set(func(ctx context.Context) bool {
				n++
				if n <= 2 {
					<-ctx.Done()
					return false
				}
				return true
			})
			cfg.HealthChecker = h
			a := candidate(t, memstore.New(), cfg)
			a.OnDemote(func() {
				if n <= 3 {
					t.Errorf("demoted after %d checks", n)
				}
			})
			started(t, a)
			time.Sleep(20 * heartbeat)
			mustLead(t, a)
		})
	}
}

func TestHealthIsAskedEachHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cfg := &health{}, config("a")
		h.set(func(context.Context) bool { time.Sleep(heartbeat * 9 / 10); return true })
		cfg.HealthChecker = h
		a := start(t, memstore.New(), cfg)
		time.Sleep(100*heartbeat + heartbeat/2)
		begun := time.Now()
		halt(t, a) // waits for the check that is under way
		if d := time.Since(begun); h.n != 100 || d != heartbeat*4/10 {
			t.Fatalf("%d checks, stopped within %v", h.n, d)
		}
	})
}

// An unfit candidate does not campaign, but notifies its program all the same
// that the leader is gone.
func TestUnfitFollowerSeesASilentLeaderExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h, cfg, j := network(t, nil), &health{}, config("b"), newJournal()
		h.set(func(context.Context) bool { return false })
		cfg.HealthChecker = h
		a, b := start(t, f.Client("a"), config("a")), candidate(t, f.Client("b"), cfg)
		b.OnLeaderChange(func(l leader.LeaderInfo) { j.note("%q %s", l.ID, l.Reason) })
		started(t, b)
		time.Sleep(10 * heartbeat)
		f.BlackHole("a")
		time.Sleep(wait + contention)
		mustNotLead(t, a, b)
		j.demand(t, `"" started`, `"a" `, `"" expired`)
		if b.LeaderID() != "" {
			t.Error(b.LeaderID())
		}
	})
}

func TestRenewalsAreRetriedUntilTheTrustEndsUnlessAttemptsAreBounded(t *testing.T) {
	for _, attempts := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			var refuse atomic.Bool
			failed := 0
			f := network(t, func(c faultstore.Call) faultstore.Fate {
				return faultstore.Fate{Refuse: refuse.Load() && c.Op == faultstore.CompareAndSwap}
			})
			cfg := config("a")
			cfg.RetryConfig = leader.RetryConfig{MaxAttempts: attempts, InitialBackoff: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, Jitter: 1e-9}
			var lost leader.Transition
			cfg.Hooks.Transition = func(tr leader.Transition) {
				if tr.From == leader.StateLeader {
					lost = tr
				}
			}
			cfg.Hooks.Note = func(n leader.Note) {
				if n.Kind == leader.NoteFailed {
					failed++
				}
			}
			a := start(t, f.Client("a"), cfg)
			mustLead(t, a)
			begun := time.Now()
			refuse.Store(true)
			time.Sleep(ttl)
			mustNotLead(t, a)
			refuse.Store(false)
			after := lost.At.Sub(begun).Round(time.Millisecond)
			if attempts == 0 && (lost.Reason != leader.ReasonTrustExpired || after != trust) {
				t.Errorf("%s after %v", lost.Reason, after)
			}
			if attempts == 2 && (lost.Reason != leader.ReasonRetriesSpent || after != heartbeat+100*time.Millisecond) {
				t.Errorf("%s after %v", lost.Reason, after)
			}
			if failed < 2 {
				t.Errorf("%d failures noted", failed)
			}
			time.Sleep(2 * ttl)
			mustLead(t, a)
		})
	}
}

func TestRenewalWithoutAnAnswerIsResolvedAndTheTermGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{LoseReply: c.Op == faultstore.CompareAndSwap && c.N%5 == 3, Lose: c.Op == faultstore.Event}
		})
		j, cfg := newJournal(), config("a")
		cfg.Hooks.Note = func(n leader.Note) { j.note("%s", n.Kind) }
		a := start(t, f.Client("a"), cfg)
		term := a.Term()
		time.Sleep(time.Minute)
		mustLead(t, a)
		if a.Term() != term || j.count(leader.NoteResolved) == 0 {
			t.Fatalf("%v, was %v; %q", a.Term(), term, j.all())
		}
	})
}

func TestPermanentFaultIsReturnedByStartWhichMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := fmt.Errorf("%w: the bucket is missing", store.ErrPermanent)
		st := &checked{Store: memstore.New(), err: fault}
		a := candidate(t, st, config("a"))
		for range 2 {
			if err := a.Start(t.Context()); !errors.Is(err, fault) {
				t.Fatal(err)
			}
			mustBe(t, a, leader.StateInit)
		}
		st.repair()
		mustLead(t, started(t, a))
	})
}

func TestStoreThatCannotBeReachedIsAwaited(t *testing.T) {
	for _, fault := range []error{store.ErrTransient, store.ErrUnknown, errors.New("of no class")} {
		synctest.Test(t, func(t *testing.T) {
			st, j, cfg := &checked{Store: memstore.New(), err: fault}, newJournal(), config("a")
			cfg.Hooks.Note = func(n leader.Note) { j.note("%s %s", n.Kind, n.Text) }
			a := start(t, st, cfg)
			time.Sleep(time.Hour)
			mustBe(t, a, leader.StateInit)
			st.repair()
			time.Sleep(2 * ttl)
			mustLead(t, a)
			// Said at once, and then once a minute, however often it is tried.
			if n := j.count("not-ready " + fault.Error()); n < 50 || n > 61 {
				t.Errorf("%d notes", n)
			}
		})
	}
}

func TestWatchThatCannotBeSetUpIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Refuse: refuse.Load() && c.Op == faultstore.Watch}
		})
		a := start(t, f.Client("a"), config("a"))
		time.Sleep(time.Hour)
		mustNotLead(t, a)
		refuse.Store(false)
		time.Sleep(2 * ttl)
		mustLead(t, a)
	})
}

func TestStoreWithoutAWatchIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newPlain()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		time.Sleep(10*time.Second + heartbeat/2)
		mustLead(t, a, b)
		if b.LeaderID() != "a" {
			t.Error(status(b))
		}
		put(t, st, record.ControlKey("g"), record.Request{Op: record.OpTransfer, Term: a.Term().Number, Successor: "b"})
		time.Sleep(2 * heartbeat)
		mustLead(t, b, a)
		if err := b.StopWithContext(t.Context(), leader.StopOptions{}); err != nil { // silent
			t.Fatal(err)
		}
		time.Sleep(wait + heartbeat + jitter)
		mustLead(t, a, b)
	})
}

// claimTimes lets every claim be refused for an hour, and returns when each was
// made.
func claimTimes(t *testing.T, retry leader.RetryConfig) (sent []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Refuse: c.Op == faultstore.CompareAndSwap}
		})
		begun, cfg := time.Now(), config("a")
		cfg.RetryConfig = retry
		cfg.Hooks.Call = func(c leader.Call) {
			if c.Kind == "acquire" {
				sent = append(sent, c.Sent.Sub(begun))
			}
		}
		a := start(t, f.Client("a"), cfg)
		time.Sleep(time.Hour)
		mustNotLead(t, a)
	})
	return sent
}

func TestRetryDelaysGrowFromTheInitialToTheMaximalBackoffWithinTheJitter(t *testing.T) {
	retry := leader.RetryConfig{
		InitialBackoff: 100 * time.Millisecond, BackoffMultiplier: 3, MaxBackoff: 5 * time.Second, Jitter: 0.2,
	}
	sent := claimTimes(t, retry)
	if len(sent) < int(time.Hour/(6*time.Second)) {
		t.Fatalf("%d claims in an hour: it gave up", len(sent))
	}
	varied := false
	for i := 1; i < len(sent); i++ {
		delay := (sent[i] - sent[i-1]).Seconds()
		want := min(0.1*math.Pow(3, float64(i-1)), 5)
		if delay < want*0.8-1e-6 || delay > want*1.2+1e-6 {
			t.Fatalf("delay %d lasted %.3f s, want %.3f s ± 20 %%", i, delay, want)
		}
		varied = varied || math.Abs(delay-want) > want/100
	}
	if !varied {
		t.Error("no delay varied")
	}
}

func TestClaimRestsForMaxBackoffAfterMaxAttemptsAndGoesOn(t *testing.T) {
	sent := claimTimes(t, leader.RetryConfig{
		MaxAttempts: 3, InitialBackoff: time.Second, BackoffMultiplier: 1, MaxBackoff: time.Minute, Jitter: 1e-9,
	})
	const round = 2*time.Second + time.Minute
	for i, at := range sent {
		want := time.Duration(i/3)*round + time.Duration(i%3)*time.Second
		if d := (at - want).Abs(); d > time.Millisecond {
			t.Fatalf("claim %d at %v, want %v", i, at, want)
		}
	}
	if len(sent) < 3*int(time.Hour/round) {
		t.Errorf("%d claims in an hour", len(sent))
	}
}

func TestConnectionTimeoutBoundsEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 200 * time.Millisecond
		took := map[string]time.Duration{}
		var conflict atomic.Bool
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			if conflict.Load() { // after which the record is read
				return faultstore.Fate{Conflict: c.Op == faultstore.CompareAndSwap, Lose: c.Op != faultstore.CompareAndSwap}
			}
			return faultstore.Fate{}
		})
		cfg := config("a")
		cfg.ConnectionTimeout = limit
		cfg.Hooks.Call = func(c leader.Call) { took[c.Kind] = max(took[c.Kind], c.Took) }
		a := start(t, f.Client("a"), cfg)
		mustLead(t, a)
		f.BlackHole("a")
		time.Sleep(10 * ttl)
		f.Heal("a")
		time.Sleep(wait)
		mustLead(t, a)
		conflict.Store(true)
		time.Sleep(ttl)
		synctest.Wait()
		for _, kind := range []string{"renew", "release", "read"} {
			if took[kind] != limit {
				t.Errorf("the longest %s took %v", kind, took[kind])
			}
		}
	})
}

// A denying store refuses writes permanently while the test asks for it.
type denying struct {
	store.Store
	denies atomic.Bool
	asked  atomic.Int64
}

func (d *denying) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if d.denies.Load() {
		d.asked.Add(1)
		return 0, fmt.Errorf("%w: may not publish to $KV.b.g: grant it", store.ErrPermanent)
	}
	return d.Store.CompareAndSwap(ctx, w)
}

// A person may repair the store at any time: a running election goes on asking,
// slowly, and shows in its status and its log what it waits for.
func TestPermanentFaultOfARunningElectionIsReportedAndRetriedWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		st, cfg := &denying{Store: memstore.New()}, config("a")
		cfg.Logger = slog.New(slog.NewJSONHandler(&book, nil)) // INFO
		cfg.RetryConfig = leader.RetryConfig{MaxBackoff: 30 * time.Second}
		a := start(t, st, cfg)
		mustLead(t, a)
		st.denies.Store(true)
		time.Sleep(time.Hour)
		mustNotLead(t, a)
		if s := a.Status(); !errors.Is(s.LastError, store.ErrPermanent) || !strings.Contains(s.LastError.Error(), "grant it") ||
			time.Since(s.LastErrorAt) > time.Minute {
			t.Errorf("the status shows %v of %v", s.LastError, s.LastErrorAt)
		}
		if n := st.asked.Load(); n < 60 || n > 200 {
			t.Errorf("asked %d times in an hour", n)
		}
		warned := false
		for _, line := range book.lines(t, "call") {
			warned = warned || line["level"] == "WARN" && strings.Contains(fmt.Sprint(line["error"]), "grant it")
		}
		if !warned {
			t.Errorf("no warning names the remedy:\n%.2000s", book.text())
		}
		st.denies.Store(false)
		time.Sleep(2 * cfg.RetryConfig.MaxBackoff)
		mustLead(t, a)
		if s := a.Status(); s.LastError != nil {
			t.Errorf("still shows %v", s.LastError)
		}
	})
}

func TestElectionOutlivesTransientFaultsOfAnyLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		f := network(t, func(faultstore.Call) faultstore.Fate { return faultstore.Fate{Refuse: refuse.Load()} })
		a := start(t, f.Client("a"), config("a"))
		for _, outage := range []time.Duration{heartbeat * 3 / 2, time.Minute, 3 * time.Hour} {
			mustLead(t, a)
			refuse.Store(true)
			time.Sleep(outage)
			if s := a.Status(); !errors.Is(s.LastError, store.ErrTransient) {
				t.Errorf("after %v the status shows %v", outage, s.LastError)
			}
			refuse.Store(false)
			time.Sleep(2 * ttl)
		}
		mustLead(t, a)
	})
}

// A store that is permanently closed never serves again: callers that wait for
// it get an error.
func TestClosedConnectionEndsALeaderAndAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, notes := network(t, nil), 0
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteClosed {
				notes++
			}
		}
		a := candidate(t, f.Client("a"), cfg)
		demoted := 0
		var cause error
		a.OnPromote(func(ctx context.Context, _ string) {
			<-ctx.Done()
			cause = context.Cause(ctx)
		})
		a.OnDemote(func() { demoted++ })
		mustLead(t, started(t, a))
		b := start(t, f.Client("b"), config("b"))
		f.Report(store.Closed, "a", "b")
		for _, e := range []leader.Election{a, b} {
			<-e.Done()
			if s := e.Status(); s.State != leader.StateStopped || s.Reason != leader.ReasonClosed || e.IsLeader() {
				t.Errorf("%s", status(e))
			}
			for name, err := range map[string]error{
				"Err": e.Err(), "Stop": e.Stop(), "Alive": e.Alive(t.Context()),
			} {
				if !errors.Is(err, leader.ErrConnectionClosed) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if err := e.Start(t.Context()); !errors.Is(err, leader.ErrStopped) {
				t.Errorf("Start: %v", err)
			}
		}
		if l := (*leader.LossError)(nil); !errors.As(cause, &l) || l.Reason != leader.ReasonClosed || demoted != 1 || notes != 1 {
			t.Errorf("the term ended by %v, %d demotions, %d notes", cause, demoted, notes)
		}
	})
}

func TestClosedConnectionEndsTheCallsThatWaitForIt(t *testing.T) {
	for name, wait := range map[string]func(context.Context, leader.Election) error{
		"Resign":        func(ctx context.Context, e leader.Election) error { return e.Resign(ctx) },
		"ValidateToken": func(ctx context.Context, e leader.Election) error { return e.ValidateToken(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := network(t, nil)
				a := start(t, f.Client("a"), config("a"))
				mustLead(t, a)
				f.BlackHole("a")
				time.Sleep(time.Millisecond) // the claim proves nothing of now
				answer := make(chan error)
				go func() { answer <- wait(t.Context(), a) }()
				synctest.Wait()
				f.Report(store.Closed, "a")
				if err := <-answer; !errors.Is(err, leader.ErrConnectionClosed) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// A store that does not report its connection shows its end by the errors of
// its calls.
type mute struct {
	store.Store
	closed *atomic.Bool
}

func (m mute) Get(ctx context.Context, key string) (store.Entry, error) {
	if m.closed.Load() {
		return store.Entry{}, fmt.Errorf("%w: of a test", store.ErrClosed)
	}
	return m.Store.Get(ctx, key)
}

func (m mute) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if m.closed.Load() {
		return 0, fmt.Errorf("%w: of a test", store.ErrClosed)
	}
	return m.Store.CompareAndSwap(ctx, w)
}

func TestClosedStoreThatReportsNothingEndsItsElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, closed := network(t, nil), new(atomic.Bool)
		a := start(t, mute{f.Client("a"), closed}, config("a"))
		mustLead(t, a)
		b := start(t, mute{f.Client("b"), closed}, config("b"))
		time.Sleep(heartbeat)
		mustBe(t, b, leader.StateFollower)
		closed.Store(true)
		for _, e := range []leader.Election{a, b} {
			<-e.Done()
			if !errors.Is(e.Err(), leader.ErrConnectionClosed) {
				t.Errorf("%v", e.Err())
			}
		}
	})
}

// A redelivering store has a watch that can lag, and that delivers an entry
// again when the test asks for it, as a watch does that was interrupted and
// reads again.
type redelivering struct {
	*memstore.Store

	mu      sync.Mutex
	lags    bool
	deliver func(store.Entry)
	latest  store.Entry // of the record, as delivered
}

func (r *redelivering) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	r.mu.Lock()
	r.deliver = deliver
	r.mu.Unlock()
	return r.Store.Watch(ctx, keys, func(e store.Entry) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.Key == "g" {
			if r.lags {
				return
			}
			r.latest = e
		}
		deliver(e)
	})
}

// lag has the watch deliver nothing of the record until it catches up.
func (r *redelivering) lag() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags = true
}

// catchUp delivers the present entry, and goes on from there.
func (r *redelivering) catchUp(present store.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags, r.latest = false, present
	r.deliver(present)
}

// again delivers the latest entry once more and returns its revision.
func (r *redelivering) again() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliver(r.latest)
	return r.latest.Revision
}

// A watch may deliver an entry again, after the answer to a later write of this
// candidate. The revision is older than ours, but the watch has not gone back:
// the store has lost nothing, and nothing is doubted.
func TestRepeatedEntryOfTheWatchIsNotARegression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, shared := newJournal(), memstore.New()
		st := &redelivering{Store: shared}
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteRegressed {
				j.noteAt("%s", n.Text)
			}
		}
		a := start(t, st, cfg)
		// after has the watch repeat what was there before a write of a's.
		after := func(write func()) {
			t.Helper()
			st.lag()
			write()
			synctest.Wait()
			e, _ := stored(t, shared)
			if again := st.again(); again >= e.Revision {
				t.Fatalf("revision %d is repeated, which is not older than %d", again, e.Revision)
			}
			synctest.Wait()
			st.catchUp(e)
			synctest.Wait()
		}
		mustLead(t, a)
		term := a.Term()
		for range 3 {
			after(func() { time.Sleep(heartbeat) }) // a renewal
		}
		time.Sleep(ttl)
		mustLead(t, a)
		if a.Term() != term {
			t.Errorf("term %v, was %v", a.Term(), term)
		}
		after(func() { // a release
			if err := a.Pause(t.Context(), "upgrade"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		})
		j.demand(t)
		mustNotLead(t, a)
		if err := a.Resume(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(jitter) // and no lease, as in doubt
		mustLead(t, a)
	})
}

// A laggard is a store whose watch can be held up while its writes are
// answered.
type laggard struct {
	*memstore.Store

	mu      sync.Mutex
	held    bool
	queue   []store.Entry
	deliver func(store.Entry)
}

func (l *laggard) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	l.mu.Lock()
	l.deliver = deliver
	l.mu.Unlock()
	return l.Store.Watch(ctx, keys, func(e store.Entry) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held {
			l.queue = append(l.queue, e)
		} else {
			deliver(e)
		}
	})
}

func (l *laggard) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// one delivers the first entry that waits, and reports whether there was one.
func (l *laggard) one() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return false
	}
	l.deliver(l.queue[0])
	l.queue = l.queue[1:]
	return true
}

func (l *laggard) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.queue {
		l.deliver(e)
	}
	l.queue, l.held = nil, false
}

// A watch may deliver our own writes long after their answers. The store has
// lost no writes then, and nobody waits as after such a loss.
func TestWatchThatLagsBehindOwnWritesReportsNoLostWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, shared, cfg := newJournal(), memstore.New(), config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteRegressed {
				j.noteAt("%s", n.Text)
			}
		}
		lag := &laggard{Store: shared}
		a, b := start(t, lag, cfg), start(t, shared, config("b"))
		for range 5 {
			mustLead(t, a, b)
			time.Sleep(heartbeat / 2)
			lag.hold()
			// A write that the watch delivers late.
			if err := a.ValidateToken(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := a.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustLead(t, b, a)
			if !lag.one() {
				t.Fatal("the watch delivers nothing of a's write")
			}
			synctest.Wait()
			lag.release()
			synctest.Wait()
			if err := b.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mustLead(t, a, b)
		j.demand(t)
	})
}

// A lagging store answers every other read from a replica that remains at an
// old state.
type lagging struct {
	store.Store // and no watch
	old         store.Entry
	reads       atomic.Int64
}

func (l *lagging) Get(ctx context.Context, key string) (store.Entry, error) {
	if key == l.old.Key && l.reads.Add(1)%2 == 0 {
		return l.old, nil
	}
	return l.Store.Get(ctx, key)
}

// A read may be of any age. A follower that polls two replicas, of which one
// lags, must neither restart its wait with each answer nor take the lag for a
// store that lost writes.
func TestPollingALaggingReplicaElectsALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		a, err := leader.NewElectionWithStore(mem, config("a"))
		if err != nil {
			t.Fatal(err)
		}
		started(t, a)
		synctest.Wait()
		old, err := mem.Get(t.Context(), "g")
		if err != nil || !a.IsLeader() {
			t.Fatal(err, a.Status())
		}
		time.Sleep(5 * config("a").HeartbeatInterval)
		var regressed atomic.Int64
		cfg := config("b")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteRegressed {
				regressed.Add(1)
			}
		}
		b, err := leader.NewElectionWithStore(&lagging{Store: mem, old: old}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		started(t, b)
		time.Sleep(5 * cfg.HeartbeatInterval)
		if err := a.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * cfg.TTL)
		if !b.IsLeader() || regressed.Load() > 0 {
			t.Errorf("after two leases: %+v, %d regresses", b.Status(), regressed.Load())
		}
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
}
