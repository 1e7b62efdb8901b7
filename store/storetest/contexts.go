package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

var contextClaims = []claim{
	{"CancelledContextEndsAWriteHonestly", async, func(x *exam) {
		s := x.open()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		x.doomed(ctx, s)
	}},
	{"PassedDeadlineEndsAWriteHonestly", async, func(x *exam) {
		s := x.open()
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer cancel()
		x.doomed(ctx, s)
	}},
	{"CancelledContextEndsARead", 0, func(x *exam) {
		s := x.open()
		x.put(s, key, 0, "v")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		x.doomedRead(ctx, s)
	}},
	{"PassedDeadlineEndsARead", 0, func(x *exam) {
		s := x.open()
		x.put(s, key, 0, "v")
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer cancel()
		x.doomedRead(ctx, s)
	}},
	{"AbandonedCallsDoNotHarmLaterOnes", async, func(x *exam) {
		s, rev := x.open(), uint64(0)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for i := range 50 {
			_, _ = s.Get(ctx, "other")
			_, _ = s.CompareAndSwap(ctx, store.Write{Key: "other", Value: []byte("abandoned")})
			rev = x.put(s, key, rev, fmt.Sprint(i))
		}
		x.holds(s, key, rev, []byte("49"), false)
	}},
	{"WriteAbandonedInFlightIsNeverToldAConflict", async, func(x *exam) {
		a, b := x.open(), x.open()
		for i, d := range delays() {
			k := fmt.Sprintf("abandoned/%d", i) // nobody else writes it: a conflict is a lie
			x.settle(b, x.abandon(a, k, 0, d))
		}
	}},
	{"WriteAbandonedInFlightIsResolvedByTheNext", async, func(x *exam) {
		a, b := x.open(), x.open()
		for i, d := range delays() {
			k := fmt.Sprintf("resolved/%d", i)
			rev := x.put(b, k, 0, "held")
			x.settle(b, x.abandon(a, k, rev, d))
		}
	}},
	{"CancelledRaceHasAtMostOneWinner", async, func(x *exam) {
		cs := x.clients(3)
		for i, d := range delays()[:20] {
			x.cancelledRace(cs, fmt.Sprintf("race/%d", i), d)
		}
	}},
}

// delays are the moments at which calls are abandoned: before, during and after
// what a call takes on anything between memory and a distant cluster.
func delays() []time.Duration {
	var ds []time.Duration
	for d := time.Duration(0); d < 2*time.Millisecond; d += 25 * time.Microsecond {
		ds = append(ds, d)
	}
	return append(ds, 5*time.Millisecond, 20*time.Millisecond)
}

// doomed sends a write under a context that is done already, and demands that
// the call ends with an honest outcome.
func (x *exam) doomed(ctx context.Context, s store.Store) {
	x.Helper()
	a := attempt{write: store.Write{Key: key, Value: []byte("doomed")}}
	x.returns("CompareAndSwap", func() { a.rev, a.err = s.CompareAndSwap(ctx, a.write) })
	c := store.Classify(a.err)
	// An asynchronous write is canceled after it has started, and may have been
	// answered by then. settle checks that the answer is true.
	_, begun := s.(unwaited)
	answered := c == store.OK && begun && errors.Is(ctx.Err(), context.Canceled)
	if !answered && c != store.Unknown && c != store.Transient {
		x.Fatalf("CompareAndSwap under %v = %d, %v (%v); want an unknown or a transient outcome", ctx.Err(), a.rev, a.err, c)
	}
	x.settle(s, a)
}

// doomedRead reads under a context that is done already.
func (x *exam) doomedRead(ctx context.Context, s store.Store) {
	x.Helper()
	var err error
	x.returns("Get", func() { _, err = s.Get(ctx, key) })
	if c := store.Classify(err); c != store.Transient {
		x.Fatalf("Get under %v: %v (%v); want a transient failure", ctx.Err(), err, c)
	}
}

// returns demands that f returns.
func (x *exam) returns(what string, f func()) {
	x.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(x.caps.Patience):
		x.Fatalf("%s did not return within %v", what, x.caps.Patience)
	}
}

// abandon sends the only write to k that expects this revision, and gives it up
// after d.
func (x *exam) abandon(s store.Store, k string, expected uint64, d time.Duration) attempt {
	x.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	a := attempt{write: store.Write{Key: k, Expected: expected, Value: []byte("abandoned")}}
	x.returns("CompareAndSwap", func() { a.rev, a.err = s.CompareAndSwap(ctx, a.write) })
	if c := store.Classify(a.err); c == store.Conflict || c == store.Permanent {
		x.Fatalf("the only write to key %q returned %v (%v)", k, a.err, c)
	}
	return a
}

// settle sends a separate write that expects the same revision as a, whose
// outcome is unknown, and requires that exactly one of the two was applied and
// that a's outcome is true. This is how an election resolves an unknown
// outcome.
func (x *exam) settle(s store.Store, a attempt) {
	x.Helper()
	mine := store.Write{Key: a.write.Key, Expected: a.write.Expected, Value: []byte("settled")}
	rev, err := x.cas(s, mine)
	switch store.Classify(err) {
	case store.OK:
		if a.err == nil {
			x.Fatalf("key %q: two writes that expected revision %d were acknowledged, %d and %d", mine.Key, mine.Expected, a.rev, rev)
		}
		x.holds(s, mine.Key, rev, mine.Value, false)
	case store.Conflict:
		if c := store.Classify(a.err); c != store.OK && c != store.Unknown {
			x.Fatalf("key %q: a write returned %v (%v), which means that it had no effect, but it was applied", mine.Key, a.err, c)
		}
		e := x.reach(s, mine.Key, max(a.rev, mine.Expected+1))
		x.holds(s, mine.Key, e.Revision, a.write.Value, a.write.Tombstone)
	default:
		x.Fatalf("settling key %q: %v", mine.Key, err)
	}
}

// cancelledRace lets three writers race for k under one context that ends after
// d.
func (x *exam) cancelledRace(cs []store.Store, k string, d time.Duration) {
	x.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	results := make(chan attempt, len(cs))
	for i, s := range cs {
		go func() {
			a := attempt{write: store.Write{Key: k, Value: fmt.Appendf(nil, "racer %d", i)}}
			a.rev, a.err = s.CompareAndSwap(ctx, a.write)
			results <- a
		}()
	}
	var won []attempt
	lost := map[string]error{}
	for range cs {
		select {
		case a := <-results:
			if a.err == nil {
				won = append(won, a)
			} else if store.Classify(a.err) != store.Unknown {
				lost[string(a.write.Value)] = a.err
			}
		case <-time.After(x.caps.Patience):
			x.Fatalf("CompareAndSwap did not return within %v of its context's end", x.caps.Patience)
		}
	}
	if len(won) > 1 {
		x.Fatalf("key %q: %d writes that expected revision 0 were acknowledged", k, len(won))
	}
	_, _ = x.cas(cs[0], store.Write{Key: k, Value: []byte("settled")})
	e := x.reach(cs[0], k, 1)
	if err := lost[string(e.Value)]; err != nil {
		x.Fatalf("key %q holds %s, whose write reported that it was not applied: %v", k, brief(e.Value), err)
	}
	if len(won) == 1 && !bytes.Equal(e.Value, won[0].write.Value) {
		x.Fatalf("key %q holds %s, but %s was acknowledged", k, brief(e.Value), brief(won[0].write.Value))
	}
}
