package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// The claims about store.PatternWatcher. A store that does not implement it is
// not examined: observers of many groups then report that, and an election does
// without.
var patternClaims = []claim{
	{"PatternWatchBeginsWithThePresentState", 0, func(x *exam) {
		w := x.patternWatcher()
		held := x.put(w, "team.a", 0, "held")
		vacant := x.must(w, store.Write{Key: "team.b", Value: []byte("vacant"), Tombstone: true})
		x.put(w, "other", 0, "unheard")
		r := x.watchPattern(w, "team.*")
		keys := map[string]bool{} // a state may be repeated
		for _, e := range r.complete(1) {
			keys[e.Key] = true
		}
		if len(keys) != 2 {
			x.Fatalf("the current state of two keys has %d: %s", len(keys), r.summary())
		}
		r.reaches("team.a", held, "held", false)
		r.reaches("team.b", vacant, "vacant", true)
	}},
	{"PatternWatchOfNothingIsComplete", 0, func(x *exam) {
		w := x.patternWatcher()
		x.put(w, "other", 0, "unheard")
		r := x.watchPattern(w, "team.>")
		if present := r.complete(1); len(present) != 0 {
			x.Fatalf("the current state of no key has %d: %s", len(present), r.summary())
		}
	}},
	{"PatternWatchHearsOfKeysThatNobodyKnew", 0, func(x *exam) {
		w, other := x.patternWatcher(), x.open()
		r := x.watchPattern(w, "team.>")
		r.complete(1)
		for _, k := range []string{"team.new", "team.new.deep", "team.a/b"} {
			r.reaches(k, x.put(other, k, 0, "first"), "first", false)
		}
	}},
	{"PatternWatchHearsOfEachWriteThatStands", 0, func(x *exam) {
		w, revs := x.patternWatcher(), map[string]uint64{}
		r := x.watchPattern(w, ">")
		for i := range 20 {
			for _, k := range []string{"a", "team.b"} {
				revs[k] = x.put(w, k, revs[k], fmt.Sprint(i))
				r.reaches(k, revs[k], fmt.Sprint(i), false)
			}
		}
	}},
	{"PatternWatchHearsOfATombstoneWithItsValue", 0, func(x *exam) {
		w := x.patternWatcher()
		rev := x.put(w, key, 0, "held")
		r := x.watchPattern(w, "*")
		rev = x.must(w, store.Write{Key: key, Expected: rev, Value: []byte("vacant"), Tombstone: true})
		r.reaches(key, rev, "vacant", true)
		r.reaches(key, x.put(w, key, rev, "held again"), "held again", false)
	}},
	{"PatternWatchHearsOfAForeignDeletion", deleting, func(x *exam) {
		w := x.patternWatcher()
		held := x.put(w, key, 0, "held")
		r := x.watchPattern(w, "*")
		r.lossy = true
		r.reaches(key, held, "held", false)
		e := x.deleted(w, key, held)
		r.reaches(key, e.Revision, "", e.Tombstone)
	}},
	{"PatternWatchHearsOfNoOtherKey", 0, func(x *exam) {
		w := x.patternWatcher()
		rs := []*recorder{ // each judges the keys that it hears
			x.watchPattern(w, "team.a"), x.watchPattern(w, "*"), x.watchPattern(w, "team.*"), x.watchPattern(w, "*.a"), x.watchPattern(w, "team.>"),
		}
		for _, k := range []string{"a", "team", "team.b", "team.a.b", "teams.a", "team/a", "x.team.a", "_ctl.a"} {
			x.put(w, k, 0, k)
		}
		rev := x.put(w, "team.a", 0, "v")
		for i, r := range rs {
			if i != 1 {
				r.reaches("team.a", rev, "v", false)
			}
			r.complete(1)
		}
		x.silent()
	}},
	{"PatternWatchOfOneKeyHearsOfIt", 0, func(x *exam) {
		w := x.patternWatcher()
		r := x.watchPattern(w, key)
		r.complete(1)
		r.reaches(key, x.put(w, key, 0, "v"), "v", false)
	}},
	{"PresentStateOfManyKeysIsComplete", 0, func(x *exam) {
		const many = 1500 // more than a NATS server answers to one request
		w := x.patternWatcher()
		revs := x.putMany(w, many)
		r := x.watchPattern(w, "many.*")
		present := map[string]uint64{}
		for _, e := range r.complete(1) {
			present[e.Key] = e.Revision
		}
		for k, rev := range revs {
			if present[k] != rev {
				x.Fatalf("key %q is at revision %d, and the current state of %d keys shows it at %d", k, rev, len(present), present[k])
			}
		}
	}},
	{"PresentStateIsCompleteWhileItsKeysAreWritten", 0, func(x *exam) {
		w, other := x.patternWatcher(), x.open()
		keys := []string{"busy.a", "busy.b", "busy.c", "busy.d"}
		end := x.writeOn(other, keys)
		for range 20 {
			r := x.watchPattern(w, "busy.*")
			present := map[string]bool{}
			for _, e := range r.complete(1) {
				present[e.Key] = e.Revision > 0
			}
			for _, k := range keys {
				if !present[k] {
					x.Errorf("key %q is written all the time, and the current state leaves it out: %s", k, r.summary())
				}
			}
			r.end()
		}
		end()
	}},
	{"WritesDuringTheBeginningOfAPatternWatchAreHeard", 0, func(x *exam) {
		w, other := x.patternWatcher(), x.open()
		for i := range 20 {
			k := fmt.Sprintf("gap.%d", i)
			var wg sync.WaitGroup
			var rev uint64
			wg.Go(func() { rev, _ = x.cas(other, store.Write{Key: k, Value: []byte("v")}) })
			r := x.watchPattern(w, "gap.*")
			wg.Wait()
			r.reaches(k, rev, "v", false)
			r.end()
		}
	}},
	{"PatternWatchesAndWatchesOfOneClientHearEach", 0, func(x *exam) {
		w := x.patternWatcher()
		v, ok := w.(store.Watcher)
		if !ok {
			x.Skip("the store is not a store.Watcher")
		}
		held := x.put(w, "team.a", 0, "held")
		rs := []*recorder{x.watchPattern(w, "team.*"), x.watch(v, "team.a"), x.watchPattern(w, ">"), x.watch(v, "team.a", "b"), x.watchPattern(w, "team.*")}
		for _, r := range rs {
			r.reaches("team.a", held, "held", false)
		}
		rs[0].end()
		rs[1].end()
		rev := x.put(w, "team.a", held, "next")
		for _, r := range rs[2:] {
			r.reaches("team.a", rev, "next", false)
		}
	}},
	{"PatternWatchDoesNotOverlap", 0, func(x *exam) {
		w := x.patternWatcher()
		r := x.watchPattern(w, ">") // judges overlapping
		var wg sync.WaitGroup
		for _, k := range []string{"a", "b", "c", "d"} {
			wg.Go(func() { x.chain(w, k, 25) })
		}
		wg.Wait()
		for _, k := range []string{"a", "b", "c", "d"} {
			r.await("the last write of "+k, func(e store.Entry) bool { return e.Key == k && string(e.Value) == "24" })
		}
	}},
	{"StoppedPatternWatchIsSilent", 0, func(x *exam) {
		w := x.patternWatcher()
		rev := x.put(w, key, 0, "0")
		r := x.watchPattern(w, ">")
		r.complete(1)
		r.end()
		x.stillSilent(w, r, rev)
		x.returns("the second stop", r.stop)
	}},
	{"CancelledContextEndsThePatternWatch", 0, func(x *exam) {
		w := x.patternWatcher()
		rev := x.put(w, key, 0, "0")
		ctx, cancel := context.WithCancel(context.Background())
		r := x.watchPatternUnder(ctx, w, ">")
		r.complete(1)
		cancel()
		x.silent()
		x.stillSilent(w, r, rev)
		r.end()
	}},
	{"PatternWatchUnderACancelledContextFails", 0, func(x *exam) {
		w := x.patternWatcher()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var err error
		x.returns("WatchPattern", func() { _, err = w.WatchPattern(ctx, ">", func(store.Entry) {}, func(error) {}) })
		if c := store.Classify(err); c != store.Transient {
			x.Fatalf("WatchPattern under a cancelled context: %v (%v); want a transient failure", err, c)
		}
	}},
	{"StopWithinPatternWatchReturns", 0, func(x *exam) {
		x.stopWithinPattern(x.patternWatcher())
	}},
	{"InvalidPatternIsRefused", 0, func(x *exam) {
		w := x.patternWatcher()
		for _, p := range []string{"", "a*", ">.a", "a..b", "a.", "a b", ".>"} {
			stop, err := w.WatchPattern(context.Background(), p, func(store.Entry) {}, func(error) {})
			if !errors.Is(err, store.ErrInvalid) {
				x.Errorf("WatchPattern(%q): %v; want store.ErrInvalid", p, err)
			}
			if err == nil {
				stop()
			}
		}
	}},
	{"EndedPatternWatchesLeaveNoGoroutine", 0, func(x *exam) {
		w := x.patternWatcher()
		x.leavesNoGoroutine("ended watches", 30, func() { r := x.watchPattern(w, ">"); r.complete(1); r.end() })
	}},
	{"PatternWatchHearsOfWritesAfterAnInterruption", interrupting, func(x *exam) {
		w, other := x.patternWatcher(), x.open()
		rev := x.put(w, key, 0, "before")
		r := x.watchPattern(w, ">")
		r.reaches(key, rev, "before", false)
		for i := range 3 {
			x.interrupt()
			rev = x.eventually(other, rev, fmt.Sprint(i))
			r.reaches(key, rev, fmt.Sprint(i), false)
		}
		r.reaches("new", x.put(other, "new", 0, "v"), "v", false)
	}},
	{"PatternWatchRepeatsThePresentStateAfterAnInterruption", interrupting, func(x *exam) {
		w := x.patternWatcher()
		revs := map[string]uint64{"team.a": x.put(w, "team.a", 0, "a"), "team.b": x.put(w, "team.b", 0, "b")}
		r := x.watchPattern(w, "team.*")
		r.complete(1)
		// Messages that a cluster's store sends by itself some time after the
		// beginning must not pass for it.
		n := len(r.entries(""))
		x.interrupt()
		x.poll("the current state to be heard and marked once more", func() bool {
			return r.markedSince(n, revs)
		})
	}},
	{"PatternWatchHearsOfAVanishedKeyAfterAnInterruption", purging | interrupting, func(x *exam) {
		w := x.patternWatcher()
		x.put(w, "team.gone", 0, "held")
		stays := x.put(w, "team.stays", 0, "held")
		r := x.watchPattern(w, "team.*")
		r.lossy = true
		r.complete(1)
		if err := x.h.Purge("team.gone"); err != nil {
			x.Fatalf("Harness.Purge: %v", err)
		}
		x.interrupt()
		r.await("the vanished key", func(e store.Entry) bool { return e.Key == "team.gone" && e.Revision == 0 })
		r.reaches("team.stays", stays, "held", false)
	}},
}

// patternWatcher opens a client that can watch patterns, or skips the claim.
func (x *exam) patternWatcher() store.PatternWatcher {
	x.Helper()
	w, ok := x.open().(store.PatternWatcher)
	if !ok {
		x.Skip("the store is not a store.PatternWatcher")
	}
	return w
}

// watchPattern begins a watch that ends with the claim.
func (x *exam) watchPattern(w store.PatternWatcher, pattern string) *recorder {
	x.Helper()
	return x.watchPatternUnder(context.Background(), w, pattern)
}

func (x *exam) watchPatternUnder(ctx context.Context, w store.PatternWatcher, pattern string) *recorder {
	x.Helper()
	var r *recorder
	stop := x.begun(fmt.Sprintf("WatchPattern(%q)", pattern), func() (func(), error) {
		r = &recorder{x: x, pattern: pattern, news: make(chan struct{})}
		return w.WatchPattern(ctx, pattern, r.deliver, r.present)
	})
	r.stop = stop
	x.Cleanup(r.end)
	return r
}

// complete waits for the nth call of present, and returns what had been heard
// by then.
func (r *recorder) complete(nth int) []store.Entry {
	r.x.Helper()
	limit := time.After(r.x.caps.Patience)
	for {
		r.mu.Lock()
		heard, marks, news := r.heard, r.marks, r.news // only appended to
		r.mu.Unlock()
		if len(marks) >= nth {
			if err := marks[nth-1].err; err != nil {
				r.x.Fatalf("the watch of %s cannot read the current state: %v", r, err)
			}
			return heard[:marks[nth-1].after]
		}
		select {
		case <-news:
		case <-limit:
			r.x.Fatalf("the watch of %s did not report a complete current state within %v; it heard %s", r, r.x.caps.Patience, r.summary())
		}
	}
}

// markedSince reports whether, since the first n entries, each key was heard at
// its revision and the end of the current state marked.
func (r *recorder) markedSince(n int, revs map[string]uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.marks) == 0 {
		return false
	}
	last := r.marks[len(r.marks)-1].after
	for k, rev := range revs {
		if last < n || !slices.ContainsFunc(r.heard[n:last], func(e store.Entry) bool { return e.Key == k && e.Revision == rev }) {
			return false
		}
	}
	return true
}

// putMany writes n keys, many.0 and so on, and returns their revisions.
func (x *exam) putMany(s store.Store, n int) map[string]uint64 {
	x.Helper()
	const writers = 16
	var mu sync.Mutex
	var failure error
	revs := make(map[string]uint64, n)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := i; j < n; j += writers {
				k := fmt.Sprintf("many.%d", j)
				rev, err := x.cas(s, store.Write{Key: k, Value: []byte("v")})
				mu.Lock()
				revs[k], failure = rev, errors.Join(failure, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failure != nil {
		x.Fatalf("writing %d keys: %v", n, failure)
	}
	return revs
}

// writeOn writes the keys, and then each of them again and again, until end is
// called or the claim ends.
func (x *exam) writeOn(s store.Store, keys []string) (end func()) {
	x.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	end = sync.OnceFunc(func() { close(stop); wg.Wait() })
	x.Cleanup(end)
	for _, k := range keys {
		rev := x.put(s, k, 0, "first")
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				next, err := x.cas(s, store.Write{Key: k, Expected: rev, Value: []byte("next")})
				if err != nil {
					x.Errorf("writing key %q again: %v", k, err)
					return
				}
				rev = next
			}
		})
	}
	return end
}

// stopWithinPattern calls stop from within deliver, and demands that this
// returns.
func (x *exam) stopWithinPattern(w store.PatternWatcher) {
	x.Helper()
	var stop atomic.Pointer[func()]
	done := make(chan struct{})
	once := sync.OnceFunc(func() { close(done) })
	f := x.begun("WatchPattern", func() (func(), error) {
		return w.WatchPattern(context.Background(), ">", func(store.Entry) {
			if f := stop.Load(); f != nil { // else WatchPattern has not returned
				(*f)()
				(*f)()
				once()
			}
		}, func(error) {})
	})
	stop.Store(&f)
	rev := x.put(w, key, 0, "0")
	x.returns("stop within deliver", func() { <-done })
	for i := range 3 {
		rev = x.put(w, key, rev, fmt.Sprint("unheard ", i))
	}
	x.returns("stop after stop within deliver", f)
}
