package leader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// An observer's news of a leader that is gone contains when it was heard last.
func TestObserverGetsTheLastRenewalOfALeaderThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		a := start(t, st, config("a"))
		told := make(chan leader.LeaderInfo, 100)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for info, err := range leader.ObserveWithStore(ctx, st, "g") {
				if err != nil {
					t.Error(err)
				}
				told <- info
			}
		}()
		time.Sleep(heartbeat + heartbeat/2)
		left := time.Now()
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b := start(t, st, config("b"))
		mustLead(t, b, a)
		next := time.Now()
		if err := b.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil { // its record is left to expire
			t.Fatal(err)
		}
		halt(t, a)
		time.Sleep(wait)
		synctest.Wait()
		cancel()
		for _, want := range []struct {
			id                string
			reason            leader.Reason
			acquired, renewed time.Time
		}{
			{"a", "", begun, begun},
			{"", leader.ReasonResigned, begun, left}, // when it wrote the vacancy
			{"b", "", next, next},
			{"", leader.ReasonExpired, next, next},
		} {
			if got := <-told; got.ID != want.id || got.Reason != want.reason || !got.Acquired.Equal(want.acquired) || !got.Renewed.Equal(want.renewed) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
}

// observe notes what a sequence yields, until its context ends.
func observe(ctx context.Context, e leader.Election, j *journal) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for l := range e.Observe(ctx) {
			if l.Reason != leader.ReasonStarted { // it lasts for no time, and may be skipped
				j.note("%q %s", l.ID, l.Reason)
			}
		}
	}()
	return done
}

func TestObserversSeeTheCurrentStateAndThenEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		b := candidate(t, st, config("b"))
		done := observe(t.Context(), b, j)
		j.demand(t, `"" `)
		a := start(t, st, config("a"))
		started(t, b)
		time.Sleep(10 * heartbeat) // renewals do not change it
		j.demand(t, `"" `, `"a" `)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		if got := j.all(); got[len(got)-1] != `"b" ` {
			t.Errorf("%q", got)
		}
		halt(t, a, b)
		<-done
		if got := j.all(); got[len(got)-1] != `"" stopped` {
			t.Errorf("the last: %q", got)
		}
	})
}

func TestSlowObserverSkipsStatesAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var n atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range a.Observe(ctx) {
				n.Add(1)
				time.Sleep(time.Hour)
			}
		}()
		for range 20 {
			_ = a.Resign(t.Context())
			time.Sleep(2 * wait)
			mustLead(t, a)
		}
		if n.Load() != 1 {
			t.Errorf("read %d states", n.Load())
		}
		cancel()
		<-done
		if n.Load() > 2 {
			t.Errorf("read %d states", n.Load())
		}
	})
}

func TestObserverEndsWithItsContextAndByBreaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, j := start(t, memstore.New(), config("a")), newJournal()
		ctx, cancel := context.WithCancel(t.Context())
		done := observe(ctx, a, j)
		synctest.Wait()
		cancel()
		<-done
		for range a.Observe(t.Context()) {
			break
		}
		halt(t, a)
		done = observe(t.Context(), a, j) // of one that stopped: its last state
		<-done
		j.demand(t, `"a" `, `"" stopped`)
	})
}

// watchGroup notes what an observer without an election sees.
func watchGroup(ctx context.Context, st store.Store, j *journal) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for l, err := range leader.ObserveWithStore(ctx, st, "g") {
			if err != nil {
				j.note("error %v", err)
				continue
			}
			j.note("%q term %d %s", l.ID, l.Term, l.Reason)
		}
	}()
	return done
}

func TestObserverTakesNoPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		ctx, cancel := context.WithCancel(t.Context())
		done := watchGroup(ctx, st, j)
		j.demand(t, `"" term 0 absent`)
		a := start(t, st, config("a"))
		time.Sleep(10*heartbeat + 1)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st.Delete("g")
		synctest.Wait()
		st.Put("g", []byte("garbage"))
		j.demand(t, `"" term 0 absent`, `"a" term 1 `, `"" term 1 resigned`, `"" term 0 deleted`, `"" term 0 overwritten`)
		if e, _ := st.Get(t.Context(), "g"); string(e.Value) != "garbage" {
			t.Error("the observer wrote")
		}
		cancel()
		<-done
	})
}

func TestObserverSeesASilentLeaderExpireAlsoByPolling(t *testing.T) {
	for _, polled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			j, mem := newJournal(), memstore.New()
			var st store.Store = mem
			if polled {
				st = plain{mem}
			}
			put(t, st, "g", record.Record{ID: "x", Token: "t", TTL: ttl.Milliseconds(), Term: 1})
			ctx, cancel := context.WithCancel(t.Context())
			done := watchGroup(ctx, st, j)
			time.Sleep(wait - 1)
			j.demand(t, `"x" term 1 `)
			time.Sleep(time.Nanosecond)
			j.demand(t, `"x" term 1 `, `"" term 1 expired`)
			cancel()
			<-done
		})
	}
}

// A watch repeats its last entry when it has been interrupted. That is not a
// renewal.
func TestRepeatedEntryDoesNotProlongALeaseForAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, j := network(t, nil), newJournal()
		put(t, f.Client("x"), "g", record.Record{ID: "x", Token: "t", TTL: ttl.Milliseconds(), Term: 1})
		ctx, cancel := context.WithCancel(t.Context())
		done := watchGroup(ctx, f.Client("o"), j)
		time.Sleep(ttl)
		f.Partition("o")
		f.Heal("o")
		time.Sleep(wait - ttl)
		j.demand(t, `"x" term 1 `, `"" term 1 expired`)
		cancel()
		<-done
	})
}

func TestObserverReportsAWatchThatFailsAndTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 0
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			refuse := c.Op == faultstore.Watch && refusals < 3
			if refuse {
				refusals++
			}
			return faultstore.Fate{Refuse: refuse}
		})
		n := 0
		for l, err := range leader.ObserveWithStore(t.Context(), f.Client("o"), "g") {
			if err == nil {
				if n != 3 || l.Reason != leader.ReasonAbsent {
					t.Errorf("%d errors, then %+v", n, l)
				}
				break
			}
			n++
			if !errors.Is(err, store.ErrTransient) || l.Group != "g" {
				t.Errorf("%+v %v", l, err)
			}
		}
	})
}

func TestObserverMayBreakAtAnyTime(t *testing.T) {
	for _, polled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var st store.Store = memstore.New()
			if polled {
				st = newPlain()
			}
			var got []leader.Reason
			for l, err := range leader.ObserveWithStore(t.Context(), st, "g") {
				if err != nil {
					t.Error(err)
				}
				got = append(got, l.Reason)
				break
			}
			if !slices.Equal(got, []leader.Reason{leader.ReasonAbsent}) {
				t.Error(got)
			}
		})
	}
}

// holder is a record as its holder writes it in term 1.
func holder(id string, ttl time.Duration) record.Record {
	return record.Record{ID: id, Token: "t" + id, TTL: ttl.Milliseconds(), Term: 1}
}

// renew writes the holder's record of a key again.
func renew(t testing.TB, st store.Store, key string, r record.Record) {
	t.Helper()
	value, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	e, err := st.Get(t.Context(), key)
	if err == nil {
		_, err = st.CompareAndSwap(t.Context(), store.Write{Key: key, Expected: e.Revision, Value: value, Tombstone: r.ID == ""})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// observeFunc notes all that an observer receives.
func observeFunc(ctx context.Context, t *testing.T, st store.Store, pattern string, j *journal) (done chan struct{}) {
	t.Helper()
	done = make(chan struct{})
	go func() {
		defer close(done)
		err := leader.ObserveFuncWithStore(ctx, st, pattern, leader.Observer{
			Leader: func(l leader.LeaderInfo) {
				j.note("%s", strings.TrimSpace(fmt.Sprintf("%s %q %s", l.Group, l.ID, l.Reason)))
			},
			Renewed: func(l leader.LeaderInfo) { j.note("%s renewed until %v", l.Group, l.Until.Sub(j.begun)) },
			Present: func() { j.note("present") },
			Failed:  func(err error) { j.note("failed %v", store.Classify(err)) },
		})
		if err != nil {
			t.Error(err)
		}
	}()
	return done
}

func TestObserverOfManyHasTheCurrentStateFirstAndThenEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		renew(t, st, "team.a", holder("x", ttl))
		renew(t, st, "other", holder("y", ttl))
		ctx, cancel := context.WithCancel(t.Context())
		done := observeFunc(ctx, t, st, "team.>", j)
		j.demand(t, `team.a "x"`, "present")
		renew(t, st, "team.b.deep", holder("z", ttl))
		j.demand(t, `team.a "x"`, "present", `team.b.deep "z"`)
		renew(t, st, "team.a", record.Record{Term: 1, Reason: "resigned", By: "x"})
		j.demand(t, `team.a "x"`, "present", `team.b.deep "z"`, `team.a "" resigned`)
		cancel()
		<-done
	})
}

// The store chooses the order of the keys.
func TestObserverSkipsControlKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		renew(t, st, "g", holder("x", ttl))
		put(t, st, record.ControlKey("g"), record.Request{Op: record.OpStepDown, Term: 1})
		infos, err := leader.SnapshotWithStore(t.Context(), st, ">")
		if err != nil || len(infos) != 1 || infos[0].Group != "g" {
			t.Errorf("%+v, %v", infos, err)
		}
		_, err = leader.SnapshotWithStore(t.Context(), st, record.ControlKey("g"))
		if !errors.Is(err, leader.ErrInvalidConfig) {
			t.Error(err)
		}
	})
}

func TestObserverExpiresEachGroupByItsOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		ctx, cancel := context.WithCancel(t.Context())
		done := observeFunc(ctx, t, st, "*", j)
		j.demand(t, "present")
		for _, g := range []struct {
			name string
			ttl  time.Duration
		}{{"c", 3 * ttl}, {"a", ttl}, {"b", 2 * ttl}} {
			renew(t, st, g.name, holder("x", g.ttl))
			synctest.Wait()
		}
		told := []string{"present", `c "x"`, `a "x"`, `b "x"`}
		time.Sleep(ttl)
		renew(t, st, "a", holder("x", 3*ttl)) // the first to run out becomes the last
		told = append(told, fmt.Sprintf("a renewed until %v", ttl+3*wait))
		for _, next := range []struct {
			after time.Duration
			told  string
		}{{2*wait - ttl, `b "" expired`}, {wait, `c "" expired`}, {ttl, `a "" expired`}} {
			time.Sleep(next.after - time.Nanosecond)
			j.demand(t, told...)
			time.Sleep(time.Nanosecond)
			told = append(told, next.told)
			j.demand(t, told...)
		}
		cancel()
		<-done
	})
}

// Where a successor waits, a vacancy lasts for a millisecond, which is too
// short for an observer to look. Only the vacancy contains why a leader left.
func TestSlowObserverHearsWhyALeaderLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		renew(t, st, "g", holder("x", time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for l, err := range leader.ObserveWithStore(ctx, st, "*") {
			if err != nil {
				t.Fatal(err)
			}
			j.note("%s", strings.TrimSpace(fmt.Sprintf("%q %s %s %s", l.ID, l.Reason, l.By, l.Why)))
			if len(j.all()) == 1 { // all of this comes while the observer is busy
				next := holder("y", time.Minute)
				next.Token, next.Term = "ty", 0
				for _, r := range []record.Record{{Term: 1, Reason: "stepped-down", By: "ann", Why: "a disk"}, next, next} {
					renew(t, st, "g", r)
					synctest.Wait() // it has arrived
				}
			}
			if l.ID == "y" {
				cancel()
			}
		}
		j.demand(t, `"x"`, `"" stepped-down ann a disk`, `"y"`)
	})
}

// The latest state of each group waits for a slow observer; its lease counts
// from when that state arrived.
func TestSlowObserverHearsOfTheLastStateOfEveryGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		renew(t, st, "first", holder("x", time.Minute))
		last := map[string]leader.LeaderInfo{}
		var begun time.Time
		told := 0
		for l, err := range leader.ObserveWithStore(t.Context(), st, "*") {
			if err != nil {
				t.Fatal(err)
			}
			last[l.Group] = l
			told++
			if told == 1 {
				begun = time.Now()
				for i := range 100 {
					for g := range 10 {
						renew(t, st, fmt.Sprint("g", g), holder(fmt.Sprint("x", i), time.Minute))
					}
				}
				synctest.Wait()
				time.Sleep(ttl) // the observer is slow
				continue
			}
			if len(last) == 11 && last["g9"].ID == "x99" {
				break
			}
		}
		if told > 12 {
			t.Errorf("notified of %d states of 10 groups", told)
		}
		for g := range 10 {
			l := last[fmt.Sprint("g", g)]
			if l.ID != "x99" || !l.Until.Equal(begun.Add(time.Minute*11/10)) {
				t.Errorf("%+v, started %v", l, begun)
			}
		}
	})
}

// While the observer handles one leader's end, another renews, and a third
// comes and falls silent.
func TestSlowObserverSkipsStatesThatAreOver(t *testing.T) {
	for range 30 { // which of two things that are due comes first is chance
		synctest.Test(t, func(t *testing.T) {
			st, j := memstore.New(), newJournal()
			renew(t, st, "first", holder("x", ttl))
			ctx, cancel := context.WithTimeout(t.Context(), 2*wait+ttl)
			defer cancel()
			go func() {
				time.Sleep(ttl / 3)
				renew(t, st, "alive", holder("x", ttl))
			}()
			for l, err := range leader.ObserveWithStore(ctx, st, "*") {
				if err != nil {
					t.Fatal(err)
				}
				j.note("%s %q %s", l.Group, l.ID, l.Reason)
				if l.Group == "first" && l.Reason == leader.ReasonExpired {
					renew(t, st, "silent", holder("x", ttl/2))
					time.Sleep(ttl / 4)
					renew(t, st, "alive", holder("x", time.Hour))
					time.Sleep(ttl / 2)
				}
			}
			j.demand(t, `first "x" `, `alive "x" `, `first "" expired`, `silent "" expired`)
		})
	}
}

// turns is a store that delivers a fixed sequence of entries at once.
type turns struct {
	store.Store
	say func(deliver func(store.Entry), present func(error))
}

func (s turns) WatchPattern(_ context.Context, _ string, deliver func(store.Entry), present func(error)) (func(), error) {
	s.say(deliver, present)
	return func() {}, nil
}

func TestPresentComesAfterTheStatesBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		entry := func(key string, rev uint64) store.Entry {
			return store.Entry{Key: key, Revision: rev, Value: []byte(`{"id":"x","token":"t","ttl":3600000}`)}
		}
		st := turns{memstore.New(), func(deliver func(store.Entry), present func(error)) {
			deliver(entry("a", 1))
			present(store.ErrPermanent) // the permission comes with the next connection
			deliver(entry("b", 2))
			present(nil)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := observeFunc(ctx, t, st, "*", j)
		j.demand(t, `a "x"`, `b "x"`, "present")
		cancel()
		<-done
	})
}

func TestObserverTakesNoVacancyForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		ctx, cancel := context.WithCancel(t.Context())
		done := observeFunc(ctx, t, st, "*", j)
		j.demand(t, "present")
		for range 2 {
			renew(t, st, "g", record.Record{Term: 1, Reason: "resigned"})
			synctest.Wait()
		}
		j.demand(t, "present", `g "" resigned`)
		cancel()
		<-done
	})
}

func TestPresentIsCalledAgainAfterAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, j := network(t, nil), newJournal()
		renew(t, f.Client("x"), "a", holder("x", time.Hour))
		renew(t, f.Client("x"), "b", holder("x", time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		done := observeFunc(ctx, t, f.Client("o"), "*", j)
		j.demand(t, `a "x"`, `b "x"`, "present")
		f.Partition("o")
		renew(t, f.Client("x"), "b", holder("y", time.Hour))
		renew(t, f.Client("x"), "c", holder("z", time.Hour))
		f.Purge("a")
		j.demand(t, `a "x"`, `b "x"`, "present")
		f.Heal("o")
		j.demand(t, `a "x"`, `b "x"`, "present", `a "" absent`, `b "y"`, `c "z"`, "present")
		cancel()
		<-done
	})
}

func TestObserverOfManyTriesAgainWhereItMayGoOn(t *testing.T) {
	refusing := func(t *testing.T, times int) *faultstore.Faults {
		t.Helper()
		return network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Refuse: c.Op == faultstore.Watch && c.N < uint64(times)}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f, j := refusing(t, 2), newJournal()
		ctx, cancel := context.WithCancel(t.Context())
		done := observeFunc(ctx, t, f.Client("o"), "*", j)
		time.Sleep(time.Minute)
		j.demand(t, "failed transient", "failed transient", "present")
		cancel()
		<-done

		err := leader.ObserveFuncWithStore(t.Context(), refusing(t, 1).Client("o"), "*", leader.Observer{})
		if !errors.Is(err, store.ErrTransient) {
			t.Errorf("without Failed: %v", err)
		}
		if _, err := leader.SnapshotWithStore(t.Context(), refusing(t, 1).Client("o"), "*"); !errors.Is(err, store.ErrTransient) {
			t.Errorf("a snapshot: %v", err)
		}
	})
}

func TestSnapshotIsWholeAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		var want []string
		for i := range 300 {
			g := fmt.Sprintf("g.%03d", i)
			want = append(want, g)
			renew(t, st, g, holder("x", ttl))
		}
		renew(t, st, "g.004", record.Record{Term: 1, Reason: "resigned", By: "somebody"})
		infos, err := leader.SnapshotWithStore(t.Context(), st, "g.*")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range infos {
			got = append(got, l.Group)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if l := infos[4]; l.ID != "" || l.Reason != leader.ReasonResigned || l.By != "somebody" || l.Term != 1 {
			t.Errorf("%+v", l)
		}
		if l := infos[5]; l.ID != "x" || !l.Until.Equal(time.Now().Add(wait)) {
			t.Errorf("%+v", l)
		}
	})
}

func TestSnapshotOfOneGroupNeedsNoPatterns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, st := range []store.Store{memstore.New(), newPlain(), watcher{memstore.New()}} {
			infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
			if err != nil || len(infos) != 1 || infos[0].Reason != leader.ReasonAbsent {
				t.Errorf("%T: %+v, %v", st, infos, err)
			}
			renew(t, st, "g", holder("x", ttl))
			infos, err = leader.SnapshotWithStore(t.Context(), st, "g")
			if err != nil || len(infos) != 1 || infos[0].ID != "x" {
				t.Errorf("%T: %+v, %v", st, infos, err)
			}
		}
	})
}

// watcher is a store that watches keys only.
type watcher struct{ store.Watcher }

func TestPatternThatCannotBeObservedIsRefused(t *testing.T) {
	for _, c := range []struct {
		st      store.Store
		pattern string
	}{{memstore.New(), ""}, {memstore.New(), "a*"}, {memstore.New(), "_ctl.>"}, {newPlain(), "*"}, {watcher{memstore.New()}, "a.>"}} {
		err := leader.ObserveFuncWithStore(t.Context(), c.st, c.pattern, leader.Observer{Failed: func(error) {}})
		if !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%T, %q: %v", c.st, c.pattern, err)
		}
		n := 0
		for _, err := range leader.ObserveWithStore(t.Context(), c.st, c.pattern) {
			n++
			if !errors.Is(err, leader.ErrInvalidConfig) {
				t.Errorf("%T, %q: %v", c.st, c.pattern, err)
			}
		}
		if n != 1 {
			t.Errorf("%T, %q: %d errors", c.st, c.pattern, n)
		}
	}
}

// unreadable is a store whose user may hear of changes and not read.
type unreadable struct{ *memstore.Store }

func (u unreadable) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	var mu sync.Mutex
	begun := false
	return u.Store.WatchPattern(ctx, pattern, func(e store.Entry) {
		mu.Lock()
		defer mu.Unlock()
		if begun {
			deliver(e)
		}
	}, func(error) {
		mu.Lock()
		defer mu.Unlock()
		begun = true
		present(fmt.Errorf("%w: may not read", store.ErrPermanent))
	})
}

func TestObserverThatMayNotReadHearsOfEachGroupWithItsNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := unreadable{memstore.New()}, newJournal()
		renew(t, st, "g", holder("x", ttl))
		if _, err := leader.SnapshotWithStore(t.Context(), st, "g"); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("a snapshot: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := observeFunc(ctx, t, st, "g", j)
		j.demand(t, "failed permanent")
		renew(t, st, "g", holder("x", ttl))
		j.demand(t, "failed permanent", `g "x"`)
		cancel()
		<-done
		for l, err := range leader.ObserveWithStore(t.Context(), seeded{st, t}, "g") {
			if err != nil || l.ID != "x" {
				t.Errorf("%+v, %v", l, err)
			}
			break
		}
	})
}

// seeded renews the record of g whenever a watch begins.
type seeded struct {
	unreadable
	t *testing.T
}

func (s seeded) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	return s.unreadable.WatchPattern(ctx, pattern, deliver, func(err error) {
		present(err)
		go renew(s.t, s.Store, "g", holder("x", ttl))
	})
}

func TestObserverOfManyMayEndAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		for g := range 20 {
			renew(t, st, fmt.Sprint("g", g), holder("x", ttl))
		}
		for n := range 20 {
			told := 0
			ctx, cancel := context.WithCancel(t.Context())
			for _, err := range leader.ObserveWithStore(ctx, st, ">") {
				if err != nil {
					t.Error(err)
				}
				told++
				if told > n {
					if n%2 == 0 {
						break
					}
					cancel()
				}
			}
			cancel()
			if told != n+1 {
				t.Errorf("notified of %d after the end at %d", told, n+1)
			}
		}
		if _, err := leader.SnapshotWithStore(canceled(t), st, ">"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// An observer of ten thousand groups costs some hundred bytes for each, and no
// goroutine or timer.
func TestTenThousandObservedGroupsShareOneGoroutine(t *testing.T) {
	const groups = 10_000
	st := memstore.New()
	for g := range groups {
		renew(t, st, fmt.Sprint("team.", g), holder("instance-1", time.Hour))
	}
	before, goroutines := heapInUse(), runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	present, done := make(chan struct{}), make(chan error)
	n := 0
	go func() {
		done <- leader.ObserveFuncWithStore(ctx, st, "team.*", leader.Observer{
			Leader:  func(leader.LeaderInfo) { n++ },
			Present: func() { close(present) },
		})
	}()
	<-present
	bytes, more := float64(heapInUse()-before)/groups, runtime.NumGoroutine()-goroutines
	t.Logf("%.0f bytes of heap for each group, %d goroutines", bytes, more)
	if bytes > 2000 || more > 5 {
		t.Error("more than an observer may cost")
	}
	cancel()
	if err := <-done; err != nil || n != groups {
		t.Errorf("notified of %d groups, %v", n, err)
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// lags returns a store whose every other read shows a record as it now is.
func lags(t *testing.T, st store.Store) *lagging {
	t.Helper()
	old, err := st.Get(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	return &lagging{Store: st, old: old}
}

// An older state is not news, and the state after it not a renewal: each would
// prolong the lease of a leader that is dead.
func TestObserverThatPollsALaggingReplicaSeesADeadLeaderExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		put(t, st, "g", record.Record{ID: "x", Token: "t", TTL: ttl.Milliseconds(), Term: 1})
		twoReplicas := lags(t, st)
		renew(t, st, "g", holder("x", ttl))
		ctx, cancel := context.WithCancel(t.Context())
		done := watchGroup(ctx, twoReplicas, j)
		time.Sleep(time.Hour)
		j.demand(t, `"x" term 1 `, `"" term 1 expired`)
		cancel()
		<-done
	})
}

func TestObserverThatPollsALaggingReplicaReportsASuccessionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		put(t, st, "g", record.Record{ID: "x", Token: "t", TTL: time.Hour.Milliseconds(), Term: 1})
		twoReplicas := lags(t, st)
		put(t, st, "g", record.Record{ID: "y", Token: "u", TTL: time.Hour.Milliseconds(), Term: 2})
		ctx, cancel := context.WithCancel(t.Context())
		done := watchGroup(ctx, twoReplicas, j)
		time.Sleep(10 * time.Minute)
		j.demand(t, `"y" term 2 `)
		cancel()
		<-done
	})
}

// A refusing store has no watch, and its reads fail for as long as it has an
// error for them.
type refusing struct {
	store.Store

	errs []error
}

func (r *refusing) Get(ctx context.Context, key string) (store.Entry, error) {
	if len(r.errs) == 0 {
		return r.Store.Get(ctx, key)
	}
	err := r.errs[0]
	if len(r.errs) > 1 || !errors.Is(err, store.ErrClosed) {
		r.errs = r.errs[1:]
	}
	return store.Entry{}, err
}

// Not every store reports its connection: a read may be the first to find it
// closed.
func TestPolledStoreThatIsClosedEndsAnObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		st := &refusing{memstore.New(), []error{store.ErrClosed}}
		if err := leader.ObserveFuncWithStore(ctx, st, "g", leader.Observer{}); !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("ObserveFunc: %v", err)
		}
		if _, err := leader.SnapshotWithStore(ctx, st, "g"); !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("Snapshot: %v", err)
		}
		var last error
		for _, err := range leader.ObserveWithStore(ctx, st, "g") {
			last = err
		}
		if !errors.Is(last, leader.ErrConnectionClosed) {
			t.Errorf("Observe: %v", last)
		}
	})
}

// A permanent failure is reported like a store that cannot be watched, and
// tried again; a transient failure is not reported.
func TestObserverGetsTheErrorOfAPolledStoreThatMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		forbidden := func() *refusing {
			return &refusing{memstore.New(), []error{store.ErrTransient, store.ErrPermanent, store.ErrTransient}}
		}
		if err := leader.ObserveFuncWithStore(ctx, forbidden(), "g", leader.Observer{}); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("ObserveFunc: %v", err)
		}
		if _, err := leader.SnapshotWithStore(ctx, forbidden(), "g"); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("Snapshot: %v", err)
		}
		var told []store.Outcome
		for _, err := range leader.ObserveWithStore(ctx, forbidden(), "g") {
			if told = append(told, store.Classify(err)); err == nil {
				break
			}
		}
		if want := []store.Outcome{store.Permanent, store.OK}; !slices.Equal(told, want) {
			t.Errorf("Observe yielded %v, want %v", told, want)
		}
		j := newJournal()
		done := observeFunc(ctx, t, forbidden(), "g", j)
		time.Sleep(time.Minute)
		j.demand(t, "failed permanent", `g "" absent`, "present")
		cancel()
		<-done
	})
}

func TestClosedConnectionEndsAnObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		mustLead(t, start(t, f.Client("a"), config("a")))
		time.AfterFunc(time.Minute, func() { f.Report(store.Closed, "o") })
		var last error
		seen := ""
		for info, err := range leader.ObserveWithStore(t.Context(), f.Client("o"), "g") {
			seen, last = info.ID, err
			if err == nil && seen != "a" {
				t.Errorf("%+v", info)
			}
		}
		if !errors.Is(last, leader.ErrConnectionClosed) {
			t.Errorf("the last was %q, %v", seen, last)
		}
		failed := func(err error) { t.Errorf("to be tried again: %v", err) }
		err := leader.ObserveFuncWithStore(t.Context(), f.Client("o"), "g", leader.Observer{Failed: failed})
		if !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("ObserveFunc: %v", err)
		}
		if _, err := leader.SnapshotWithStore(t.Context(), f.Client("o"), ">"); !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("Snapshot: %v", err)
		}
	})
}

// A reader that breaks out of the loop receives no end.
func TestObserverThatBreaksGetsNoErrorOfAClosedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		mustLead(t, start(t, f.Client("a"), config("a")))
		for _, err := range leader.ObserveWithStore(t.Context(), f.Client("o"), "g") {
			if err != nil {
				t.Error(err)
			}
			f.Report(store.Closed, "o")
			synctest.Wait()
			break
		}
	})
}
