package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
)

const key = "group"

// timeout is the deadline of the calls in these tests, in virtual time.
const timeout = time.Second

// only makes a policy in which the first call of the operation on a key has the
// fate.
func only(op faultstore.Op, fate faultstore.Fate) faultstore.Policy {
	return func(c faultstore.Call) faultstore.Fate {
		if c.Op == op && c.N == 0 {
			return fate
		}
		return faultstore.Fate{}
	}
}

// inBubble runs a test in virtual time on fresh registers. A goroutine left
// after Close fails it.
func inBubble(t *testing.T, p faultstore.Policy, test func(t *testing.T, f *faultstore.Faults)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(faultstore.Options{Policy: p})
		defer f.Close()
		test(t, f)
	})
}

// write sends a write with the usual deadline and returns its outcome and how
// long it took.
func write(c *faultstore.Client, expected uint64, value string) (uint64, store.Outcome, time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	start := time.Now()
	rev, err := c.CompareAndSwap(ctx, store.Write{Key: key, Expected: expected, Value: []byte(value)})
	return rev, store.Classify(err), time.Since(start)
}

// demand fails unless the first write ends in the outcome after the time and
// the register then has the revision.
func demand(t *testing.T, f *faultstore.Faults, want store.Outcome, after time.Duration, rev uint64) {
	t.Helper()
	_, got, took := write(f.Client("a"), 0, "v")
	if got != want || took != after {
		t.Errorf("the write ended %v after %v, want %v after %v", got, took, want, after)
	}
	if e := f.Entry(key); e.Revision != rev {
		t.Errorf("the register is at revision %d, want %d", e.Revision, rev)
	}
}

func seen(t *testing.T, f *faultstore.Faults, want ...faultstore.Fault) {
	t.Helper()
	for kind, n := range f.Counts() {
		if (n > 0) != slices.Contains(want, kind) {
			t.Errorf("%v happened %d times; want only %v", kind, n, want)
		}
	}
}

func TestWriteFaultsHaveTheirOutcomes(t *testing.T) {
	for _, c := range []struct {
		name  string
		fate  faultstore.Fate
		want  store.Outcome
		after time.Duration
		rev   uint64
		seen  []faultstore.Fault
	}{
		{"PerfectNetwork", faultstore.Fate{}, store.OK, 0, 1, nil},
		{"DelayedRequest", faultstore.Fate{Delay: 300 * time.Millisecond}, store.OK, 300 * time.Millisecond, 1, []faultstore.Fault{faultstore.DelayedRequest}},
		{"DelayedReply", faultstore.Fate{Reply: 300 * time.Millisecond}, store.OK, 300 * time.Millisecond, 1, []faultstore.Fault{faultstore.DelayedReply}},
		{"LostRequest", faultstore.Fate{Lose: true}, store.Unknown, timeout, 0, []faultstore.Fault{faultstore.LostRequest}},
		{"LostReply", faultstore.Fate{LoseReply: true}, store.Unknown, timeout, 1, []faultstore.Fault{faultstore.LostReply}},
		{"Refusal", faultstore.Fate{Refuse: true}, store.Transient, 0, 0, []faultstore.Fault{faultstore.Refusal}},
		{"Denial", faultstore.Fate{Refuse: true, Deny: true}, store.Permanent, 0, 0, []faultstore.Fault{faultstore.Denial}},
		{"FalseConflict", faultstore.Fate{Conflict: true}, store.Conflict, 0, 0, []faultstore.Fault{faultstore.FalseConflict}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, only(faultstore.CompareAndSwap, c.fate), func(t *testing.T, f *faultstore.Faults) {
				demand(t, f, c.want, c.after, c.rev)
				time.Sleep(time.Hour)
				if e := f.Entry(key); e.Revision != c.rev {
					t.Errorf("an hour later the register is at revision %d, want %d", e.Revision, c.rev)
				}
				seen(t, f, c.seen...)
			})
		})
	}
}

func TestLateWriteIsAppliedAfterItsCallerGaveUp(t *testing.T) {
	inBubble(t, only(faultstore.CompareAndSwap, faultstore.Fate{Late: 3 * time.Second}), func(t *testing.T, f *faultstore.Faults) {
		demand(t, f, store.Unknown, timeout, 0)
		f.Partition("a") // it is beyond the link already
		time.Sleep(3*time.Second - 1)
		if e := f.Entry(key); e.Revision != 0 {
			t.Fatal("the write was applied too early")
		}
		time.Sleep(1 * time.Nanosecond)
		synctest.Wait()
		if e := f.Entry(key); string(e.Value) != "v" {
			t.Fatalf("the late write was not applied: %+v", e)
		}
		seen(t, f, faultstore.LateCommit)
	})
}

func TestLateWriteIsRefusedIfTheRevisionMoved(t *testing.T) {
	p := func(c faultstore.Call) (fate faultstore.Fate) {
		if c.Client == "a" {
			fate.Late = 3 * time.Second
		}
		return fate
	}
	inBubble(t, p, func(t *testing.T, f *faultstore.Faults) {
		demand(t, f, store.Unknown, timeout, 0)
		if rev, o, _ := write(f.Client("b"), 0, "b"); o != store.OK || rev != 1 {
			t.Fatalf("b's write: %v", o)
		}
		time.Sleep(time.Minute)
		if e := f.Entry(key); string(e.Value) != "b" {
			t.Fatalf("the late write was applied: %+v", e)
		}
		seen(t, f, faultstore.LateRefusal)
	})
}

func TestStaleReadAnswersAnEarlierStateWithinItsBound(t *testing.T) {
	p := func(faultstore.Call) faultstore.Fate { return faultstore.Fate{Stale: 10 * time.Second} }
	inBubble(t, p, func(t *testing.T, f *faultstore.Faults) {
		a := f.Client("a")
		for rev := range uint64(5) {
			write(a, rev, "v")
			time.Sleep(4 * time.Second)
		}
		// Written at 0, 4, 8, 12 and 16 s; now it is 20 s.
		if e, err := a.Get(t.Context(), key); err != nil || e.Revision != 3 {
			t.Fatalf("Get = revision %d, %v; want 3, the state of 10 s ago", e.Revision, err)
		}
		seen(t, f, faultstore.StaleRead)
	})
}

// A hearing is what a watch heard, and when.
type hearing struct {
	mu    sync.Mutex
	start time.Time
	heard []string
}

func listen(t *testing.T, c *faultstore.Client, keys ...string) *hearing {
	t.Helper()
	h := &hearing{start: time.Now()}
	stop, err := c.Watch(t.Context(), keys, func(e store.Entry) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.heard = append(h.heard, fmt.Sprintf("%d@%v", e.Revision, time.Since(h.start)))
	})
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	t.Cleanup(stop)
	return h
}

func (h *hearing) demand(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.heard, " "); got != want {
		t.Errorf("the watch heard %q, want %q", got, want)
	}
}

func TestEventFaultsReachTheWatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		fate  faultstore.Fate
		heard string // of writes 1 at 1 s, 2 at 2 s and 3 at 3 s
		seen  []faultstore.Fault
	}{
		{"PerfectNetwork", faultstore.Fate{}, "0@0s 1@1s 2@2s 3@3s", nil},
		{"DelayedEvent", faultstore.Fate{Delay: 1500 * time.Millisecond}, "0@0s 1@2.5s 2@2.5s 3@3s", []faultstore.Fault{faultstore.DelayedEvent}},
		{"LostEvent", faultstore.Fate{Lose: true}, "0@0s 2@2s 3@3s", []faultstore.Fault{faultstore.LostEvent}},
		{"RepeatedEvent", faultstore.Fate{Repeat: 2}, "0@0s 1@1s 1@1s 1@1s 2@2s 3@3s", []faultstore.Fault{faultstore.RepeatedEvent}},
		{"Gap", faultstore.Fate{Gap: 1500 * time.Millisecond}, "0@0s 2@2.5s 3@3s", []faultstore.Fault{faultstore.Gap}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, only(faultstore.Event, c.fate), func(t *testing.T, f *faultstore.Faults) {
				h := listen(t, f.Client("a"), key)
				for rev := range uint64(3) {
					time.Sleep(time.Second)
					write(f.Client("b"), rev, "v")
				}
				time.Sleep(time.Hour)
				h.demand(t, c.heard)
				seen(t, f, c.seen...)
			})
		})
	}
}

func TestPartitionSilencesOneClientUntilItHeals(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		a, b := f.Client("a"), f.Client("b")
		h := listen(t, a, key)
		var states []store.ConnState
		defer a.OnConnState(func(s store.ConnState) { states = append(states, s) })()
		synctest.Wait()
		f.Partition("a")
		if _, o, took := write(a, 0, "a"); o != store.Unknown || took != timeout {
			t.Errorf("a write behind a partition ended %v after %v", o, took)
		}
		if _, o, _ := write(b, 0, "b"); o != store.OK {
			t.Errorf("a write beside a partition ended %v", o)
		}
		if a.ConnState() != store.Disconnected || b.ConnState() != store.Connected {
			t.Errorf("a is %v and b is %v during the partition of a", a.ConnState(), b.ConnState())
		}
		h.demand(t, "0@0s")
		f.Heal("a")
		h.demand(t, "0@0s 1@1s")
		if !slices.Equal(states, []store.ConnState{store.Disconnected, store.Connected}) {
			t.Errorf("a was notified of the states %v", states)
		}
		seen(t, f, faultstore.Partition)
	})
}

func TestBlackHoleIsNotReported(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		f.BlackHole("a")
		demand(t, f, store.Unknown, timeout, 0)
		if s := f.Client("a").ConnState(); s != store.Connected {
			t.Errorf("a black hole is reported as %v", s)
		}
		if _, err := f.Client("a").Watch(t.Context(), []string{key}, func(store.Entry) {}); !errors.Is(err, store.ErrTransient) {
			t.Errorf("Watch behind a black hole: %v", err)
		}
	})
}

// A client's report about its link is independent of the link: a client library
// notices a lost connection late, and a new one before its first answer.
func TestReportDoesNotDependOnTheLink(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		a := f.Client("a")
		var states []store.ConnState
		defer a.OnConnState(func(s store.ConnState) { states = append(states, s) })()
		f.Report(store.Disconnected, "a")
		f.Report(store.Disconnected, "a") // is not news
		if rev, o, took := write(a, 0, "a"); rev != 1 || o != store.OK || took != 0 {
			t.Errorf("a write while the link is reported down: revision %d, %v after %v", rev, o, took)
		}
		f.Partition("a")
		f.Report(store.Connected, "a")
		if _, o, took := write(a, 1, "b"); o != store.Unknown || took != timeout {
			t.Errorf("a write while the link is reported up: %v after %v", o, took)
		}
		if s := f.Client("b").ConnState(); s != store.Connected || a.ConnState() != store.Connected {
			t.Errorf("a is reported %v, b %v", a.ConnState(), s)
		}
		f.Heal("a")
		if want := []store.ConnState{store.Disconnected, store.Connected}; !slices.Equal(states, want) {
			t.Errorf("a was notified of the states %v, want %v", states, want)
		}
		if n := f.Count(faultstore.FalseReport); n != 2 {
			t.Errorf("%d false reports, want 2", n)
		}
	})
}

func TestReplyIsLostIfAPartitionBeginsOnItsWay(t *testing.T) {
	inBubble(t, only(faultstore.CompareAndSwap, faultstore.Fate{Reply: 500 * time.Millisecond}), func(t *testing.T, f *faultstore.Faults) {
		time.AfterFunc(100*time.Millisecond, func() { f.Partition("a") })
		demand(t, f, store.Unknown, timeout, 1)
	})
}

func TestRollbackDropsAcknowledgedWritesAndNotifiesWatches(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		a := f.Client("a")
		write(a, 0, "1")
		time.Sleep(2 * time.Second)
		write(a, 1, "2")
		h := listen(t, a, key)
		synctest.Wait()
		f.Rollback(time.Second)
		h.demand(t, "2@0s 1@0s")
		if rev, o, _ := write(a, 1, "other 2"); rev != 2 || o != store.OK {
			t.Errorf("after the rollback a write got revision %d, %v; want 2 once more", rev, o)
		}
		f.Wipe()
		if e := f.Entry(key); e.Revision != 0 {
			t.Errorf("after the wipe the register is at revision %d", e.Revision)
		}
		h.demand(t, "2@0s 1@0s 2@0s 0@0s")
		seen(t, f, faultstore.Forgotten)
	})
}

func TestRecreatedStoreIsEmptyAndReportsItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := false
		f := faultstore.New(faultstore.Options{Ages: true, Policy: func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Delay: timeout / 2, Lose: c.Op == faultstore.Check && lost}
		}})
		defer f.Close()
		a := f.Client("a")
		check := func() (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			report, err := a.Check(ctx, store.CheckRequest{})
			return report.Age, err
		}
		write(a, 0, "1")
		if age, err := check(); age != timeout || err != nil {
			t.Errorf("after a write and a question it is %v old: %v", age, err)
		}
		f.Remake()
		if e := f.Entry(key); e.Revision != 0 {
			t.Errorf("it begins with %+v", e)
		}
		if age, err := check(); age != timeout/2 || err != nil {
			t.Errorf("made again, it is %v old after a question: %v", age, err)
		}
		if rev, o, _ := write(a, 0, "2"); rev != 2 || o != store.OK {
			t.Errorf("its first write got revision %d, %v", rev, o)
		}
		lost = true
		if age, err := check(); age != 0 || store.Classify(err) != store.Transient {
			t.Errorf("a question that is lost: %v, %v", age, err)
		}
	})
}

func TestWritesOfForeignToolsAreDelivered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		h := listen(t, f.Client("a"), key)
		for _, do := range []func(){func() { f.Put(key, []byte("foreign")) }, func() { f.Delete(key) }, func() { f.Purge(key) }} {
			time.Sleep(time.Second)
			do()
		}
		h.demand(t, "0@0s 1@1s 2@2s 0@3s")
		if rev, _, _ := write(f.Client("a"), 0, "v"); rev != 3 {
			t.Errorf("after a purge the next revision is %d, want 3", rev)
		}
	})
}

func TestCloseEndsCallsAndForgetsLateWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(faultstore.Options{Policy: only(faultstore.CompareAndSwap, faultstore.Fate{Late: time.Minute})})
		listen(t, f.Client("a"), key)
		outcome := make(chan store.Outcome)
		go func() {
			_, err := f.Client("a").CompareAndSwap(t.Context(), store.Write{Key: key})
			outcome <- store.Classify(err)
		}()
		synctest.Wait()
		f.Close()
		if o := <-outcome; o != store.Unknown {
			t.Errorf("the call under way ended %v", o)
		}
		time.Sleep(time.Hour)
		if e := f.Entry(key); e.Revision != 0 {
			t.Error("a late write was applied after Close")
		}
		f.Close()
	})
}

// storm lets clients count in one register while everything goes wrong, and
// returns the acknowledged increments, the final count and how often each fault
// happened.
func storm(t *testing.T, seed uint64) (acked, unknown, final int, f *faultstore.Faults) {
	rough := faultstore.Random(seed, faultstore.Rough())
	f = faultstore.New(faultstore.Options{Policy: func(c faultstore.Call) faultstore.Fate {
		fate := rough(c)
		fate.Deny = c.N%50 == 7 // no network decides on that
		return fate
	}})
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 4 {
		c := f.Client(fmt.Sprint(i))
		listenQuietly(t, c)
		wg.Go(func() {
			for range 100 {
				o := increment(c)
				mu.Lock()
				switch o {
				case store.OK:
					acked++
				case store.Unknown:
					unknown++
				case store.Conflict, store.Transient, store.Permanent: // no effect
				}
				mu.Unlock()
			}
		})
	}
	for i := range 20 {
		time.Sleep(3 * time.Second)
		f.Partition(fmt.Sprint(i % 4))
		f.Report(store.Disconnected, fmt.Sprint((i+1)%4))
		time.Sleep(2 * time.Second)
		f.Heal(fmt.Sprint(i%4), fmt.Sprint((i+1)%4))
	}
	wg.Wait()
	time.Sleep(time.Minute) // late commits
	_, _ = fmt.Sscan(string(f.Entry(key).Value), &final)
	return acked, unknown, final, f
}

// listenQuietly watches the key, if the network lets it.
func listenQuietly(t *testing.T, c *faultstore.Client) {
	for {
		stop, err := c.Watch(t.Context(), []string{key}, func(store.Entry) {})
		if err == nil {
			t.Cleanup(stop)
			return
		}
	}
}

// increment tries once to add one.
func increment(c *faultstore.Client) store.Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	e, err := c.Get(ctx, key)
	if err != nil {
		return store.Transient
	}
	n := 0
	_, _ = fmt.Sscan(string(e.Value), &n)
	_, err = c.CompareAndSwap(ctx, store.Write{Key: key, Expected: e.Revision, Value: fmt.Append(nil, n+1)})
	return store.Classify(err)
}

func TestNoFaultBreaksCompareAndSwapAndEachHappens(t *testing.T) {
	unseen := map[faultstore.Fault]int{}
	const seeds = 10
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			acked, unknown, final, f := storm(t, seed)
			defer f.Close()
			if final < acked || final > acked+unknown {
				t.Errorf("seed %d: the count is %d after %d acknowledged and %d unknown increments", seed, final, acked, unknown)
			}
			for _, kind := range f.Unseen() {
				unseen[kind]++
			}
		})
	}
	for kind, n := range unseen {
		if n == seeds && kind != faultstore.Forgotten { // nobody asked for a rollback
			t.Errorf("%v never happened", kind)
		}
	}
}

func TestFatesRepeatForTheSameSeed(t *testing.T) {
	call := faultstore.Call{Client: "a", Op: faultstore.CompareAndSwap, Key: key}
	p, q, r := faultstore.Random(1, faultstore.Rough()), faultstore.Random(1, faultstore.Rough()), faultstore.Random(2, faultstore.Rough())
	differs := 0
	for call.N = range 100 {
		if p(call) != q(call) {
			t.Fatalf("call %d has two fates under one seed", call.N)
		}
		if p(call) != r(call) {
			differs++
		}
	}
	if differs < 90 {
		t.Errorf("two seeds agree on %d of 100 fates", 100-differs)
	}
}

// Schedules that are on record by their seeds must go on being what they were.
func TestFatesOfASeedStayAsTheyWere(t *testing.T) {
	sum := fnv.New64a()
	for op := faultstore.Get; op <= faultstore.Event; op++ {
		for n := range uint64(100) {
			f := faultstore.Random(7, faultstore.Rough())(faultstore.Call{Client: "a", Op: op, Key: key, N: n})
			fmt.Fprint(sum, f.Delay, f.Lose, f.Late, f.Refuse, f.Conflict, f.Stale, f.LoseReply, f.Reply, f.Repeat, f.Gap, ";")
		}
	}
	if got, want := sum.Sum64(), uint64(1643564334233448781); got != want {
		t.Errorf("the fates' sum is %d, want %d", got, want)
	}
}
