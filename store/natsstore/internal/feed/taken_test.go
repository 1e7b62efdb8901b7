package feed

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// What the server takes away is found out of each feed, told once, read until
// it is back, and asked for again.
func TestASubscriptionThatIsTakenAwayIsAskedForAgain(t *testing.T) {
	b := newBench("leader.b.", false)
	b.denied = denial("leader.b.x") // of a subscription before
	for _, key := range []string{"x", "y"} {
		if err := b.Add(key); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.Open(&viewer{b, ">"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Inbox(&viewer{b, "inbox"}, func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	// After has the set look once more, while these subjects are denied.
	after := func(d time.Duration, denied []string, what ...string) {
		t.Helper()
		now = now.Add(d)
		b.work(now)
		for len(b.pings) > 0 {
			done := b.pings[0]
			b.pings = b.pings[1:]
			if lost := slices.Index(denied, ""); lost >= 0 { // the first answer does not come
				denied = slices.Delete(slices.Clone(denied), lost, lost+1)
				done(false)
				continue
			}
			if slices.Contains(denied, b.latest) {
				b.denied = denial(b.latest)
			}
			done(true)
		}
		slices.Sort(b.told)
		b.only(t, what...)
	}
	stands := func(x, y, view bool) {
		t.Helper()
		if b.Brings("x") != x || b.Brings("y") != y || all.Standing() != view || (all.Taken() == nil) != view {
			t.Errorf("x %v, y %v, the view %v", b.Brings("x"), b.Brings("y"), all.Standing())
		}
	}
	after(0, nil, "read x", "read y", "view resumed") // an older denial is not theirs, but may hide one
	b.denied = denial("leader.c.x")
	after(lookForTaken, nil) // so may that of another bucket, and soon after that it waits
	stands(true, true, true)
	b.denied = denial("leader.b.>") // and of x, before that
	after(lookForTaken, []string{"", "leader.b.>", "leader.b.x"}, "read x", "read y", "view taken")
	stands(false, true, false)
	after(lookForTaken, nil)
	after(retryTaken, []string{"leader.b.>", "leader.b.x"})
	stands(false, true, false)
	after(2*retryTaken, []string{"leader.b.>"}, "read x")
	stands(true, true, false)
	after(2*retryTaken, nil, "view resumed")
	stands(true, true, true)
	b.denied = denial("leader.b.>")
	after(lookForTaken, []string{"leader.b.>"}, "read x", "read y", "view taken")
	b.Interrupted()
	stands(true, true, true)
}

// denial is what a server reports of a subscription.
func denial(subject string) error {
	return fmt.Errorf("%w: Permissions Violation for Subscription to %q (sid \"1\")", nats.ErrPermissionViolation, subject)
}

// The connection shows its latest error alone. One of the program's own, or of
// a read that follows, hid that a subscription was taken away, for as long as
// there were such.
func TestWhatIsReportedMayHideWhatWasTaken(t *testing.T) {
	begin := func(t *testing.T) (*bench, time.Time) {
		t.Helper()
		b, now := newBench("leader.b.", false), time.Now()
		for _, key := range []string{"x", "y"} {
			if err := b.Add(key); err != nil {
				t.Fatal(err)
			}
		}
		b.work(now)
		if len(b.pings) != 0 {
			t.Fatal("nothing was reported, and feeds are asked for again")
		}
		return b, now
	}
	// Answer has the server answer all that is asked, when deny has reported.
	answer := func(b *bench, deny func(subject string)) {
		for len(b.pings) > 0 {
			done := b.pings[0]
			b.pings = b.pings[1:]
			deny(b.latest)
			done(true)
		}
	}
	foreign := func() error {
		return fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, "elsewhere")
	}
	both := func(t *testing.T, b *bench, brings bool) {
		t.Helper()
		if b.Brings("x") != brings || b.Brings("y") != brings {
			t.Errorf("x brings %v, y brings %v, want %v", b.Brings("x"), b.Brings("y"), brings)
		}
	}

	t.Run("at first", func(t *testing.T) {
		b, now := begin(t)
		b.denied = foreign() // after the denials of both
		b.work(now.Add(lookForTaken))
		answer(b, func(subject string) { b.denied = denial(subject) })
		both(t, b, false)
		b.work(now.Add(lookForTaken + 2*retryTaken)) // what is taken is asked for again
		answer(b, func(string) {})
		both(t, b, true)
	})
	t.Run("while it is asked for again", func(t *testing.T) {
		b, now := begin(t)
		b.denied = denial("leader.b.x")
		b.work(now.Add(lookForTaken))
		hidden := map[string]bool{}
		answer(b, func(subject string) {
			if b.denied = denial(subject); !hidden[subject] {
				hidden[subject], b.denied = true, foreign()
			}
		})
		both(t, b, false)
	})
	t.Run("all the time", func(t *testing.T) {
		b, now := begin(t)
		rounds := 0
		for range 10 * int(doubtMost/lookForTaken) {
			b.denied = foreign()
			now = now.Add(lookForTaken)
			b.work(now)
			if len(b.pings) > 0 {
				rounds++
			}
			answer(b, func(string) { b.denied = foreign() })
		}
		both(t, b, true) // as far as anyone knows
		if rounds < 9 || rounds > 15 {
			t.Errorf("%d rounds in the time of 10 of the rarest", rounds)
		}
		b.denied = nil
		b.work(now.Add(doubtMost))
		answer(b, func(subject string) { b.denied = denial(subject) })
		both(t, b, false)
	})
}

// What happens while feeds are asked for again, one after the other.
func TestFeedsComeAndGoWhileTheyAreAskedForAgain(t *testing.T) {
	b, now := newBench("leader.b.", false), time.Now()
	for _, key := range []string{"x", "y", "z"} {
		if err := b.Add(key); err != nil {
			t.Fatal(err)
		}
	}
	b.denied = denial("leader.b.x")
	for range 3 {
		now = now.Add(lookForTaken)
		b.work(now)
		if len(b.pings) != 1 {
			t.Fatalf("%d are asked for at once: one denial hides the other", len(b.pings))
		}
	}
	for _, key := range []string{"x", "y", "z"} {
		if "leader.b."+key != b.latest {
			b.Remove(key)
		}
	}
	b.pings[0](true)
	if len(b.pings) != 1 || len(b.bySub) != 1 {
		t.Errorf("%d feeds of one, after %d questions: what has ended is asked for again", len(b.bySub), len(b.pings))
	}

	b.denied = denial("leader.b.y")
	for _, key := range []string{"x", "y", "z"} {
		if err := b.Add(key); err != nil {
			t.Fatal(err)
		}
	}
	b.work(now.Add(retryTaken))
	b.Interrupted()
	before := len(b.pings)
	b.pings[before-1](true)
	if len(b.pings) != before {
		t.Error("after the connection was made anew feeds are still asked for")
	}
}
