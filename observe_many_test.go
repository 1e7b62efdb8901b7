package leader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// observeFunc notes all that an observer is told.
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

func TestObserverOfManyHasThePresentStateFirstAndThenEachChange(t *testing.T) {
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

// The order of the keys of a present state is the store's.
func TestControlKeysAreNoGroups(t *testing.T) {
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

func TestEachGroupExpiresByItsOwnLeaseAsSeenFromHere(t *testing.T) {
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

// A vacancy lasts for a millisecond where a successor waits, which is no time
// for an observer to look. It is the only place that says why a leader left.
func TestASlowObserverHearsWhyALeaderLeft(t *testing.T) {
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

// What waits for a slow observer is the latest state of each group; its lease
// counts from when that arrived.
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
			t.Errorf("told %d states of 10 groups", told)
		}
		for g := range 10 {
			l := last[fmt.Sprint("g", g)]
			if l.ID != "x99" || !l.Until.Equal(begun.Add(time.Minute*11/10)) {
				t.Errorf("%+v, begun %v", l, begun)
			}
		}
	})
}

// While the observer is told of one leader's end, another renews, and a third
// comes and falls silent.
func TestSlowObserverIsNotToldOfWhatIsOver(t *testing.T) {
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

// turns is a store that says a fixed sequence of things at once.
type turns struct {
	store.Store
	say func(deliver func(store.Entry), present func(error))
}

func (s turns) WatchPattern(_ context.Context, _ string, deliver func(store.Entry), present func(error)) (func(), error) {
	s.say(deliver, present)
	return func() {}, nil
}

func TestPresentWaitsForWhatCameBeforeIt(t *testing.T) {
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

func TestVacancyIsNoRenewal(t *testing.T) {
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

func TestPresentIsToldAgainAfterAnInterruption(t *testing.T) {
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
				t.Errorf("told %d after the end at %d", told, n+1)
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

// One observer of ten thousand groups costs some hundred bytes for each, and no
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
		t.Errorf("told of %d groups, %v", n, err)
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
