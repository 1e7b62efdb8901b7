package storetest

import (
	"fmt"
	"sync"

	"github.com/seed-ff2cb582/leader/store"
)

var interruptClaims = []claim{
	{"WritesSurviveAnInterruption", interrupting, func(x *exam) {
		s := x.open()
		live := x.put(s, "live", 0, "held")
		vacant := x.must(s, store.Write{Key: "vacant", Value: []byte("vacant"), Tombstone: true})
		x.interrupt()
		x.holds(s, "live", live, []byte("held"), false)
		x.holds(s, "vacant", vacant, []byte("vacant"), true)
	}},
	{"ClientServesAgainAfterAnInterruption", interrupting, func(x *exam) {
		s, rev := x.open(), uint64(0)
		for i := range 3 {
			rev = x.eventually(s, rev, fmt.Sprint(i))
			x.interrupt()
		}
		rev = x.eventually(s, rev, "last")
		x.holds(s, key, rev, []byte("last"), false)
	}},
	{"RevisionsIncreaseAcrossAnInterruption", interrupting, func(x *exam) {
		s := x.open()
		r1 := x.put(s, key, 0, "before")
		x.interrupt()
		r2 := x.eventually(s, r1, "after")
		if r2 <= r1 {
			x.Fatalf("revision %d follows %d", r2, r1)
		}
		x.conflicts(s, key, r1)
	}},
	{"WriteDuringAnInterruptionIsResolvedByTheNext", interrupting, func(x *exam) {
		a, b := x.open(), x.open()
		rev := x.put(a, key, 0, "held")
		w := attempt{write: store.Write{Key: key, Expected: rev, Value: []byte("during")}}
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := x.within()
			defer cancel()
			w.rev, w.err = a.CompareAndSwap(ctx, w.write)
		})
		x.interrupt()
		wg.Wait()
		if c := store.Classify(w.err); c == store.Conflict || c == store.Permanent {
			x.Fatalf("the only write during an interruption returned %v (%v)", w.err, c)
		}
		x.get(b, key) // serves again
		x.settle(b, w)
	}},
	{"WatchHearsOfWritesAfterAnInterruption", watching | interrupting, func(x *exam) {
		w, other := x.watcher(), x.open()
		rev := x.put(w, key, 0, "before")
		r := x.watch(w, key)
		r.reaches(key, rev, "before", false)
		x.interrupt()
		rev = x.eventually(other, rev, "after")
		r.reaches(key, rev, "after", false)
	}},
	{"WatchRepeatsThePresentStateAfterAnInterruption", watching | interrupting, func(x *exam) {
		w := x.watcher()
		rev := x.put(w, "a", 0, "held")
		r := x.watch(w, "a", "b")
		r.reaches("a", rev, "held", false)
		r.begins("b")
		na, nb := len(r.entries("a")), len(r.entries("b"))
		x.interrupt()
		x.poll("each key's state to be heard once more", func() bool {
			return len(r.entries("a")) > na && len(r.entries("b")) > nb
		})
	}},
	{"WatchOutlivesManyInterruptions", watching | interrupting, func(x *exam) {
		w, other, rev := x.watcher(), x.open(), uint64(0)
		rs := []*recorder{x.watch(w, key), x.watch(w, key, "other"), x.watch(x.watcher(), key)}
		for i := range 4 {
			x.interrupt()
			rev = x.eventually(other, rev, fmt.Sprint(i))
			for _, r := range rs {
				r.reaches(key, rev, fmt.Sprint(i), false)
			}
		}
	}},
	{"WatchMayBeStoppedAcrossAnInterruption", watching | interrupting, func(x *exam) {
		w := x.watcher()
		rev := x.put(w, key, 0, "held")
		r := x.watch(w, key)
		r.begins(key)
		x.returns("stop during an interruption", func() {
			var wg sync.WaitGroup
			wg.Go(r.stop)
			x.interrupt()
			wg.Wait()
		})
		r.end()
		x.get(w, key) // serves again
		x.stillSilent(w, r, rev)
	}},
	{"ConnectionIsReportedAgainAfterAnInterruption", interrupting, func(x *exam) {
		opened := x.open()
		s, ok := opened.(store.ConnReporter)
		if !ok {
			x.Skip("the store is not a store.ConnReporter, and counts as connected")
		}
		// The contract does not ask more of a store that nobody watches.
		if w, ok := opened.(store.Watcher); ok {
			x.watch(w, key).begins(key)
		}
		var mu sync.Mutex
		var states []store.ConnState
		stop := s.OnConnState(func(c store.ConnState) { mu.Lock(); states = append(states, c); mu.Unlock() })
		x.Cleanup(stop)
		x.interrupt()
		x.poll("the connection to be reported as lost and made again", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(states) >= 2 && states[len(states)-1] == store.Connected && s.ConnState() == store.Connected
		})
	}},
}

// interrupt breaks every connection and waits until the server can be reached
// again.
func (x *exam) interrupt() {
	x.Helper()
	if err := x.h.Interrupt(); err != nil {
		x.Fatalf("Harness.Interrupt: %v", err)
	}
}

// eventually writes the key while the store recovers: an unknown outcome is
// resolved by the next attempt, as an election does.
func (x *exam) eventually(s store.Store, expected uint64, value string) (rev uint64) {
	x.Helper()
	x.poll("a write after the interruption", func() bool {
		r, err := x.cas(s, store.Write{Key: key, Expected: expected, Value: []byte(value)})
		switch store.Classify(err) {
		case store.OK:
			rev = r
			return true
		case store.Conflict:
			e := x.get(s, key)
			if e.Revision <= expected {
				return false // read from a replica that lags
			}
			if string(e.Value) != value {
				x.Fatalf("the only write to key %q returned %v, and the key holds %s at revision %d", key, err, brief(e.Value), e.Revision)
			}
			rev = e.Revision
			return true
		case store.Permanent:
			x.Fatalf("a write after the interruption: %v", err)
		case store.Transient, store.Unknown: // not recovered yet
		}
		return false
	})
	return rev
}
