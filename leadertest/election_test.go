package leadertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leadertest"
	"github.com/seed-ff2cb582/leader/store"
)

// A log is the output of callbacks, in order.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// demand compares the log with want and empties it.
func (l *log) demand(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.lines, want) {
		t.Errorf("the callbacks wrote %q, want %q", l.lines, want)
	}
	l.lines = nil
}

// follow logs the callbacks of an election.
func (l *log) follow(e leader.Election) {
	e.OnPromote(func(ctx context.Context, _ string) {
		l.add("promoted")
		<-ctx.Done()
		if loss, ok := errors.AsType[*leader.LossError](context.Cause(ctx)); ok {
			l.add("lost: %s", loss.Reason)
		}
	})
	e.OnDemote(func() { l.add("demoted") })
}

func started(tb testing.TB, e *leadertest.Election) *leadertest.Election {
	tb.Helper()
	if err := e.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return e
}

func demandLeads(t *testing.T, e *leadertest.Election, want bool) {
	t.Helper()
	if e.IsLeader() != want {
		t.Errorf("%+v, want a leader: %v", e.Status(), want)
	}
}

func TestFakeElectionLeadsOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said log
		e := leadertest.New(t, leader.ElectionConfig{})
		said.follow(e)
		started(t, e)
		time.Sleep(time.Minute)
		demandLeads(t, e, false)
		said.demand(t)

		begin := time.Now()
		e.Promote()
		demandLeads(t, e, true)
		e.Promote() // a leader is one already
		said.demand(t, "promoted")
		first := e.Term()

		e.Demote()
		demandLeads(t, e, false)
		said.demand(t, "lost: stepped-down", "demoted")
		e.Demote() // who does not lead has nothing to lose
		e.Promote()
		said.demand(t, "promoted")
		if second := e.Term(); !second.Supersedes(first) {
			t.Errorf("term %v after %v", second, first)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("two promotions and a demotion took %v", took)
		}
		time.Sleep(time.Minute)
		demandLeads(t, e, true)
	})
}

func TestAnElectionThatIsCutOffLosesItsTermWhenTheTrustEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said log
		e := leadertest.New(t, leader.ElectionConfig{TTL: 9 * time.Second})
		said.follow(e)
		started(t, e).Promote()
		said.demand(t, "promoted")

		e.CutOff()
		if state := e.Status().ConnectionStatus; state != "DISCONNECTED" {
			t.Errorf("the connection of one that is cut off is %s", state)
		}
		time.Sleep(7 * time.Second)
		demandLeads(t, e, true)
		e.Expire()
		demandLeads(t, e, false)
		said.demand(t, "lost: trust-expired", "demoted")
		if id := e.Group().Leader(); id != "rival" {
			t.Errorf("%q leads after the lease ran out", id)
		}

		e.Reconnect()
		time.Sleep(time.Minute)
		demandLeads(t, e, false)
		e.Promote()
		said.demand(t, "promoted")
	})
}

// By the machine's clock everything works but what waits for a lease.
func TestAnElectionIsSteeredInRealTimeToo(t *testing.T) {
	t.Parallel()
	e := started(t, leadertest.New(t, leader.ElectionConfig{InstanceID: "rival"}))
	e.Promote()
	demandLeads(t, e, true)
	e.Demote()
	demandLeads(t, e, false)
	if id := e.Group().Leader(); id != "rival-2" {
		t.Errorf("%q leads", id)
	}
}

func TestOutcomesOfWritesAreTheTests(t *testing.T) {
	for outcome, renewed := range map[store.Outcome]bool{
		store.Conflict: false, store.Transient: false, store.Permanent: false, store.Unknown: true,
	} {
		t.Run(outcome.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := started(t, leadertest.New(t, leader.ElectionConfig{}))
				e.Promote()
				term := e.Term()
				e.Store().SetWriteOutcome(outcome)
				_, err := e.Store().CompareAndSwap(t.Context(), store.Write{Key: "other"})
				if got := store.Classify(err); got != outcome {
					t.Errorf("a write ends %v (%v)", got, err)
				}
				time.Sleep(time.Minute)
				switch {
				case renewed && e.Term() != term:
					t.Errorf("%+v: renewals that are applied keep the term", e.Status())
				case !renewed && e.IsLeader():
					t.Errorf("%+v: it leads without a renewal", e.Status())
				}
				e.Store().SetWriteOutcome(store.OK)
				e.Promote()
			})
		})
	}
}

// Many times, since no callback is called for a promotion that is over before:
// Promote is to return after that.
func TestADeletedRecordCostsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said log
		e := leadertest.New(t, leader.ElectionConfig{})
		said.follow(e)
		started(t, e)
		for range 100 {
			e.Promote()
			e.Group().DeleteRecord()
			said.demand(t, "promoted", "lost: deleted", "demoted")
		}
	})
}

// A failing is a test that fails: it keeps the text, and its cleanup.
type failing struct {
	testing.TB
	mu      sync.Mutex
	said    []string
	cleanup []func()
}

func (f *failing) Cleanup(do func()) { f.cleanup = append(f.cleanup, do) }
func (f *failing) Helper()           {}

func (f *failing) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *failing) Fatalf(format string, args ...any) { f.Errorf(format, args...) }

// end runs the cleanup as a test does, the latest first.
func (f *failing) end() {
	for _, do := range slices.Backward(f.cleanup) {
		do()
	}
}

func (f *failing) demand(t *testing.T, part string) {
	t.Helper()
	if all := strings.Join(f.said, "\n"); !strings.Contains(all, part) {
		t.Errorf("the test failed with %q, want %q", all, part)
	}
}

func TestImpossibleEventFailsTheTest(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(testing.TB)
		want string
	}{
		"never started": {func(tb testing.TB) { leadertest.New(tb, leader.ElectionConfig{}).Promote() },
			"waited without success for self to lead (was it started?)"},
		"cut off": {func(tb testing.TB) {
			e := started(tb, leadertest.New(tb, leader.ElectionConfig{}))
			e.CutOff()
			e.Promote()
		}, "waited without success for self to lead"},
		"nobody": {func(tb testing.TB) { leadertest.NewGroup(tb, leader.ElectionConfig{}).Leader() },
			"waited without success for somebody to lead"},
		"configuration": {func(tb testing.TB) { leadertest.New(tb, leader.ElectionConfig{TTL: -1}) },
			"TTL"},
		"a callback that does not return": {func(tb testing.TB) {
			e := leadertest.New(tb, leader.ElectionConfig{})
			e.OnPromote(func(context.Context, string) { time.Sleep(time.Minute) })
			started(tb, e).Promote()
		}, "the end of self: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{TB: t}
				c.do(f)
				f.end()
				f.demand(t, c.want)
				time.Sleep(time.Minute)
			})
		})
	}
}

// Work registered later than a callback for terms must not keep that from being
// called: OnPromote may last as long as the term.
func TestCallbacksOfBothKindsAreCalledInTheOrderOfProduction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		register := func(e leader.Election) {
			e.OnTerm(func(context.Context, leader.Term) { l.add("term") })
			l.follow(e)
		}
		g := leadertest.NewGroup(t, leader.ElectionConfig{DeleteOnStop: true})
		production, err := leader.NewElectionWithStore(g.Store("production"), g.Config("production"))
		if err != nil {
			t.Fatal(err)
		}
		register(production)
		if err := production.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Leader()
		l.demand(t, "term", "promoted")
		if err := production.Stop(); err != nil {
			t.Fatal(err)
		}
		l.demand(t, "lost: stopped", "demoted")

		e := leadertest.New(t, leader.ElectionConfig{})
		register(e)
		started(t, e).Promote()
		l.demand(t, "term", "promoted")
		e.Demote()
		l.demand(t, "lost: stepped-down", "demoted")
	})
}
