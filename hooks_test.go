package leader_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// heard collects what hooks receive, from the goroutines of several elections.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *heard) count(line string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		if l == line {
			n++
		}
	}
	return n
}

func hooksConfig(group string, hooks leader.Hooks) leader.ElectionConfig {
	return leader.ElectionConfig{
		Group: group, InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second, Hooks: hooks,
	}
}

func TestOneHooksValueServesManyElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heard
		shared := leader.JoinHooks(
			leader.Hooks{PerElection: func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
				h.add("begin " + cfg.Group)
				if cfg.ConnectionTimeout == 0 || e.Status().State != leader.StateInit {
					t.Errorf("the configuration has no defaults, or the election is past its beginning: %+v", e.Status())
				}
				return leader.Hooks{Transition: func(tr leader.Transition) { h.add(cfg.Group + " " + tr.To) }}
			}},
			leader.Hooks{PerElection: func(leader.Election, leader.ElectionConfig) leader.Hooks {
				return leader.Hooks{Call: func(c leader.Call) { h.add(c.Kind) }}
			}},
			leader.Hooks{Transition: func(tr leader.Transition) { h.add(tr.To) }},
		)
		st := memstore.New()
		for _, group := range []string{"x", "y"} {
			e, err := leader.NewElectionWithStore(st, hooksConfig(group, shared))
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		for line, want := range map[string]int{
			"begin x": 1, "begin y": 1, "x LEADER": 1, "y LEADER": 1, "LEADER": 2, "x STOPPED": 1, "y STOPPED": 1, "acquire": 2,
		} {
			if got := h.count(line); got != want {
				t.Errorf("%q was heard %d times, want %d: %q", line, got, want, h.lines)
			}
		}
		if first := h.lines[0]; first != "begin x" {
			t.Errorf("the first thing heard was %q", first)
		}
	})
}

func TestValidationWithoutATermIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []string
		e, err := leader.NewElectionWithStore(memstore.New(), hooksConfig("x", leader.Hooks{Note: func(n leader.Note) {
			if n.Kind != leader.NoteWarning { // memory forgets
				kinds = append(kinds, n.Kind)
			}
		}}))
		if err != nil {
			t.Fatal(err)
		}
		validate := func(want error) {
			t.Helper()
			if err := e.ValidateToken(t.Context()); !errors.Is(err, want) {
				t.Errorf("ValidateToken: %v, want %v", err, want)
			}
		}
		validate(leader.ErrNotLeader) // before the start: heard by nobody
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		validate(nil)
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		validate(leader.ErrNotLeader)
		synctest.Wait()
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		validate(leader.ErrNotLeader)
		if want := []string{leader.NoteBadToken}; !slices.Equal(kinds, want) {
			t.Errorf("notes: %q, want %q", kinds, want)
		}
	})
}

func TestCallbacksOfEveryKindAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := make(map[string]time.Duration)
		e, err := leader.NewElectionWithStore(memstore.New(), hooksConfig("x", leader.Hooks{
			Callback: func(c leader.Callback) { took[c.Kind] = max(took[c.Kind], c.Took) },
		}))
		if err != nil {
			t.Fatal(err)
		}
		e.OnCampaign(func(leader.Reason) { time.Sleep(1 * time.Millisecond) })
		e.OnLeaderChange(func(leader.LeaderInfo) { time.Sleep(2 * time.Millisecond) })
		e.OnPromote(func(context.Context, string) { time.Sleep(3 * time.Millisecond) })
		e.OnDemote(func() { time.Sleep(4 * time.Millisecond) })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[string]time.Duration{
			"campaign": time.Millisecond, "leader-change": 2 * time.Millisecond, "promote": 3 * time.Millisecond, "demote": 4 * time.Millisecond,
		} {
			if took[kind] != want {
				t.Errorf("%s took %v, want %v", kind, took[kind], want)
			}
		}
	})
}

func TestCallsOfEveryKindAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 40 * time.Millisecond
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			if c.Op == faultstore.Event {
				return faultstore.Fate{Delay: trip} // later than the answer to the write
			}
			// A renewal is refused without a reason, so that a read has to find
			// out.
			return faultstore.Fate{Delay: trip / 2, Reply: trip / 2, Conflict: c.Op == faultstore.CompareAndSwap && c.N == 3}
		})
		timed := make(map[string]int)
		cfg := hooksConfig("x", leader.Hooks{Call: func(c leader.Call) {
			if c.Outcome == store.OK {
				timed[c.Kind]++
				if c.Took != trip {
					t.Errorf("%+v took %v, want %v", c, c.Took, trip)
				}
			}
		}})
		cfg.DeleteOnStop = true
		e := start(t, f.Client("x"), cfg)
		time.Sleep(time.Minute)
		halt(t, e)
		for _, kind := range []string{"acquire", "renew", "read", "release"} {
			if timed[kind] == 0 {
				t.Errorf("no call to %s; calls: %v", kind, timed)
			}
		}
	})
}

// A PerElection may have started something for the election, which only its
// hooks end. So a panic of another one must not take them away.
func TestPanicOfPerElectionLeavesOtherHooksAlone(t *testing.T) {
	fail := func() leader.Hooks { panic("boom") }
	for name, order := range map[string][]string{
		"it alone":    {"fails"},
		"first":       {"fails", "x", "y"},
		"in between":  {"x", "fails", "y"},
		"last":        {"x", "y", "fails"},
		"two of them": {"x", "fails", "fails", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h heard
				ask := func(who string) leader.Hooks {
					return leader.Hooks{PerElection: func(leader.Election, leader.ElectionConfig) leader.Hooks {
						h.add(who)
						if who == "fails" {
							return fail()
						}
						return leader.Hooks{Transition: func(tr leader.Transition) { h.add(who + " " + tr.To) }}
					}}
				}
				shared := leader.Hooks{Note: func(n leader.Note) {
					if n.Kind != leader.NotePanic {
						return
					}
					first, stack, _ := strings.Cut(n.Text, "\n")
					h.add(first)
					if !strings.Contains(stack, "TestPanicOfPerElection") {
						t.Errorf("the stack does not show the place of the panic:\n%s", stack)
					}
				}}
				for _, who := range order {
					shared = leader.JoinHooks(shared, ask(who))
				}
				e, err := leader.NewElectionWithStore(memstore.New(), hooksConfig("x", shared))
				if err != nil {
					t.Fatal(err)
				}
				if err := e.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if err := e.Stop(); err != nil {
					t.Fatal(err)
				}
				want := map[string]int{"fails": 0, "x": 0, "y": 0, "Hooks.PerElection panicked: boom": 1}
				for _, who := range order {
					want[who]++
				}
				for _, who := range []string{"x", "y"} {
					want[who+" LEADER"], want[who+" STOPPED"] = want[who], want[who]
				}
				for line, n := range want {
					if got := h.count(line); got != n {
						t.Errorf("%q was heard %d times, want %d: %q", line, got, n, h.lines)
					}
				}
			})
		})
	}
}

// Hooks that return a copy of themselves for each election would be asked for
// more without end.
func TestHooksThatReturnThemselvesAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, told := 0, 0
		var shared leader.Hooks
		shared.PerElection = func(leader.Election, leader.ElectionConfig) leader.Hooks {
			asked++
			if asked > 100 {
				return leader.Hooks{}
			}
			own := shared
			own.Transition = func(leader.Transition) { told++ }
			return own
		}
		cfg := config("a")
		cfg.Hooks = shared
		a := start(t, memstore.New(), cfg)
		time.Sleep(ttl)
		mustLead(t, a)
		if asked != 1 || told == 0 {
			t.Errorf("asked %d times, notified of %d transitions", asked, told)
		}
	})
}

func TestHooksRunInOrderWithTheirContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, callbacks, cfg := newJournal(), newJournal(), config("a")
		cfg.Hooks = leader.Hooks{
			Transition: func(tr leader.Transition) {
				j.note("%s -> %s %s, term %d, leader %q", tr.From, tr.To, tr.Reason, tr.Term.Number, tr.LeaderID)
				if time.Since(tr.At) != 0 {
					t.Errorf("%+v", tr)
				}
			},
			Call: func(c leader.Call) {
				j.note("%s %v in %v, %v", c.Kind, c.Outcome, c.Took, c.Err)
				if c.Sent.Before(j.begun) {
					t.Errorf("%+v", c)
				}
			},
			Callback: func(c leader.Callback) { callbacks.note("%s of term %d took %v", c.Kind, c.Term.Number, c.Took) },
		}
		// Without a watch, which may show the effect of a call before its
		// answer comes.
		a := candidate(t, newPlain(), cfg)
		a.OnPromote(func(ctx context.Context, _ string) { <-ctx.Done() })
		a.OnDemote(func() { time.Sleep(time.Second) })
		started(t, a)
		time.Sleep(heartbeat * 3 / 2)
		_ = a.Resign(t.Context())
		halt(t, a)
		j.demand(t,
			`INIT -> CANDIDATE started, term 0, leader ""`,
			`acquire ok in 0s, <nil>`,
			`CANDIDATE -> LEADER absent, term 1, leader "a"`,
			`renew ok in 0s, <nil>`,
			`LEADER -> DEMOTED resigned, term 1, leader ""`,
			`renew ok in 0s, <nil>`,
			`release ok in 0s, <nil>`,
			`DEMOTED -> CANDIDATE standing-back, term 0, leader ""`,
			`CANDIDATE -> STOPPED stopped, term 0, leader ""`,
		)
		callbacks.demand(t, `promote of term 1 took 1.5s`, `demote of term 1 took 1s`)
	})
}

// The watch shows the vacancy, and with it the end of the election, before the
// release is answered.
func TestHooksReportEveryCallOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			if c.Write.Tombstone {
				return faultstore.Fate{Reply: 100 * time.Millisecond}
			}
			return faultstore.Fate{}
		})
		j, cfg := newJournal(), config("a")
		cfg.Hooks.Call = func(c leader.Call) { j.note("%s", c.Kind) }
		halt(t, start(t, f.Client("a"), cfg))
		j.demand(t, "acquire", "release")
	})
}

func TestTermContextThatReturnsNothingChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("a")
		cfg.Hooks.TermContext = func(context.Context, leader.Term) context.Context { return nil }
		a := start(t, memstore.New(), cfg)
		mustLead(t, a)
		halt(t, a)
	})
}

func TestJoinedTermContextsMayReturnNothing(t *testing.T) {
	type key string
	add := func(name key) leader.Hooks {
		return leader.Hooks{TermContext: func(ctx context.Context, _ leader.Term) context.Context {
			return context.WithValue(ctx, name, true)
		}}
	}
	nothing := leader.Hooks{TermContext: func(context.Context, leader.Term) context.Context { return nil }}
	for name, hooks := range map[string]leader.Hooks{
		"first":  leader.JoinHooks(nothing, add("x"), add("y")),
		"middle": leader.JoinHooks(add("x"), nothing, add("y")),
		"last":   leader.JoinHooks(add("x"), add("y"), nothing),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := hooks.TermContext(t.Context(), leader.Term{})
			if ctx == nil || ctx.Value(key("x")) == nil || ctx.Value(key("y")) == nil {
				t.Errorf("%v", ctx)
			}
		})
	}
}
