package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A brittle store panics in the method that the test names, so many times.
type brittle struct {
	*memstore.Store

	mu   sync.Mutex
	left map[string]int
}

func (b *brittle) strike(method string) {
	b.mu.Lock()
	due := b.left[method] > 0
	if due {
		b.left[method]--
	}
	b.mu.Unlock()
	if due {
		panic("boom in " + method)
	}
}

func (b *brittle) Get(ctx context.Context, key string) (store.Entry, error) {
	b.strike("Get")
	return b.Store.Get(ctx, key)
}

func (b *brittle) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	b.strike("CompareAndSwap before")
	rev, err := b.Store.CompareAndSwap(ctx, w)
	b.strike("CompareAndSwap after")
	return rev, err
}

// A brittleAsync is a brittle store whose writes nobody waits for.
type brittleAsync struct{ *brittle }

func (b brittleAsync) CompareAndSwapAsync(_ time.Time, w store.Write, done func(uint64, error)) store.Pending {
	b.strike("CompareAndSwapAsync before")
	rev, err := b.Store.CompareAndSwap(context.Background(), w)
	go done(rev, err)
	b.strike("CompareAndSwapAsync after")
	return canceling(func() {})
}

func (b *brittle) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	b.strike("Check")
	return b.Store.Check(ctx, r)
}

func (b *brittle) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	b.strike("Watch")
	stop, err := b.Store.Watch(ctx, keys, deliver)
	return func() { stop(); b.strike("the end of Watch") }, err
}

func (b *brittle) ConnState() store.ConnState {
	b.strike("ConnState")
	return store.Connected
}

func (b *brittle) OnConnState(func(store.ConnState)) func() {
	b.strike("OnConnState")
	return func() { b.strike("the end of OnConnState") }
}

// A store's panic must not reach a caller that asks for the status.
func TestStatusSurvivesAPanicOfTheStoresConnState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &brittle{Store: memstore.New(), left: map[string]int{}}
		a := start(t, st, config("a"))
		time.Sleep(2 * wait)
		st.mu.Lock()
		st.left["ConnState"] = 1
		st.mu.Unlock()
		if got := a.Status(); !got.IsLeader || got.ConnectionStatus != store.Connected.String() {
			t.Errorf("%+v", got)
		}
		if st.left["ConnState"] != 0 {
			t.Error("the status did not ask the store")
		}
		halt(t, a)
	})
}

// Pause and Resume write on the goroutine of their caller, which a panic must
// not end either. An unknown outcome is tried again.
func TestPauseAndResumeSurviveAPanicOfTheStore(t *testing.T) {
	for _, method := range []string{"Get", "CompareAndSwap before", "CompareAndSwap after"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The candidate writes by the other way, and reads nothing: what
				// panics are the calls of Pause and Resume alone.
				brittle := &brittle{Store: memstore.New(), left: map[string]int{}}
				j, cfg := newJournal(), config("a")
				cfg.Hooks.Note = func(n leader.Note) {
					if n.Kind == leader.NotePanic {
						j.note("%s", strings.SplitN(n.Text, "\n", 2)[0])
					}
				}
				a := start(t, brittleAsync{brittle}, cfg)
				time.Sleep(2 * wait)
				mustLead(t, a)
				for i, call := range []func() error{
					func() error { return a.Pause(t.Context(), "maintenance") },
					func() error { return a.Resume(t.Context()) },
				} {
					brittle.mu.Lock()
					brittle.left[method] = 1
					brittle.mu.Unlock()
					if err := unharmed(call); err != nil {
						t.Errorf("call %d: %v", i, err)
					}
					if got := j.count("the store's " + strings.Fields(method)[0] + " panicked: boom in " + method); got != i+1 {
						t.Errorf("%d panics were reported after call %d: %q", got, i, j.all())
					}
					time.Sleep(3 * ttl) // it stays back after a term
					if paused := i == 0; a.IsLeader() == paused {
						t.Errorf("after call %d: %s", i, status(a))
					}
				}
				halt(t, a)
			})
		})
	}
}

// unharmed calls f, and returns its error, or what it panicked with.
func unharmed(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v", r)
		}
	}()
	return f()
}

// A store is written by others. The effect of a call that panicked is unknown,
// which is an outcome that the protocol handles.
func TestPanicOfTheStoreIsAnUnknownOutcome(t *testing.T) {
	for _, method := range []string{
		"Get", "CompareAndSwap before", "CompareAndSwap after", "Check", "Watch", "the end of Watch",
		"OnConnState", "the end of OnConnState",
		"CompareAndSwapAsync before", "CompareAndSwapAsync after",
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				brittle := &brittle{Store: memstore.New(), left: map[string]int{method: 2}}
				var st store.Store = brittle
				if strings.HasPrefix(method, "CompareAndSwapAsync") {
					st = brittleAsync{brittle}
				}
				j, cfg := newJournal(), config("a")
				cfg.Hooks.Note = func(n leader.Note) {
					if n.Kind == leader.NotePanic {
						j.note("%s", strings.SplitN(n.Text, "\n", 2)[0])
					}
				}
				a := start(t, st, cfg)
				cfg.InstanceID = "b"
				b := start(t, st, cfg)
				time.Sleep(3 * ttl)
				_ = brittle.Delete("g") // the watch reports it, and writes that come meanwhile are refused
				for range 3 {
					time.Sleep(2*wait + ttl)
					if a.IsLeader() == b.IsLeader() {
						t.Fatalf("%s, %s", status(a), status(b))
					}
					_ = a.Resign(t.Context())
					_ = b.Resign(t.Context())
				}
				halt(t, a, b)
				brittle.mu.Lock()
				defer brittle.mu.Unlock()
				reported := 0
				for _, line := range j.all() {
					if strings.HasSuffix(line, " panicked: boom in "+method) {
						reported++
					}
				}
				if panicked := 2 - brittle.left[method]; reported != panicked || panicked == 0 && method != "Get" {
					t.Errorf("%d panics, %d reported: %q", panicked, reported, j.all())
				}
				if err := errors.Join(a.Err(), b.Err()); err != nil {
					t.Errorf("a store's panic ended the election: %v", err)
				}
			})
		})
	}
}

// A timed store notes when writes to the group's record started, and panics
// after one that is due. Its watch can be silent; otherwise it would report the
// first write before it is repeated.
type timed struct {
	*redelivering

	begun []time.Time
	due   atomic.Bool
}

func (s *timed) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Key == "g" {
		s.begun = append(s.begun, time.Now()) // an election has one write under way
	}
	rev, err := s.redelivering.CompareAndSwap(ctx, w)
	if s.due.CompareAndSwap(true, false) {
		panic("boom")
	}
	return rev, err
}

// A renewal whose call panicked may have been applied, and the lease counts
// from then. From the next attempt on it would last longer than others wait.
func TestLeaseCountsFromTheWriteWhoseCallPanicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &timed{redelivering: &redelivering{Store: memstore.New()}}
		a := start(t, st, config("a"))
		mustLead(t, a)
		st.lag()
		st.due.Store(true)
		time.Sleep(heartbeat + heartbeat/2)
		synctest.Wait()
		if n := len(st.begun); n != 3 || st.begun[1].Equal(st.begun[2]) {
			t.Fatalf("a claim, a renewal and its repetition are wanted: %v", st.begun)
		}
		if want := st.begun[1].Add(trust); !a.Status().TrustUntil.Equal(want) {
			t.Errorf("trust until %v, want %v", a.Status().TrustUntil, want)
		}
	})
}

// hooksThatFail are hooks of which one kind always ends in that way.
func hooksThatFail(fail func()) map[string]leader.Hooks {
	return map[string]leader.Hooks{
		"Transition":  {Transition: func(leader.Transition) { fail() }},
		"Call":        {Call: func(leader.Call) { fail() }},
		"Note":        {Note: func(leader.Note) { fail() }},
		"Callback":    {Callback: func(leader.Callback) { fail() }},
		"PerElection": {PerElection: func(leader.Election, leader.ElectionConfig) leader.Hooks { fail(); return leader.Hooks{} }},
		"TermContext": {TermContext: func(ctx context.Context, _ leader.Term) context.Context { fail(); return ctx }},
	}
}

func TestPanicOfAHookIsReportedAndTheElectionGoesOn(t *testing.T) {
	for name, hooks := range hooksThatFail(func() { panic("boom") }) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, cfg := newJournal(), config("a")
				told := leader.Hooks{
					Note: func(n leader.Note) {
						if n.Kind == leader.NotePanic {
							j.note("%s", strings.SplitN(n.Text, "\n", 2)[0])
						}
					},
					Transition: func(tr leader.Transition) {
						if tr.To == leader.StateStopped {
							j.note("stopped")
						}
					},
				}
				// A hook after one that panics is called all the same.
				cfg.Hooks = leader.JoinHooks(hooks, told)
				a := candidate(t, memstore.New(), cfg)
				a.OnPromote(func(context.Context, string) { panic("boom") }) // a panic to report, whatever the hooks do
				started(t, a)
				time.Sleep(4 * ttl)
				halt(t, a)
				if j.count("stopped") != 1 || a.Err() != nil {
					t.Errorf("%q, %v", j.all(), a.Err())
				}
				if want := "Hooks." + name + " panicked: boom"; j.count(want) == 0 {
					t.Errorf("%q is not among %q", want, j.all())
				}
			})
		})
	}
}

// A hook that ends its goroutine (a test's FailNow) takes the election's along.
func TestHookThatEndsItsGoroutineEndsTheElection(t *testing.T) {
	for name, hooks := range hooksThatFail(runtime.Goexit) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config("a")
				cfg.Hooks = hooks
				a := candidate(t, memstore.New(), cfg)
				var demoted atomic.Int32
				a.OnPromote(func(context.Context, string) { demoted.Add(-1) })
				a.OnDemote(func() { demoted.Add(1) })
				started(t, a)
				time.Sleep(2 * ttl)
				if name == "Callback" {
					mustLead(t, a) // it ended the goroutine of the callbacks, which has a successor
					halt(t, a)
					return
				}
				mustNotLead(t, a)
				<-a.Done()
				if err := a.Stop(); !errors.Is(err, leader.ErrPanicked) || demoted.Load() != 0 {
					t.Errorf("Stop: %v; promotions without a demotion: %d", err, -demoted.Load())
				}
			})
		})
	}
}

// A handler of log lines that always panics.
type brokenHandler struct{ slog.Handler }

func (brokenHandler) Handle(context.Context, slog.Record) error { panic("boom") }
func (h brokenHandler) WithAttrs([]slog.Attr) slog.Handler      { return h }

func TestPanicOfTheLoggerIsReportedToTheHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, cfg := newJournal(), config("a")
		cfg.Logger = slog.New(brokenHandler{slog.NewJSONHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelDebug})})
		cfg.Hooks.Note = func(n leader.Note) { j.note("%s", strings.SplitN(n.Text, "\n", 2)[0]) }
		a := start(t, memstore.New(), cfg)
		mustLead(t, a)
		halt(t, a)
		if j.count("Logger panicked: boom") == 0 {
			t.Errorf("%q", j.all())
		}
	})
}

// An unclear store reports that it is disconnected, and answers all the same,
// late.
type unclear struct{ *memstore.Store }

func (unclear) ConnState() store.ConnState               { return store.Disconnected }
func (unclear) OnConnState(func(store.ConnState)) func() { return func() {} }

func (u unclear) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	time.Sleep(200 * time.Millisecond)
	return u.Store.CompareAndSwap(ctx, w)
}

// The answer to a claim may come when the connection has been down for longer
// than the grace: the core then promotes and demotes at once.
func TestClaimAnsweredWhileDisconnectedCrashesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("a")
		cfg.DisconnectGracePeriod = 100 * time.Millisecond
		a := candidate(t, unclear{memstore.New()}, cfg)
		n := 0
		a.OnPromote(func(context.Context, string) { n++ })
		a.OnDemote(func() { n-- })
		started(t, a)
		time.Sleep(3 * ttl)
		halt(t, a)
		if n != 0 || a.Err() != nil {
			t.Errorf("%d promotions without a demotion; %v", n, a.Err())
		}
	})
}

// A goroutine of this library polls a store without a watch.
func TestPanicOfAPolledStoreIsReportedToTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &brittle{Store: memstore.New(), left: map[string]int{"Get": 2}}
		_, _ = st.CompareAndSwap(t.Context(), store.Write{Key: "g", Value: []byte("garbage")})
		ctx, cancel := context.WithCancel(t.Context())
		faults := 0
		err := leader.ObserveFuncWithStore(ctx, struct{ store.Store }{st}, "g", leader.Observer{
			Failed: func(err error) {
				if strings.Contains(err.Error(), "boom in Get") {
					faults++
				}
			},
			Leader: func(leader.LeaderInfo) { cancel() },
		})
		cancel()
		if err != nil || faults != 2 {
			t.Errorf("%d panics were reported; %v", faults, err)
		}
	})
}

// An operator's request watches the record from a separate goroutine; if that
// panics, the record is read instead.
func TestPanicOfTheWatchDoesNotEndAControlRequest(t *testing.T) {
	for _, method := range []string{"Watch", "the end of Watch"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				a := start(t, mem, config("a"))
				b := start(t, mem, config("b"))
				mustLead(t, a, b)
				c, err := leader.NewControlWithStore(&brittle{Store: mem, left: map[string]int{method: 1}}, "operator")
				if err != nil {
					t.Fatal(err)
				}
				h, err := c.Ask(t.Context(), leader.Request{Group: "g", Op: leader.OpStepDown})
				if err != nil || h.To.ID != "b" {
					t.Errorf("%+v, %v", h, err)
				}
			})
		})
	}
}

// The manager has its own goroutines: the roles' elections do not depend on
// them.
func TestPanicOfTheStoreDoesNotEndARoleManager(t *testing.T) {
	for _, method := range []string{"Check", "Get", "CompareAndSwap before", "Watch"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &brittle{Store: memstore.New(), left: map[string]int{method: 3}}
				var ms []*leader.RoleManager
				for _, id := range []string{"a", "b"} {
					cfg := config(id)
					cfg.Group = ""
					m, err := leader.NewRoleManagerWithStore(st, leader.RoleManagerConfig{
						Election: cfg, Spread: leader.SpreadConfig{Enabled: true, Pace: 1},
					})
					if err != nil {
						t.Fatal(err)
					}
					for _, name := range []string{"x", "y", "z", "w"} {
						if err := m.Add(t.Context(), leader.Role{Name: name}); err != nil {
							t.Fatal(err)
						}
					}
					if err := m.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(ttl)
					ms = append(ms, m)
				}
				time.Sleep(20 * ttl)
				for _, m := range ms {
					led := 0
					for _, s := range m.Roles() {
						led += map[bool]int{true: 1}[s.IsLeader]
					}
					if led != 2 {
						t.Errorf("%d of 4 roles are led", led)
					}
				}
				for _, m := range ms {
					if err := m.Stop(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
