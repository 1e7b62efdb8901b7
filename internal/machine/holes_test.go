package machine

import (
	"testing"
	"time"
)

// A hypervisor that pauses a guest stops all its clocks. Until the clocks are
// corrected, the guest's leader finds its window open (docs/reference/protocol.md,
// Limits): only a fenced resource can detect that.
func TestHolePausedGuestFindsItsWindowOpen(t *testing.T) {
	a, b := unitMachine("a"), unitMachine("b")
	sa, _ := a.Step(State{}, Event{Kind: Start}, Instant{})
	sa, _ = a.Step(sa, Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"}, Instant{})
	sa, _ = a.Step(sa, Event{Kind: Written, Op: sa.Write.Op, Outcome: OK, Rev: 1}, Instant{})
	frozen := Instant{Mono: 1, Wall: 1}

	sb, _ := b.Step(State{}, Event{Kind: Start}, Instant{})
	sb, _ = b.Step(sb, Event{Kind: Observed, Seen: sa.View}, Instant{})
	later := Instant{}.Add(b.TTL * 2)
	sb, _ = b.Step(sb, Event{Kind: Tick, Token: "b1"}, later)
	sb, _ = b.Step(sb, Event{Kind: Written, Op: sb.Write.Op, Outcome: OK, Rev: 2}, later)
	if !sa.Leading(frozen) || !sb.Leading(later) {
		t.Fatalf("the hole was not there: %v, %v", sa.Leading(frozen), sb.Leading(later))
	}
	if thawed := frozen.Add(b.TTL + time.Nanosecond); sa.Leading(thawed) {
		t.Fatal("the window is open although the clocks were corrected")
	}
}
