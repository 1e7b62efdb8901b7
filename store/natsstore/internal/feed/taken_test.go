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
	denial := func(subject string) error {
		return fmt.Errorf("%w: Permissions Violation for Subscription to %q (sid \"1\")", nats.ErrPermissionViolation, subject)
	}
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
	after(0, nil) // an older denial is not this one's,
	b.denied = denial("leader.c.x")
	after(lookForTaken, nil) // nor one of another bucket
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
