package sources

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// denial is what a server reports of a subscription.
func denial(subject string) error {
	return fmt.Errorf("%w: Permissions Violation for Subscription to %q (sid \"1\")", nats.ErrPermissionViolation, subject)
}

// Reads find a source that the server took away. It is reported once, and is
// asked for again until it is back. The connection shows its latest error
// alone, so each error may hide that a source was taken.
func TestASubscriptionThatIsTakenAwayIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		// After has all sources doubted once more, while the server refuses
		// these.
		after := func(d time.Duration, asked int, denied []string, what ...string) {
			t.Helper()
			time.Sleep(d)
			for _, f := range []*Source{b.byKey["x"], b.byKey["y"], all} {
				n := len(b.tries)
				b.Doubt(f)
				if len(b.tries) == n {
					continue
				}
				asked--
				if slices.Contains(denied, f.Subject()) {
					b.denied = denial(f.Subject())
					b.tries[n](b.denied)
				} else {
					b.tries[n](nil)
				}
			}
			if asked != 0 {
				t.Errorf("%d questions too few", asked)
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
		after(time.Hour, 0, nil)        // an older denial is not theirs
		b.denied = denial("leader.c.x") // the denial for another bucket may hide one
		after(time.Second, 3, nil)      // of each
		after(time.Second, 0, nil)      // once
		stands(true, true, true)
		b.denied = denial("leader.b.>") // and of x, before that
		after(time.Second, 0, nil)      // not so soon after the last question
		after(doubtEvery, 3, []string{"leader.b.>", "leader.b.x"}, "read x", "view taken")
		stands(false, true, false)
		after(time.Second, 0, nil)
		after(doubtEvery, 3, []string{"leader.b.>", "leader.b.x"})
		stands(false, true, false)
		after(doubtEvery, 3, []string{"leader.b.>"}, "read x")
		stands(true, true, false)
		after(doubtEvery, 3, nil, "view resumed")
		stands(true, true, true)
		b.denied = denial("leader.b.>")
		after(doubtEvery, 3, []string{"leader.b.>"}, "view taken")
		b.Interrupted()
		stands(true, true, true)
	})
}

// The answer to a question for a source that has ended meanwhile, or that was
// asked for once more, is void.
func TestASourceThatEndsWhileItIsAskedForIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench("leader.b.", false)
		if err := b.Add("x"); err != nil {
			t.Fatal(err)
		}
		b.denied = denial("leader.b.x")
		time.Sleep(doubtEvery)
		b.DoubtFor("x")
		b.Remove("x")
		b.DoubtFor("x")
		if err := b.Add("x"); err != nil {
			t.Fatal(err)
		}
		b.tries[0](b.denied)
		b.only(t)
		if !b.Brings("x") || len(b.tries) != 1 || len(b.bySub) != 1 {
			t.Errorf("brings %v after %d questions, %d sources", b.Brings("x"), len(b.tries), len(b.bySub))
		}
	})
}
