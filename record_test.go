package leader_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
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

// stands checks that the leader, a follower, an observer and the record agree
// when the current term was acquired and when its record was written last.
func stands(t *testing.T, st *memstore.Store, acquired, renewed time.Time, leads, follows leader.Election) {
	t.Helper()
	synctest.Wait()
	said := map[string][2]time.Time{}
	for what, e := range map[string]leader.Election{"the leader": leads, "the follower": follows} {
		s := e.Status()
		said[what+"'s status"] = [2]time.Time{s.Acquired, s.Renewed}
		for info := range e.Observe(t.Context()) {
			said[what] = [2]time.Time{info.Acquired, info.Renewed}
			break
		}
	}
	infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
	if err != nil || len(infos) != 1 {
		t.Fatalf("%+v, %v", infos, err)
	}
	said["an observer"] = [2]time.Time{infos[0].Acquired, infos[0].Renewed}
	for what, got := range said {
		if !got[0].Equal(acquired.Truncate(time.Millisecond)) || !got[1].Equal(renewed.Truncate(time.Millisecond)) {
			t.Errorf("by %s acquired at %v and renewed at %v, want %v and %v", what, got[0], got[1], acquired, renewed)
		}
	}
	r := raw(t, st)
	if fmt.Sprint(r["acquired"]) != fmt.Sprint(acquired.UnixMilli()) || fmt.Sprint(r["renewed"]) != fmt.Sprint(renewed.UnixMilli()) {
		t.Errorf("the record contains %v and %v, want %d and %d", r["acquired"], r["renewed"], acquired.UnixMilli(), renewed.UnixMilli())
	}
}

func TestRecordShowsWhenItsTermWasAcquiredAndRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		stands(t, st, begun, begun, a, b)
		time.Sleep(10*heartbeat + heartbeat/2)
		stands(t, st, begun, begun.Add(10*heartbeat), a, b)
		// A new holder has its own time, and keeps it.
		handed := time.Now()
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		stands(t, st, handed, handed, b, a)
		time.Sleep(heartbeat + heartbeat/2)
		stands(t, st, handed, handed.Add(heartbeat), b, a)
		// A validation is a renewal before its time.
		if err := b.ValidateToken(t.Context()); err != nil {
			t.Fatal(err)
		}
		stands(t, st, handed, time.Now(), b, a)
		if err := b.Transfer(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		mustLead(t, a, b)
		stands(t, st, time.Now(), time.Now(), a, b)
	})
}

func TestVacancyShowsWhenItsTermBeganAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		demand := func(what string, info leader.LeaderInfo, ended time.Time) {
			t.Helper()
			if info.ID != "" || !info.Acquired.Equal(begun) || !info.Renewed.Equal(ended) {
				t.Errorf("%s: %+v, want %v to %v", what, info, begun, ended)
			}
		}
		snapshot := func() leader.LeaderInfo {
			t.Helper()
			infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
			if err != nil || len(infos) != 1 {
				t.Fatalf("%+v, %v", infos, err)
			}
			return infos[0]
		}
		a := start(t, st, config("a"))
		time.Sleep(3*heartbeat + heartbeat/2)
		halt(t, a)
		ended := time.Now()
		demand("stopped", snapshot(), ended)
		b := candidate(t, st, config("b"))
		for info := range b.Observe(t.Context()) {
			if !info.Acquired.IsZero() {
				t.Errorf("before it has seen anything: %+v", info)
			}
			break
		}
		time.Sleep(time.Hour)
		if _, err := control(t, st).Forget(t.Context(), "g", ""); err != nil {
			t.Fatal(err)
		}
		demand("forgotten", snapshot(), time.Now())
		// That of an operator over a holder that is gone.
		st.Put("g", fmt.Appendf(nil, `{"id":"gone","token":"t","ttl":1000,"term":7,"acquired":%d,"renewed":%d}`, begun.UnixMilli(), ended.UnixMilli()))
		info, err := control(t, st).Vacate(t.Context(), leader.VacateRequest{Group: "g"})
		if err != nil {
			t.Fatal(err)
		}
		demand("vacated", info, time.Now())
		demand("vacated, in the store", snapshot(), time.Now())
	})
}

func TestFormerLeaderKnowsWhenItsTermEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		a := start(t, st, config("a"))
		time.Sleep(heartbeat + heartbeat/2)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := a.Status(); s.IsLeader || !s.Acquired.Equal(begun) || !s.Renewed.Equal(time.Now()) {
			t.Errorf("%+v, at %v", s, time.Now())
		}
	})
}

// Whatever times a record contains, all candidates count its lease from its
// arrival, and none takes the record for malformed.
func TestWallClockTimesInTheRecordAreIgnored(t *testing.T) {
	absurd := []string{
		"0", "-1", "-9223372036854775808", "1", "140737488355328", "140737488355329", "9223372036854775807", "99999999999999999999999",
		"1.5", "1e3", "1e400", "null", "true", `"2026-11-25T04:00:00Z"`, `""`, `{"of":1}`, "[1]",
	}
	for _, value := range append(absurd, "") {
		for _, field := range []string{"acquired", "renewed"} {
			synctest.Test(t, func(t *testing.T) {
				st, more := memstore.New(), ""
				if value != "" {
					more = fmt.Sprintf(`,%q:%s`, field, value)
				}
				st.Put("g", []byte(`{"id":"a","token":"t","ttl":3000,"term":7,"transitions":2`+more+`}`))
				begun := time.Now()
				b := start(t, st, config("b"))
				infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
				if err != nil || infos[0].ID != "a" || !infos[0].Until.Equal(begun.Add(wait)) || infos[0].Transitions != 2 {
					t.Errorf("%s: %+v, %v", more, infos, err)
				}
				if s := b.Status(); s.LeaderID != "a" || s.State != leader.StateFollower {
					t.Errorf("%s: %+v", more, s)
				}
				ended, operator := make(chan time.Duration, 1), control(t, st)
				go func() {
					_, _ = operator.Vacate(t.Context(), leader.VacateRequest{Group: "g"})
					ended <- time.Since(begun)
				}()
				time.Sleep(wait - 1)
				mustNotLead(t, b)
				time.Sleep(1 + contention)
				mustLead(t, b)
				if took := <-ended; took < wait {
					t.Errorf("%s: vacated after %v", more, took)
				}
				time.Sleep(10 * heartbeat)
				mustLead(t, b)
			})
		}
	}
}

// A record contains the time of its writer's wall clock, however wrong that is.
// It costs the group nothing.
func TestCandidateWhoseClockIsYearsOffIsElectedAndSucceeded(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, off := range []time.Duration{-20 * year, -100 * year, 100 * year, 0} {
		synctest.Test(t, func(t *testing.T) {
			st, begun := memstore.New(), time.Now()
			m := leader.NewMachine(1_000_000)
			m.Leap(off)
			a := candidate(t, st, config("a"))
			leader.SetMachine(a, m)
			started(t, a)
			b := start(t, st, config("b"))
			time.Sleep(5*heartbeat + heartbeat/2)
			mustLead(t, a, b)
			acquired, renewed := begun.Add(off), begun.Add(off+5*heartbeat)
			if off == -100*year {
				acquired, renewed = time.Time{}, time.Time{} // there is no number for it
			}
			for what, s := range map[string]leader.ElectionStatus{"a": a.Status(), "b": b.Status()} {
				if !s.Acquired.Equal(acquired) || !s.Renewed.Equal(renewed) {
					t.Errorf("off by %v, %s: acquired at %v, renewed at %v", off, what, s.Acquired, s.Renewed)
				}
			}
			if err := a.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil {
				t.Fatal(err)
			}
			heard := time.Now().Add(-heartbeat / 2)
			time.Sleep(time.Until(heard.Add(wait)) - 1)
			mustNotLead(t, b)
			time.Sleep(1 + contention)
			mustLead(t, b)
		})
	}
}

// A lossyStore loses a write, and reports that it may have been applied.
type lossyStore struct {
	*memstore.Store

	mu    sync.Mutex
	lossy bool
	sent  []store.Write
}

// lose has the store lose the next write, and returns what was sent since the
// last call.
func (s *lossyStore) lose() (sent []store.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent = s.sent
	s.lossy, s.sent = true, nil
	return sent
}

func (s *lossyStore) loses(w store.Write) (loses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, w)
	loses, s.lossy = s.lossy, false
	return loses
}

func (s *lossyStore) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if s.loses(w) {
		return 0, store.ErrUnknown
	}
	return s.Store.CompareAndSwap(ctx, w)
}

// Rule 4: all attempts are the same, so whichever is applied, the record
// contains one time.
func TestAttemptsThatMayHaveBeenAppliedHaveOneContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &lossyStore{Store: memstore.New()}
		a := start(t, st, config("a"))
		time.Sleep(heartbeat / 2)
		st.lose()
		for range 5 {
			time.Sleep(heartbeat)
			if sent := st.lose(); len(sent) < 2 || !bytes.Equal(sent[0].Value, sent[1].Value) {
				for _, w := range sent {
					t.Errorf("%s", w.Value)
				}
			}
		}
		mustLead(t, a)
	})
}

// counted checks that the leader, a follower, an observer and the record agree
// how often the group got another leader.
func counted(t *testing.T, st *memstore.Store, want uint64, leads, follows leader.Election) {
	t.Helper()
	time.Sleep(heartbeat)
	mustLead(t, leads)
	infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
	if err != nil || len(infos) != 1 || infos[0].Transitions != want {
		t.Errorf("an observer sees %+v, %v; want %d transitions", infos, err, want)
	}
	for what, got := range map[string]uint64{
		"the leader": leads.Status().Transitions, "the follower": follows.Status().Transitions,
	} {
		if got != want {
			t.Errorf("%s has %d transitions, want %d", what, got, want)
		}
	}
	if n := raw(t, st)["transitions"]; want > 0 && fmt.Sprint(n) != fmt.Sprint(want) {
		t.Errorf("the record has %v transitions, want %d", n, want)
	}
}

func TestTransitionsAreCountedFromTermToTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		time.Sleep(heartbeat)
		b := start(t, st, config("b"))
		counted(t, st, 0, a, b)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		counted(t, st, 1, b, a)
		time.Sleep(10 * heartbeat) // renewals contain the same
		counted(t, st, 1, b, a)
		if _, err := control(t, st).StepDown(t.Context(), "g", "maintenance"); err != nil {
			t.Fatal(err)
		}
		counted(t, st, 2, a, b)
		// A deletion that the candidates see does not make them forget.
		st.Delete("g")
		time.Sleep(3 * ttl)
		next, other := a, b
		if b.IsLeader() {
			next, other = b, a
		}
		counted(t, st, 3, next, other)
		// A record of a program that does not count restarts the count.
		if err := next.Stop(); err != nil {
			t.Fatal(err)
		}
		st.Put("g", []byte(`{"id":"old","token":"t","ttl":1000,"term":7}`))
		time.Sleep(10 * ttl)
		if !other.IsLeader() || other.Status().Transitions != 1 {
			t.Errorf("%+v after a record without a count", other.Status())
		}
	})
}

func TestVacancyKeepsTheCountOfTransitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("g", []byte(`{"id":"gone","token":"t","ttl":1000,"term":7,"transitions":41}`))
		info, err := control(t, st).Vacate(t.Context(), leader.VacateRequest{Group: "g", By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		if info.Transitions != 41 {
			t.Errorf("%+v", info)
		}
		a := start(t, st, config("a"))
		time.Sleep(heartbeat)
		if s := a.Status(); !s.IsLeader || s.Transitions != 42 {
			t.Errorf("%+v", s)
		}
		if err := a.StopWithContext(t.Context(), leader.StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
			t.Fatal(err)
		}
		if infos, err := leader.SnapshotWithStore(t.Context(), st, "g"); err != nil || infos[0].ID != "" || infos[0].Transitions != 42 {
			t.Errorf("%+v, %v", infos, err)
		}
	})
}

// A leader of an earlier version may write no vacancy, and its successor's
// record contains it. It is reported like a written one.
func TestUnwrittenVacancyKeepsTheCountOfTransitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		holder := func(id string, transitions int, prior map[string]any) map[string]any {
			return map[string]any{"id": id, "token": id, "ttl": ttl.Milliseconds(), "transitions": transitions, "prior": prior}
		}
		put(t, st, "g", holder("a", 1, nil))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan leader.LeaderInfo, 100)
		go func() {
			for info, err := range leader.ObserveWithStore(ctx, st, "g") {
				if err != nil {
					t.Error(err)
				}
				told <- info
			}
		}()
		synctest.Wait()
		put(t, st, "g", holder("b", 2, map[string]any{"term": 1, "reason": "resigned"}))
		synctest.Wait()
		for _, want := range []leader.LeaderInfo{{ID: "a", Transitions: 1}, {Reason: leader.ReasonResigned, Transitions: 1}, {ID: "b", Transitions: 2}} {
			if got := <-told; got.ID != want.ID || got.Reason != want.Reason || got.Transitions != want.Transitions {
				t.Errorf("%+v with %d transitions, want %+v", got, got.Transitions, want.Transitions)
			}
		}
	})
}

// History must not cost the group a wait.
func TestInvalidCountOfTransitionsIsLeftOut(t *testing.T) {
	for _, count := range []string{"18014398509481984", "-1", "1.5", "1e3", `"many"`, "null", "[1]", "99999999999999999999999"} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			st.Put("g", []byte(`{"id":"a","token":"t","ttl":1000,"term":7,"transitions":`+count+`}`))
			infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
			if err != nil || infos[0].ID != "a" || infos[0].Transitions != 0 {
				t.Errorf("%s: %+v, %v", count, infos, err)
			}
		})
	}
}

// silent is a store that warns of nothing itself.
func silent() *memstore.Store { return memstore.NewWithOptions(memstore.Options{FirstRevision: 1000}) }

// warnings collects the warnings of candidates that are made with it.
type warnings struct {
	mu   sync.Mutex
	said map[string][]string // by candidate
}

// of has the candidate's warnings collected under a name.
func (w *warnings) of(name string, cfg leader.ElectionConfig) leader.ElectionConfig {
	cfg.Hooks.Note = func(n leader.Note) {
		if n.Kind == leader.NoteWarning {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.said == nil {
				w.said = map[string][]string{}
			}
			w.said[name] = append(w.said[name], n.Text)
		}
	}
	return cfg
}

// once demands that the candidate has warned once, in such words, and of
// nothing else.
func (w *warnings) once(t *testing.T, name string, words ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said[name]
	if len(said) != 1 {
		t.Fatalf("%s warned %d times: %q", name, len(said), said)
	}
	for _, word := range words {
		if !strings.Contains(said[0], word) {
			t.Errorf("%q does not contain %q", said[0], word)
		}
	}
}

func (w *warnings) never(t *testing.T, names ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if said := w.said[name]; len(said) > 0 {
			t.Errorf("%s warned of %q", name, said)
		}
	}
}

// A group's candidates must agree on these. Each warns of a leader that does
// not, once and not with every renewal.
func TestDifferentTTLOrDriftIsWarnedOfOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*leader.ElectionConfig)
		words  []string
		alike  bool
	}{
		"TTL":        {func(c *leader.ElectionConfig) { c.TTL = 2 * ttl }, []string{"TTL", "3s", "6s"}, false},
		"ClockDrift": {func(c *leader.ElectionConfig) { c.ClockDrift = 0.2 }, []string{"ClockDrift", "0.1", "0.2"}, false},
		"AsDefault":  {func(c *leader.ElectionConfig) { c.ClockDrift = leader.DefaultClockDrift }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w warnings
				other := config("b")
				c.change(&other)
				st := silent()
				a, b := start(t, st, w.of("a", config("a"))), start(t, st, w.of("b", other))
				time.Sleep(10 * ttl)
				mustLead(t, a, b)
				if c.alike {
					w.never(t, "a", "b")
					return
				}
				w.once(t, "b", append(c.words, `"a"`)...)
				w.never(t, "a")
				if err := a.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustLead(t, b, a)
				time.Sleep(10 * ttl)
				w.once(t, "a", append(c.words, `"b"`)...)
				w.once(t, "b")
			})
		})
	}
}

// Earlier versions wrote no drift. A missing drift is not a different drift.
func TestRecordWithoutADriftIsNotWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		st := silent()
		put(t, st, "g", record.Record{ID: "old", Token: "t", TTL: ttl.Milliseconds()})
		a := start(t, st, w.of("a", config("a")))
		time.Sleep(2 * ttl)
		mustLead(t, a)
		if _, r := stored(t, st); r.Drift != leader.DefaultClockDrift {
			t.Errorf("drift %v", r.Drift)
		}
		w.never(t, "a")
	})
}

func TestTwoCandidatesOfOneNameAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		st := silent()
		first, second := start(t, st, w.of("first", config("a"))), start(t, st, w.of("second", config("a")))
		time.Sleep(10 * ttl)
		mustLead(t, first, second)
		w.once(t, "second", `"a"`, "InstanceID")
		// The one that has led so far hears of it when it is succeeded.
		w.never(t, "first")
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, second, first)
		w.once(t, "first", `"a"`, "InstanceID")
	})
}

func TestLeaderDeposedUnderItsOwnNameWarns(t *testing.T) {
	for _, by := range []string{"a", "b"} {
		t.Run("By"+by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w warnings
				st := silent()
				a := start(t, st, w.of("a", config("a")))
				mustLead(t, a)
				put(t, st, "g", record.Record{ID: by, Token: "t", TTL: ttl.Milliseconds()})
				synctest.Wait()
				mustNotLead(t, a)
				if by == "a" {
					w.once(t, "a", "InstanceID")
				} else {
					w.never(t, "a")
				}
			})
		})
	}
}

// A copy of the whole machine has the token, too.
func TestLeaderDeposedByItsOwnTokenWarnsOfACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		st := silent()
		a := start(t, st, w.of("a", config("a")))
		time.Sleep(2*ttl + heartbeat/2)
		mustLead(t, a)
		_, r := stored(t, st)
		r.Renewal++
		term := a.Term()
		put(t, st, "g", r)
		synctest.Wait()
		if a.Term() == term {
			t.Error("the term goes on")
		}
		w.once(t, "a", "cloned", "snapshot")
	})
}

// A record under its own name that a candidate finds after a restart is its
// predecessor's.
func TestPredecessorOfTheSameNameIsNotReportedAsATwin(t *testing.T) {
	renewal := func(n uint64) record.Record {
		return record.Record{ID: "a", Token: "t", TTL: 2 * ttl.Milliseconds(), Renewal: n, Drift: 0.3}
	}
	t.Run("Crashed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var w warnings
			st := silent()
			put(t, st, "g", renewal(5))
			a := start(t, st, w.of("a", config("a")))
			time.Sleep(3 * ttl)
			mustLead(t, a)
			w.never(t, "a")
		})
	})
	t.Run("HeardOfLate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var w warnings
			st := silent()
			put(t, st, "g", renewal(5))
			a := start(t, st, w.of("a", config("a")))
			for n := uint64(6); n < 10; n++ { // a replica catches up
				time.Sleep(ttl / 2)
				put(t, st, "g", renewal(n))
			}
			time.Sleep(ttl) // later than a lease after the first: the write that was under way when it died
			put(t, st, "g", renewal(10))
			time.Sleep(3 * ttl)
			mustLead(t, a)
			w.never(t, "a")
		})
	})
	t.Run("StoppedInThisProcess", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var w warnings
			st := silent()
			for range 3 {
				a := start(t, st, w.of("a", config("a")))
				time.Sleep(3 * ttl)
				mustLead(t, a)
				if err := a.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil {
					t.Fatal(err)
				}
			}
			w.never(t, "a")
		})
	})
}

// The names of others are without end. The memory of them is bounded.
func TestWarningsOfAFloodOfNamesAreBoundedInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		st := silent()
		start(t, st, w.of("a", config("a")))
		for n := range 100 {
			put(t, st, "g", record.Record{ID: strings.Repeat("x", 250+n), Token: "t", TTL: 1})
			synctest.Wait()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.said["a"]); n != 7 { // names have at most 256 bytes: longer ones are nobody's
			t.Errorf("%d warnings", n)
		}
	})
}

// A copy of this machine has all of its memory. Its writes have to differ all
// the same.
func TestWritesCarryDifferentNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		seen := map[string]bool{}
		const writes = 20
		for range writes {
			mustLead(t, a)
			seen[fmt.Sprint(raw(t, st)["nonce"])] = true
			time.Sleep(heartbeat)
		}
		if len(seen) < writes-1 || seen["<nil>"] {
			t.Errorf("%d writes with %d nonces: %v", writes, len(seen), seen)
		}
	})
}

// After an operator's delete the leader steps down at once, another takes over
// within a lease, and the deposed one lets it.
func TestDeletedKeyDeposesTheLeaderAndAnotherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		for range 5 {
			mustLead(t, a, b)
			first := a.Term()
			st.Delete("g")
			mustNotLead(t, a) // as soon as it hears of it
			time.Sleep(ttl)
			mustLead(t, b, a)
			if !b.Term().Supersedes(first) {
				t.Errorf("%v after %v", b.Term(), first)
			}
			a, b = b, a
		}
	})
}

// Even a leader that hears nothing of the deletion is deposed: its next renewal
// is refused.
func TestDeletedKeyDeposesALeaderThatIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Lose: c.Op == faultstore.Event && c.Client == "a"}
		})
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		mustLead(t, a, b)
		f.Delete("g")
		time.Sleep(heartbeat)
		mustNotLead(t, a)
		time.Sleep(wait)
		mustLead(t, b, a)
	})
}

func TestRecordShowsTheVersionOfItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.Version = "2.1.0"
		a := start(t, st, cfg)
		mustLead(t, a)
		if _, r := stored(t, st); r.Version != "2.1.0" {
			t.Errorf("%+v", r)
		}
		b := start(t, st, config("b"))
		for info := range b.Observe(t.Context()) {
			if info.Version != "2.1.0" || info.Correlation != a.Term().Correlation() || info.Correlation == "" {
				t.Errorf("%+v", info)
			}
			break
		}
	})
}

// A write that replaces the record of a leader whose trust window is open ends
// the term, whatever it holds, and nothing else.
func TestForeignWriteOverALeadersRecordCostsTheTermOnly(t *testing.T) {
	put := func(value string) func(*memstore.Store) {
		return func(st *memstore.Store) { st.Put("g", []byte(value)) }
	}
	for name, c := range map[string]struct {
		do     func(*memstore.Store)
		reason leader.Reason
	}{
		"garbage":            {put("garbage\x00\xff"), leader.ReasonOverwritten},
		"a large value":      {put(strings.Repeat("x", 512<<10)), leader.ReasonOverwritten},
		"a large record":     {put(`{"id":"x","token":"` + strings.Repeat("y", 64<<10) + `"}`), leader.ReasonOverwritten},
		"nothing":            {put(""), leader.ReasonOverwritten},
		"an empty object":    {put("{}"), leader.ReasonOverwritten},
		"null":               {put("null"), leader.ReasonOverwritten},
		"an array":           {put(`[{"id":"x"}]`), leader.ReasonOverwritten},
		"deep objects":       {put(strings.Repeat(`{"a":`, 3000)), leader.ReasonOverwritten},
		"deep arrays":        {put(`{"meta":` + strings.Repeat("[", 15000) + `}`), leader.ReasonOverwritten},
		"wrong types":        {put(`{"id":7,"token":true,"ttl":"long"}`), leader.ReasonOverwritten},
		"a negative TTL":     {put(`{"id":"x","token":"y","ttl":-5}`), leader.ReasonOverwritten},
		"a huge number":      {put(`{"id":"x","token":"y","ttl":1e400}`), leader.ReasonOverwritten},
		"a huge term":        {put(`{"id":"x","token":"y","ttl":1000,"term":18446744073709551615}`), leader.ReasonOverwritten},
		"a vacancy, no mark": {put(`{"reason":"operator","by":"operator"}`), leader.ReasonOverwritten},
		"another claim":      {put(`{"id":"x","token":"y","ttl":500}`), leader.ReasonSuperseded},
		"a deletion":         {func(st *memstore.Store) { st.Delete("g") }, leader.ReasonDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, cfg := memstore.New(), config("a")
				var lost leader.Reason
				cfg.Hooks.Transition = func(tr leader.Transition) {
					if tr.Event == leader.EventDemoted {
						lost = tr.Reason
					}
				}
				a, b := start(t, st, cfg), start(t, st, config("b"))
				mustLead(t, a, b)
				first := a.Term()
				c.do(st)
				synctest.Wait()
				if lost != c.reason || a.Term() == first {
					t.Errorf("the term ended as %q, want %q: %s", lost, c.reason, status(a))
				}
				time.Sleep(2 * wait)
				if a.IsLeader() == b.IsLeader() {
					t.Fatalf("%s; %s", status(a), status(b))
				}
				// Both still take part.
				from, to := a, b
				if b.IsLeader() {
					from, to = b, a
				}
				if err := from.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustLead(t, to, from)
			})
		})
	}
}

// A foreign record does not contain its lease's length: the store's age bounds
// it, then the setting, then a guess with a warning.
func TestForeignRecordBlocksForTheLeaseThatItMayHave(t *testing.T) {
	const hour = leader.MaxTTL
	for name, c := range map[string]struct {
		value           string
		foreign, maxAge time.Duration
		lease           time.Duration
		warned          bool
	}{
		"garbage":                           {"garbage", 0, 0, ttl, true},
		"a plain name":                      {"host-7", 0, 0, ttl, true},
		"a record without a lease":          {`{"id":"x","token":"t"}`, 0, 0, ttl, true},
		"garbage, set":                      {"garbage", 4 * ttl, 0, 4 * ttl, false},
		"a record without a lease, set":     {`{"id":"x","token":"t"}`, hour, 0, hour, false},
		"garbage, MaxAge":                   {"garbage", 0, 2 * ttl, 2 * ttl, false},
		"garbage, a MaxAge of a day":        {"garbage", 0, 24 * hour, hour, false},
		"a record without a lease, both":    {`{"id":"x"}`, 2 * ttl, 4 * ttl, 2 * ttl, false},
		"a plain name, the set is longer":   {"host-7", 4 * ttl, 2 * ttl, 2 * ttl, false},
		"an empty object":                   {"{}", 0, 0, ttl, true},
		"a vacancy without its mark":        {`{"reason":"cleared","by":"operator"}`, 0, 0, ttl, true},
		"a lease beyond all numbers":        {`{"id":"x","token":"y","ttl":1e30}`, 0, 0, ttl, true},
		"a record with the longest lease":   {`{"id":"x","ttl":9007199254740992}`, 0, 0, hour, false},
		"a record with a lease of its own":  {`{"id":"x","ttl":7000}`, hour, 0, 7 * time.Second, false},
		"a record with a lease, and MaxAge": {`{"id":"x","ttl":7000}`, 0, 2 * ttl, 7 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				mem.Put("g", []byte(c.value))
				st := &checked{Store: mem, report: store.Report{MaxAge: c.maxAge}}
				cfg, j := config("a"), newJournal()
				cfg.ForeignTTL = c.foreign
				cfg.Hooks.Note = func(n leader.Note) { j.note("%s %s", n.Kind, n.Text) }
				a := start(t, st, cfg)
				time.Sleep(c.lease*11/10 - 1)
				mustNotLead(t, a)
				time.Sleep(1 + jitter)
				mustLead(t, a)
				if warned := strings.Contains(strings.Join(j.all(), " "), "Set ForeignTTL"); warned != c.warned {
					t.Errorf("warned %v, want %v: %q", warned, c.warned, j.all())
				}
			})
		})
	}
}

// It is named as the leader for as long.
func TestForeignHolderIsTheLeaderUntilItsLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("g", []byte(`{"id":"x","token":"t"}`))
		cfg := config("a")
		cfg.ForeignTTL = 2 * ttl
		a := start(t, st, cfg)
		time.Sleep(2*wait - 1)
		if id := a.LeaderID(); id != "x" {
			t.Errorf("%q leads according to a", id)
		}
		time.Sleep(1 + jitter)
		mustLead(t, a)
	})
}

// When another program's holder has left, a candidate that watched it waits no
// longer than one that starts then, and knows nothing of it.
func TestForeignHolderThatLeftDelaysOldAndNewCandidatesAlike(t *testing.T) {
	for _, value := range []string{"host-7", `{"id":"x","token":"t"}`} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			st.Put("g", []byte(value))
			cfg := config("a")
			cfg.ForeignTTL = leader.MaxTTL
			a := start(t, st, cfg)
			time.Sleep(wait)
			st.Delete("g")
			time.Sleep(wait - 1)
			mustNotLead(t, a)
			time.Sleep(1 + jitter)
			mustLead(t, a)
		})
	}
}

func TestBareDeletionDoesNotLetOthersLeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		f.BlackHole("a") // it hears nothing of the deletion
		f.Delete("g")
		time.Sleep(wait - 1)
		mustNotLead(t, b)
		time.Sleep(1 + jitter)
		mustLead(t, b, a)
	})
}

// raw returns the record as people's tools show it.
func raw(t *testing.T, st store.Store) map[string]any {
	t.Helper()
	e, err := st.Get(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(e.Value))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		t.Fatalf("%s: %v", e.Value, err)
	}
	return fields
}

func TestRecordHasTheSpecifiedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("instance-1234")
		cfg.Priority, cfg.Meta = 10, map[string]string{"hostname": "node-01", "region": "eu-west-1"}
		a := start(t, st, cfg)
		mustLead(t, a)
		r := raw(t, st)
		if r["id"] != "instance-1234" || fmt.Sprint(r["priority"]) != "10" || fmt.Sprint(r["meta"]) != "map[hostname:node-01 region:eu-west-1]" {
			t.Errorf("%v", r)
		}
		if token := fmt.Sprint(r["token"]); !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(token) || token != a.Token() {
			t.Errorf("the token is %q, and the leader's %q", token, a.Token())
		}
	})
}

// A time of day would be compared with another machine's sooner or later, if it
// were not for people alone: TestWallClockTimesInTheRecordAreIgnored.
func TestRecordHoldsNoTimeOfDayButTwoForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.Priority = 3
		a := start(t, st, cfg)
		time.Sleep(10*heartbeat + 1)
		mustLead(t, a)
		years := time.Now().Unix() / 2 // any unit of time since any usual origin is more
		random, people := []string{"nonce"}, []string{"acquired", "renewed"}
		for name, value := range raw(t, st) {
			if n, ok := value.(json.Number); ok && !slices.Contains(random, name) && !slices.Contains(people, name) {
				if v, err := n.Float64(); err != nil || v > float64(years) {
					t.Errorf("%s is %v", name, value)
				}
			}
			if s, ok := value.(string); ok && strings.Count(s, ":") > 1 {
				t.Errorf("%s is %q", name, s)
			}
		}
		known := []string{"id", "token", "ttl", "drift", "term", "renewal", "priority", "standings", "transitions"}
		known = slices.Concat(known, random, people)
		for _, name := range slices.Sorted(maps.Keys(raw(t, st))) {
			if !slices.Contains(known, name) {
				t.Errorf("the field %s is new: is it a time of day?", name)
			}
		}
	})
}

// No store of the contract can write without an expected revision.
func TestStoreContractHasNoUnconditionalWrite(t *testing.T) {
	var methods []string
	for m := range reflect.TypeFor[store.Store]().Methods() {
		methods = append(methods, m.Name)
	}
	if !slices.Equal(methods, []string{"CompareAndSwap", "Get"}) {
		t.Errorf("methods %v", methods)
	}
	if _, ok := reflect.TypeFor[store.Write]().FieldByName("Expected"); !ok {
		t.Error("a write expects nothing")
	}
}
