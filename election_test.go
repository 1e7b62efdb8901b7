package leader_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The settings of all tests that say nothing else, and what follows from them.
const (
	ttl       = 3 * time.Second
	heartbeat = time.Second
	trust     = ttl * 9 / 10  // TTL × (1 − ClockDrift)
	wait      = ttl * 11 / 10 // TTL × (1 + ClockDrift)
	jitter    = 10 * time.Millisecond
)

func config(id string) leader.ElectionConfig {
	return leader.ElectionConfig{
		Group: "g", InstanceID: id, TTL: ttl, HeartbeatInterval: heartbeat, DeleteOnStop: true,
	}
}

// candidate returns a candidate that was not started. It is stopped when the
// test ends.
func candidate(t *testing.T, st store.Store, cfg leader.ElectionConfig) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e
}

func start(t *testing.T, st store.Store, cfg leader.ElectionConfig) leader.Election {
	t.Helper()
	return started(t, candidate(t, st, cfg))
}

func started(t *testing.T, e leader.Election) leader.Election {
	t.Helper()
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // for its first claim: who is started first, leads first
	return e
}

// network returns registers behind a network that is perfect until told
// otherwise.
func network(t *testing.T, policy faultstore.Policy) *faultstore.Faults {
	t.Helper()
	f := faultstore.New(faultstore.Options{Policy: policy})
	t.Cleanup(f.Close)
	return f
}

// startWindow is how long candidates that were started together wait at most at
// their first vacancy (docs/protocol.md, The herd).
const startWindow = 100 * time.Millisecond

// mustLead waits until nothing moves any more and demands that e and nobody
// else leads.
func mustLead(t *testing.T, e leader.Election, others ...leader.Election) {
	t.Helper()
	synctest.Wait()
	if !e.IsLeader() {
		time.Sleep(startWindow)
		synctest.Wait()
	}
	if !e.IsLeader() {
		t.Fatalf("does not lead: %v", status(e))
	}
	mustNotLead(t, others...)
}

func mustNotLead(t *testing.T, es ...leader.Election) {
	t.Helper()
	synctest.Wait()
	for _, e := range es {
		if e.IsLeader() {
			t.Fatalf("leads: %v", status(e))
		}
	}
}

func mustBe(t *testing.T, e leader.Election, state string) {
	t.Helper()
	synctest.Wait()
	if s := e.Status(); s.State != state {
		t.Fatalf("state %s, want %s: %v", s.State, state, status(e))
	}
}

func status(e leader.Election) string {
	s := e.Status()
	return fmt.Sprintf("%s (%s) since %v, leader %q, term %d, %s", s.State, s.Reason, s.LastTransition.Format("05.000"), s.LeaderID, s.Term, s.ConnectionStatus)
}

func halt(t *testing.T, es ...leader.Election) {
	t.Helper()
	for _, e := range es {
		if err := e.Stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
	}
}

// A journal writes down what happens, with the virtual time since it was made.
type journal struct {
	begun time.Time
	mu    sync.Mutex
	lines []string
}

func newJournal() *journal { return &journal{begun: time.Now()} }

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// noteAt is note with the time in front.
func (j *journal) noteAt(format string, args ...any) {
	j.note("%v "+format, append([]any{time.Since(j.begun).Round(time.Millisecond)}, args...)...)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) count(line string) (n int) {
	for _, l := range j.all() {
		if l == line {
			n++
		}
	}
	return n
}

func (j *journal) demand(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := j.all(); !slices.Equal(got, want) {
		t.Fatalf("happened:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// stored reads the group's record.
func stored(t *testing.T, st store.Store) (e store.Entry, r record.Record) {
	t.Helper()
	e, err := st.Get(context.WithoutCancel(t.Context()), "g")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Value) > 0 {
		if err := json.Unmarshal(e.Value, &r); err != nil {
			t.Fatalf("%s: %v", e.Value, err)
		}
	}
	return e, r
}

// put writes a value with the compare-and-swap that everybody has to use.
func put(t *testing.T, st store.Store, key string, value any) {
	t.Helper()
	e, err := st.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.CompareAndSwap(t.Context(), store.Write{Key: key, Expected: e.Revision, Value: b}); err != nil {
		t.Fatal(err)
	}
}

func TestFirstCandidateLeadsAndStopHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		b := start(t, st, config("b"))
		time.Sleep(10 * time.Second)
		mustLead(t, a, b)
		if b.LeaderID() != "a" {
			t.Fatal(status(b))
		}
		halt(t, a)
		mustLead(t, b, a)
		if b.LeaderID() != "b" {
			t.Fatal(status(b))
		}
	})
}

func TestSilentLeaderIsReplacedAfterItsLeaseAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a := start(t, f.Client("a"), config("a"))
		mustLead(t, a)
		b := start(t, f.Client("b"), config("b"))
		synctest.Wait()
		f.BlackHole("a")
		time.Sleep(trust - 1)
		mustLead(t, a, b)
		time.Sleep(time.Nanosecond)
		mustNotLead(t, a, b)
		time.Sleep(wait - trust - 1)
		mustNotLead(t, a, b)
		time.Sleep(1 + jitter)
		mustLead(t, b, a)
		f.Heal("a")
		mustBe(t, a, leader.StateFollower)
		mustLead(t, b, a)
	})
}

// The process before it cannot be told from one that hangs, and leads for as
// long as it may.
func TestCandidateThatRestartsUnderItsNameWaitsForItsOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		old := start(t, f.Client("old"), config("a"))
		mustLead(t, old)
		first := old.Term()
		f.BlackHole("old")
		again := start(t, f.Client("new"), config("a"))
		time.Sleep(wait - 1)
		mustNotLead(t, again)
		time.Sleep(1 + startWindow)
		mustLead(t, again, old)
		if term := again.Term(); term.Number <= first.Number || term.Token == first.Token {
			t.Errorf("%v after %v", term, first)
		}
	})
}

func TestLeaderKeepsItsTermForAsLongAsItRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		term := a.Term()
		time.Sleep(24 * time.Hour)
		mustLead(t, a)
		if a.Term() != term {
			t.Fatalf("%v, want %v", a.Term(), term)
		}
		if _, r := stored(t, st); r.Renewal < 86_000 || r.Renewal > 86_400 || r.Term != term.Number {
			t.Fatalf("a day of heartbeats each second: %+v", r)
		}
	})
}

func TestTermsOfAGroupOnlyGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		var last leader.Term
		for i := range 10 {
			e := start(t, st, config(fmt.Sprint("candidate-", i)))
			mustLead(t, e)
			if term := e.Term(); !term.Supersedes(last) || term.Number <= last.Number {
				t.Fatalf("%v after %v", term, last)
			}
			last = e.Term()
			if i%2 == 0 {
				st.Delete("g")
				mustNotLead(t, e)
			}
			halt(t, e)
		}
	})
}

func TestElectionsOfTwoGroupsDoNotMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, cfg := start(t, st, config("a")), config("b")
		cfg.Group = "other"
		b := start(t, st, cfg)
		mustLead(t, a)
		mustLead(t, b)
	})
}

// The configuration is a value: what the caller does to its map later is no
// part of it.
func TestMetaIsTakenOverWhenTheElectionIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.Meta, cfg.ConnectionParams = map[string]string{"zone": "eu"}, []byte("x")
		a := candidate(t, st, cfg)
		cfg.Meta["zone"], cfg.ConnectionParams[0] = "us", 'y'
		started(t, a)
		synctest.Wait()
		if _, r := stored(t, st); r.Meta["zone"] != "eu" || r.Params == nil || string(*r.Params) != "x" {
			t.Fatalf("%v %v", r.Meta, r.Params)
		}
	})
}
