package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

var watchClaims = []claim{
	{"WatchBeginsWithThePresentState", watching, func(x *exam) {
		w := x.watcher()
		rev := x.put(w, key, 0, "held")
		x.watch(w, key).reaches(key, rev, "held", false)
	}},
	{"WatchBeginsWithRevisionZeroForAnUnknownKey", watching, func(x *exam) {
		w := x.watcher()
		r := x.watch(w, key)
		if e := r.begins(key); e.Revision != 0 {
			x.Fatalf("the watch of an unknown key begins with revision %d", e.Revision)
		}
		r.reaches(key, x.put(w, key, 0, "first"), "first", false)
	}},
	{"WatchBeginsWithATombstoneAndItsValue", watching, func(x *exam) {
		w := x.watcher()
		rev := x.must(w, store.Write{Key: key, Value: []byte("vacant"), Tombstone: true})
		x.watch(w, key).reaches(key, rev, "vacant", true)
	}},
	{"WatchBeginsWithAForeignDeletion", watching | deleting, func(x *exam) {
		w := x.watcher()
		e := x.deleted(w, key, x.put(w, key, 0, "held"))
		x.watch(w, key).reaches(key, e.Revision, "", e.Tombstone)
	}},
	{"WatchBeginsEveryTimeAnew", watching, func(x *exam) {
		w, rev := x.watcher(), uint64(0)
		for i := range 10 {
			rev = x.put(w, key, rev, fmt.Sprint(i))
			r := x.watch(w, key)
			r.reaches(key, rev, fmt.Sprint(i), false)
			r.end()
		}
	}},
	{"WatchHearsOfWritesInOrder", watching, func(x *exam) {
		w, rev := x.watcher(), uint64(0)
		r := x.watch(w, key) // judges the order of all it hears
		r.begins(key)
		for i := range 50 {
			rev = x.put(w, key, rev, fmt.Sprint(i))
		}
		r.reaches(key, rev, "49", false)
	}},
	{"WatchHearsOfEachWriteThatStands", watching, func(x *exam) {
		w, rev := x.watcher(), uint64(0)
		r := x.watch(w, key)
		r.begins(key)
		for i := range 20 {
			rev = x.put(w, key, rev, fmt.Sprint(i))
			r.reaches(key, rev, fmt.Sprint(i), false)
		}
	}},
	{"WatchHearsOfAnotherClientsWrites", watching, func(x *exam) {
		w, other := x.watcher(), x.open()
		r := x.watch(w, key)
		r.begins(key)
		rev := x.put(other, key, 0, "theirs")
		r.reaches(key, rev, "theirs", false)
	}},
	{"WatchHearsOfATombstoneWithItsValue", watching, func(x *exam) {
		w := x.watcher()
		rev := x.put(w, key, 0, "held")
		r := x.watch(w, key)
		r.reaches(key, rev, "held", false)
		rev = x.must(w, store.Write{Key: key, Expected: rev, Value: []byte(`{"reason":"release"}`), Tombstone: true})
		r.reaches(key, rev, `{"reason":"release"}`, true)
		r.reaches(key, x.put(w, key, rev, "held again"), "held again", false)
	}},
	{"WatchHearsOfAForeignDeletion", watching | deleting, func(x *exam) {
		w := x.watcher()
		held := x.put(w, key, 0, "held")
		r := x.watch(w, key)
		r.lossy = true // a tool that leaves no trace takes the key back to revision 0
		r.reaches(key, held, "held", false)
		e := x.deleted(w, key, held)
		r.reaches(key, e.Revision, "", e.Tombstone)
		r.reaches(key, x.put(w, key, e.Revision, "again"), "again", false)
	}},
	{"WatchHearsOfAForeignWrite", watching | putting, func(x *exam) {
		w := x.watcher()
		held := x.put(w, key, 0, "held")
		r := x.watch(w, key)
		r.reaches(key, held, "held", false)
		if err := x.h.Put(key, []byte("foreign")); err != nil {
			x.Fatalf("Harness.Put: %v", err)
		}
		r.await("the foreign write", func(e store.Entry) bool { return e.Revision > held && string(e.Value) == "foreign" && !e.Tombstone })
	}},
	{"WatchSurvivesAPurge", watching | purging, func(x *exam) {
		w := x.watcher()
		held := x.put(w, key, 0, "held")
		r := x.watch(w, key)
		r.lossy = true
		r.reaches(key, held, "held", false)
		if err := x.h.Purge(key); err != nil {
			x.Fatalf("Harness.Purge: %v", err)
		}
		e := x.after(w, key, held, "the purge", func(store.Entry) bool { return true })
		r.reaches(key, x.put(w, key, e.Revision, "again"), "again", false)
	}},
	{"WatchShowsWhatTheWritersWrote", watching, func(x *exam) { x.watchCounter(x.watcher(), x.clients(4), 25) }},
	{"WatchOfSeveralKeysHearsOfEach", watching, func(x *exam) {
		w := x.watcher()
		ra := x.put(w, "a", 0, "a1")
		r := x.watch(w, "a", "b", "_ctl.a")
		r.reaches("a", ra, "a1", false)
		r.reaches("b", 0, "", false)
		r.reaches("_ctl.a", 0, "", false)
		r.reaches("b", x.put(w, "b", 0, "b1"), "b1", false)
		r.reaches("_ctl.a", x.put(w, "_ctl.a", 0, "request"), "request", false)
		r.reaches("a", x.put(w, "a", ra, "a2"), "a2", false)
	}},
	{"WatchOfOneKeyHearsOfNoOther", watching, func(x *exam) {
		w := x.watcher()
		r := x.watch(w, "a") // judges the key of all it hears
		r.begins("a")
		for _, k := range []string{"b", "A", "a.b", "a/b", "aa", "_ctl.a"} {
			x.put(w, k, 0, k)
		}
		r.reaches("a", x.put(w, "a", 0, "a"), "a", false)
		x.silent()
	}},
	{"WatchesOfOneKeyHearEach", watching, func(x *exam) {
		w, v := x.watcher(), x.watcher()
		rs := []*recorder{x.watch(w, key), x.watch(w, key), x.watch(v, key), x.watch(v, key, "other")}
		rev := x.put(w, key, 0, "first")
		for _, r := range rs {
			r.reaches(key, rev, "first", false)
		}
	}},
	{"WatchOutlivesTheStopOfAnother", watching, func(x *exam) {
		w := x.watcher()
		r, gone, wide := x.watch(w, key), x.watch(w, key), x.watch(w, key, "other")
		r.begins(key)
		gone.end()
		rev := x.put(w, key, 0, "1")
		r.reaches(key, rev, "1", false)
		wide.reaches(key, rev, "1", false)
		wide.end()
		r.reaches(key, x.put(w, key, rev, "2"), "2", false)
	}},
	{"TwoHundredWatchesEachHearOfTheirKey", watching, func(x *exam) {
		w := x.watcher()
		rs := make([]*recorder, 200)
		for i := range rs {
			rs[i] = x.watch(w, fmt.Sprintf("g%d", i))
		}
		for i, r := range rs {
			k := fmt.Sprintf("g%d", i)
			r.reaches(k, x.put(w, k, 0, "v"), "v", false)
		}
	}},
	{"StoppedWatchIsSilent", watching, func(x *exam) {
		w := x.watcher()
		rev := x.put(w, key, 0, "0")
		r := x.watch(w, key)
		r.begins(key)
		r.end()
		x.stillSilent(w, r, rev)
	}},
	{"CancelledContextEndsTheWatch", watching, func(x *exam) {
		w := x.watcher()
		rev := x.put(w, key, 0, "0")
		ctx, cancel := context.WithCancel(context.Background())
		r := x.watchUnder(ctx, w, key)
		r.begins(key)
		cancel()
		x.silent() // the end of a context is noticed when it is; from then on nothing is heard
		x.stillSilent(w, r, rev)
		r.end()
	}},
	{"WatchUnderACancelledContextHearsNothingOrFails", watching, func(x *exam) {
		w := x.watcher()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var stop func()
		var err error
		x.returns("Watch", func() { stop, err = w.Watch(ctx, []string{key}, func(store.Entry) {}) })
		if (stop == nil) == (err == nil) {
			x.Fatalf("Watch returned stop %t beside error %v", stop != nil, err)
		}
		if err == nil {
			x.returns("stop", stop)
		} else if c := store.Classify(err); c != store.Transient {
			x.Fatalf("Watch under a cancelled context: %v (%v); want a transient failure", err, c)
		}
	}},
	{"StopMayBeCalledTwice", watching, func(x *exam) {
		w := x.watcher()
		r := x.watch(w, key)
		r.begins(key)
		x.returns("stop", r.stop)
		x.returns("the second stop", r.stop)
	}},
	{"StopMayBeCalledAtOnceByMany", watching, func(x *exam) {
		w := x.watcher()
		r := x.watch(w, key)
		x.returns("eight stops", func() {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(r.stop)
			}
			wg.Wait()
		})
	}},
	{"StopWithinDeliverReturns", watching, func(x *exam) { x.stopWithin(x.watcher()) }},
	{"StopWaitsForARunningDeliver", watching, func(x *exam) { x.stopDuring(x.watcher()) }},
	{"DeliverCallsDoNotOverlap", watching, func(x *exam) {
		w := x.watcher()
		r := x.watch(w, "a", "b", "c", "d") // judges overlapping
		var wg sync.WaitGroup
		for _, k := range r.keys {
			wg.Go(func() { x.chain(w, k, 25) })
		}
		wg.Wait()
		for _, k := range r.keys {
			r.await("the last write of "+k, func(e store.Entry) bool { return e.Key == k && string(e.Value) == "24" })
		}
	}},
	{"LastStateIsHeardAfterABurst", watching, func(x *exam) {
		w, cs := x.watcher(), x.clients(3)
		r := x.watch(w, key)
		rev := uint64(0)
		for range 10 {
			rev = x.winner(cs[0], x.race(cs, 12, rev, odd))
		}
		e := x.reach(cs[0], key, rev)
		r.reaches(key, rev, string(e.Value), e.Tombstone)
	}},
	{"WriteBetweenReadAndSubscriptionIsHeard", watching, func(x *exam) {
		w, other := x.watcher(), x.open()
		for i := range 40 {
			k := fmt.Sprintf("gap/%d", i)
			var wg sync.WaitGroup
			var rev uint64
			wg.Go(func() { rev, _ = x.cas(other, store.Write{Key: k, Value: []byte("v")}) })
			r := x.watch(w, k)
			wg.Wait()
			r.reaches(k, rev, "v", false)
			r.end()
		}
	}},
	{"WatchOfAnInvalidKeyFailsOrWorks", watching, func(x *exam) {
		w := x.watcher()
		for _, k := range []string{"", "a..b", ".a", "a.*", ">", "*", "a b"} {
			stop, err := w.Watch(context.Background(), []string{k}, func(store.Entry) {})
			if err == nil {
				stop()
			} else if !errors.Is(err, store.ErrInvalid) {
				x.Errorf("Watch(%q): %v; want store.ErrInvalid", k, err)
			}
		}
	}},
	{"EndedWatchesLeaveNoGoroutine", watching, func(x *exam) {
		w := x.watcher()
		x.leavesNoGoroutine("ended watches", 50, func() { x.watchOnce(w) })
	}},
}

// silent listens for what must not happen.
func (x *exam) silent() { <-time.After(x.caps.Silence) }

// stillSilent writes to the key and demands that r hears nothing of it.
func (x *exam) stillSilent(s store.Store, r *recorder, rev uint64) {
	x.Helper()
	heard := len(r.entries(""))
	for i := range 5 {
		rev = x.put(s, key, rev, fmt.Sprint("unheard ", i))
	}
	x.silent()
	if n := len(r.entries("")) - heard; n != 0 {
		x.Fatalf("the watch heard %d entries after its end", n)
	}
}

// watchKey watches the one key, and calls f at each delivery.
func (x *exam) watchKey(w store.Watcher, f func()) (stop func()) {
	x.Helper()
	return x.begun("Watch", func() (func(), error) {
		return w.Watch(context.Background(), []string{key}, func(store.Entry) { f() })
	})
}

// stopWithin calls stop from within deliver, twice, and demands that the watch
// ends there.
func (x *exam) stopWithin(w store.Watcher) {
	x.Helper()
	var stop atomic.Pointer[func()]
	var once sync.Once
	var after atomic.Int32
	done := make(chan struct{})
	f := x.watchKey(w, func() {
		stop := stop.Load()
		if stop == nil {
			return // Watch has not returned
		}
		after.Add(1)
		once.Do(func() {
			(*stop)()
			(*stop)()
			close(done)
		})
	})
	stop.Store(&f)
	rev := x.put(w, key, 0, "0")
	x.returns("stop within deliver", func() { <-done })
	heard := after.Load()
	for i := range 5 {
		rev = x.put(w, key, rev, fmt.Sprint("unheard ", i))
	}
	x.silent()
	if n := after.Load() - heard; n != 0 {
		x.Fatalf("deliver was called %d times after it had stopped its watch", n)
	}
	x.returns("stop after stop within deliver", f)
}

// stopDuring calls stop while deliver runs, and demands that stop outlasts it.
func (x *exam) stopDuring(w store.Watcher) {
	x.Helper()
	entered, release := make(chan struct{}), make(chan struct{})
	var armed, running atomic.Bool
	once := sync.OnceFunc(func() { close(entered) })
	stop := x.watchKey(w, func() {
		if !armed.Load() {
			return // Watch has not returned
		}
		running.Store(true)
		once()
		<-release
		running.Store(false)
	})
	armed.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = x.cas(w, store.Write{Key: key, Value: []byte("v")}) })
	x.returns("the delivery", func() { <-entered })
	stopped := make(chan bool, 1)
	go func() { stop(); stopped <- !running.Load() }()
	x.silent()
	close(release)
	x.returns("stop", func() {
		if !<-stopped {
			x.Error("stop returned while deliver was running")
		}
		wg.Wait()
	})
}

// watchCounter lets clients count in one register, and demands that each state
// that the watch shows is one that was written, and in its place.
func (x *exam) watchCounter(w store.Watcher, cs []store.Store, times int) {
	x.Helper()
	r := x.watch(w, key)
	r.begins(key)
	x.count(cs, times)
	r.await("the final count", func(e store.Entry) bool { return string(e.Value) == fmt.Sprint(len(cs)*times) })
	seen := map[string]uint64{}
	for _, e := range r.entries(key) {
		if rev, again := seen[string(e.Value)]; again && rev != e.Revision {
			x.Fatalf("the count %q was heard at the revisions %d and %d", e.Value, rev, e.Revision)
		}
		seen[string(e.Value)] = e.Revision
	}
}

// watchOnce watches until the first delivery.
func (x *exam) watchOnce(w store.Watcher) {
	x.Helper()
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	stop := x.watchKey(w, once)
	x.returns("the first delivery", func() { <-first })
	stop()
}
