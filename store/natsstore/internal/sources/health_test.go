package sources

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
)

func TestConsumerIsMadeProbedAndGivenUp(t *testing.T) {
	now := time.Now()
	standing := func(change func(*consumption)) consumption {
		c := consumption{standing: true, caughtUp: true, heardAt: now}
		change(&c)
		return c
	}
	for _, c := range []struct {
		name    string
		state   consumption
		changed bool
		want    step
		until   time.Time
	}{
		{"there is none", consumption{}, false, create, time.Time{}},
		{"it failed lately", consumption{nextTry: now.Add(time.Second)}, false, wait, now.Add(time.Second)},
		{"it is being made", consumption{making: true}, false, wait, time.Time{}},
		{"it was heard now", standing(func(*consumption) {}), false, wait, now.Add(maxSilence + time.Millisecond)},
		{"it is silent", standing(func(c *consumption) { c.heardAt = now.Add(-maxSilence - 1) }), false, probe, time.Time{}},
		{"an answer will tell", standing(func(c *consumption) { c.heardAt, c.probing = time.Time{}, true }), false, wait, time.Time{}},
		{"it owes a write", standing(func(c *consumption) { c.owesFrom = now }), false, wait, now.Add(maxDebt + time.Millisecond)},
		{"it owes a write for long", standing(func(c *consumption) { c.owesFrom = now.Add(-maxDebt - 1) }), false, giveUp, time.Time{}},
		{"keys came", standing(func(*consumption) {}), true, rename, time.Time{}},
		{"keys came, and others just before", standing(func(c *consumption) { c.nextTry = now.Add(renameEvery) }), true, wait, now.Add(renameEvery)},
		{"keys came, and it is silent", standing(func(c *consumption) { c.heardAt, c.nextTry = time.Time{}, now.Add(renameEvery) }), true, probe, time.Time{}},
		{"keys came while it shows the present", standing(func(c *consumption) { c.caughtUp = false }), true, wait, now.Add(maxSilence + time.Millisecond)},
		{"keys came while the server is being told", standing(func(c *consumption) { c.renaming = true }), true, wait, time.Time{}},
	} {
		got, until := c.state.next(now, c.changed)
		if got != c.want || !until.Equal(c.until) {
			t.Errorf("%s: step %d until %v, want %d until %v", c.name, got, until.Sub(now), c.want, c.until.Sub(now))
		}
	}
}

// A message that went astray shows by the number of the next.
func TestDeliveriesAreCounted(t *testing.T) {
	now := time.Now()
	var c consumption
	c.owes(now)
	if !c.owesFrom.IsZero() {
		t.Error("a consumer that does not stand owes a write")
	}
	c.begin("x", 1)
	if !c.deliver(1) || c.shown(2) {
		t.Error("the first of three")
	}
	c.stand(3, now)
	c.owes(now)
	c.owes(now.Add(time.Second))
	if !c.owesFrom.Equal(now) {
		t.Error("a later debt puts the earlier off")
	}
	if c.deliver(3) || c.deliver(1) {
		t.Error("a gap, or a repetition, was not noticed")
	}
	if !c.deliver(2) || !c.owesFrom.IsZero() || c.shown(1) {
		t.Error("the second of three")
	}
	if !c.deliver(3) || !c.shown(1) {
		t.Error("what the consumer said when it was made is not remembered")
	}
	c.lose()
	if c.standing || c.making {
		t.Error("it stands")
	}
	if what, _ := c.next(now, false); what != create {
		t.Errorf("the next step is %d", what)
	}
	for range 20 {
		c.postpone(now)
		if d := c.nextTry.Sub(now); d < watch.RetryFirst || d > watch.RetryMost {
			t.Fatalf("the next attempt comes after %v", d)
		}
	}
}
