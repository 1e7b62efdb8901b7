package storetest

import (
	"fmt"
	"math"

	"github.com/seed-ff2cb582/leader/store"
)

var getClaims = []claim{
	{"UnknownKeyHasRevisionZeroAndIsNoError", 0, func(x *exam) {
		if e := x.get(x.open(), key); e.Revision != 0 {
			x.Fatalf("a key that was never written is at revision %d", e.Revision)
		}
	}},
	{"GetReturnsWhatWasWritten", 0, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "value")
		x.holds(s, key, rev, []byte("value"), false)
	}},
	{"ClientsSeeEachOthersWrites", 0, func(x *exam) {
		a, b := x.open(), x.open()
		r1 := x.put(a, key, 0, "a")
		x.holds(b, key, r1, []byte("a"), false)
		r2 := x.put(b, key, r1, "b")
		x.holds(a, key, r2, []byte("b"), false)
	}},
	{"ReadsNeverRunAheadOfWrites", 0, func(x *exam) {
		s, rev := x.open(), uint64(0)
		for i := range 50 {
			rev = x.put(s, key, rev, fmt.Sprint(i))
			if e := x.get(s, key); e.Revision > rev {
				x.Fatalf("Get shows revision %d, the only writer has written %d", e.Revision, rev)
			}
		}
		x.holds(s, key, rev, []byte("49"), false)
	}},
	{"ConnectionCountsAsConnectedWhenOpen", 0, func(x *exam) {
		s, ok := x.open().(store.ConnReporter)
		if !ok {
			x.Skip("the store is not a store.ConnReporter, and counts as connected")
		}
		if c := s.ConnState(); c != store.Connected {
			x.Fatalf("ConnState() = %v", c)
		}
		stop := s.OnConnState(func(store.ConnState) {})
		stop()
	}},
	{"CheckAcceptsTheStore", 0, func(x *exam) {
		s, ok := x.open().(store.Checker)
		if !ok {
			x.Skip("the store is not a store.Checker")
		}
		ctx, cancel := x.within()
		defer cancel()
		report, err := s.Check(ctx, store.CheckRequest{TTL: x.caps.TTL})
		if err != nil {
			x.Fatalf("Check: %v (%v)", err, store.Classify(err))
		}
		for _, w := range report.Warnings {
			x.Logf("warning: %s", w)
		}
	}},
}

var casClaims = []claim{
	{"FirstWriteExpectsZero", async, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "first")
		x.holds(s, key, rev, []byte("first"), false)
	}},
	{"ExpectedZeroConflictsOnALiveKey", 0, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "live")
		x.conflicts(s, key, 0)
		x.holds(s, key, rev, []byte("live"), false)
	}},
	{"ExpectedZeroConflictsOnATombstone", 0, func(x *exam) {
		s := x.open()
		rev := x.must(s, store.Write{Key: key, Value: []byte("vacant"), Tombstone: true})
		x.conflicts(s, key, 0)
		x.holds(s, key, rev, []byte("vacant"), true)
	}},
	{"ExpectedZeroConflictsWhileADeletedKeyIsKnown", deleting, func(x *exam) {
		s := x.open()
		e := x.deleted(s, key, x.put(s, key, 0, "live"))
		if e.Revision == 0 {
			x.Skip("the store's tool leaves no trace of a deleted key")
		}
		x.conflicts(s, key, 0)
	}},
	{"NonzeroExpectedConflictsOnAnUnknownKey", 0, func(x *exam) {
		s := x.open()
		other := x.put(s, "other", 0, "other")
		for _, expected := range []uint64{1, 2, other, other + 1, math.MaxUint64} {
			x.conflicts(s, key, expected)
		}
		if e := x.get(s, key); e.Revision != 0 {
			x.Fatalf("a refused write left revision %d", e.Revision)
		}
	}},
	{"EarlierRevisionConflicts", async, func(x *exam) {
		s := x.open()
		r1 := x.put(s, key, 0, "1")
		r2 := x.put(s, key, r1, "2")
		r3 := x.put(s, key, r2, "3")
		for _, expected := range []uint64{r1, r2, r3 - 1} {
			x.conflicts(s, key, expected)
		}
		x.holds(s, key, r3, []byte("3"), false)
	}},
	{"LaterRevisionConflicts", 0, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "1")
		for _, expected := range []uint64{rev + 1, rev + 1000, 1 << 53, math.MaxInt64, math.MaxInt64 + 1} {
			if expected > rev {
				x.conflicts(s, key, expected)
			}
		}
		x.holds(s, key, rev, []byte("1"), false)
	}},
	{"LargestRevisionConflicts", async, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "1")
		x.conflicts(s, key, math.MaxUint64)
		x.conflicts(s, key, math.MaxUint64-1)
		x.holds(s, key, rev, []byte("1"), false)
	}},
	{"ConflictLeavesTheRegisterUnchanged", async, func(x *exam) {
		s := x.open()
		r1 := x.put(s, key, 0, "1")
		r2 := x.must(s, store.Write{Key: key, Expected: r1, Value: []byte("2"), Tombstone: true})
		for range 20 {
			x.conflicts(s, key, r1)
		}
		x.holds(s, key, r2, []byte("2"), true)
		x.put(s, key, r2, "3")
	}},
	{"RevisionOnceReplacedIsNeverAcceptedAgain", 0, func(x *exam) {
		s := x.open()
		r1 := x.put(s, key, 0, "same")
		r2 := x.put(s, key, r1, "other")
		r3 := x.put(s, key, r2, "same")
		x.conflicts(s, key, r1)
		x.conflicts(s, key, r2)
		x.holds(s, key, r3, []byte("same"), false)
	}},
	{"SameValueIsANewRevision", 0, func(x *exam) {
		s := x.open()
		r1 := x.put(s, key, 0, "same")
		r2 := x.put(s, key, r1, "same")
		x.conflicts(s, key, r1)
		x.holds(s, key, r2, []byte("same"), false)
	}},
	{"RevisionsStrictlyIncrease", async, func(x *exam) {
		s, rev := x.open(), uint64(0)
		for i := range 200 {
			rev = x.put(s, key, rev, fmt.Sprint(i)) // must demands that it is larger than rev
		}
		x.holds(s, key, rev, []byte("199"), false)
	}},
	{"RevisionsStayBelowTwoToThe53", 0, func(x *exam) {
		if rev := x.put(x.open(), key, 0, "1"); rev >= 1<<53 {
			x.Fatalf("a write has the revision %d: a record could not state it, and each renewal would end its own term", rev)
		}
	}},
	{"RevisionsIncreaseAcrossTombstones", 0, func(x *exam) {
		s, rev := x.open(), uint64(0)
		for i := range 40 {
			rev = x.must(s, store.Write{Key: key, Expected: rev, Value: fmt.Append(nil, i), Tombstone: i%2 == 1})
		}
		x.holds(s, key, rev, []byte("39"), true)
	}},
	{"RevisionsIncreaseAcrossForeignDeletion", deleting, func(x *exam) {
		s := x.open()
		last := x.put(s, key, 0, "0")
		for i := range 5 {
			e := x.deleted(s, key, last)
			if e.Revision != 0 && e.Revision < last {
				x.Fatalf("the deletion has revision %d, after %d", e.Revision, last)
			}
			rev := x.put(s, key, e.Revision, fmt.Sprint(i))
			if rev <= last {
				x.Fatalf("made again after its deletion, the key is at revision %d; it was at %d before", rev, last)
			}
			x.conflicts(s, key, last)
			last = rev
		}
	}},
	{"RevisionsIncreaseAcrossPurge", purging, func(x *exam) {
		s := x.open()
		last := x.put(s, key, 0, "1")
		last = x.put(s, key, last, "2")
		if err := x.h.Purge(key); err != nil {
			x.Fatalf("Harness.Purge: %v", err)
		}
		e := x.after(s, key, last, "the purge", func(store.Entry) bool { return true })
		if rev := x.put(s, key, e.Revision, "3"); rev <= last {
			x.Fatalf("made again after its purge, the key is at revision %d; it was at %d before", rev, last)
		}
		x.conflicts(s, key, last)
	}},
	{"ForeignDeletionReadsAsEmptyTombstoneOrUnknown", deleting, func(x *exam) {
		s := x.open()
		e := x.deleted(s, key, x.put(s, key, 0, "live"))
		if len(e.Value) != 0 {
			x.Errorf("a foreign deletion left the value %s", brief(e.Value))
		}
		if e.Revision != 0 && !e.Tombstone {
			x.Errorf("a foreign deletion at revision %d is not a tombstone", e.Revision)
		}
	}},
	{"ForeignDeletionDefeatsTheHeldRevision", deleting, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "live")
		x.deleted(s, key, rev)
		x.conflicts(s, key, rev)
	}},
	{"ForeignWriteDefeatsTheHeldRevision", putting, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "ours")
		if err := x.h.Put(key, []byte("foreign")); err != nil {
			x.Fatalf("Harness.Put: %v", err)
		}
		e := x.reach(s, key, rev+1)
		if string(e.Value) != "foreign" || e.Tombstone {
			x.Fatalf("after a foreign write Get shows %+v", e)
		}
		x.conflicts(s, key, rev)
		x.put(s, key, e.Revision, "ours again")
	}},
	{"ForeignWriteOnAnUnknownKeyDefeatsExpectedZero", putting, func(x *exam) {
		s := x.open()
		if err := x.h.Put(key, []byte("foreign")); err != nil {
			x.Fatalf("Harness.Put: %v", err)
		}
		x.conflicts(s, key, 0)
		x.put(s, key, x.reach(s, key, 1).Revision, "ours")
	}},
	{"TombstoneKeepsRevisionAndValue", async, func(x *exam) {
		a, b := x.open(), x.open()
		rev := x.put(a, key, 0, "held")
		rev = x.must(a, store.Write{Key: key, Expected: rev, Value: []byte(`{"reason":"release"}`), Tombstone: true})
		x.holds(a, key, rev, []byte(`{"reason":"release"}`), true)
		x.holds(b, key, rev, []byte(`{"reason":"release"}`), true)
	}},
	{"TombstoneIsReplacedByCompareAndSwap", 0, func(x *exam) {
		s := x.open()
		rev := x.must(s, store.Write{Key: key, Value: []byte("vacant"), Tombstone: true})
		next := x.put(s, key, rev, "held")
		x.holds(s, key, next, []byte("held"), false)
		x.conflicts(s, key, rev)
	}},
	{"TombstoneMayBeTheFirstWrite", 0, func(x *exam) {
		s := x.open()
		rev := x.must(s, store.Write{Key: key, Value: []byte("vacant"), Tombstone: true})
		x.holds(s, key, rev, []byte("vacant"), true)
	}},
	{"TombstoneMayReplaceATombstone", 0, func(x *exam) {
		s := x.open()
		r1 := x.must(s, store.Write{Key: key, Value: []byte("1"), Tombstone: true})
		r2 := x.must(s, store.Write{Key: key, Expected: r1, Value: []byte("2"), Tombstone: true})
		x.holds(s, key, r2, []byte("2"), true)
		x.conflicts(s, key, r1)
	}},
	{"TombstoneMayBeEmpty", 0, func(x *exam) {
		s := x.open()
		rev := x.must(s, store.Write{Key: key, Tombstone: true})
		x.holds(s, key, rev, nil, true)
		x.put(s, key, rev, "next")
	}},
	{"TombstoneReadsAsDeletedToForeignTools", seeing, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "held")
		x.visible(key, true)
		rev = x.must(s, store.Write{Key: key, Expected: rev, Value: []byte("vacant"), Tombstone: true})
		x.visible(key, false)
		x.put(s, key, rev, "held again")
		x.visible(key, true)
	}},
}

// visible waits until the foreign tool shows the key as existing, or as not.
func (x *exam) visible(key string, want bool) {
	x.Helper()
	x.poll(fmt.Sprintf("the store's own tool to show key %q: %t", key, want), func() bool {
		got, err := x.h.Visible(key)
		if err != nil {
			x.Fatalf("Harness.Visible(%q): %v", key, err)
		}
		return got == want
	})
}
