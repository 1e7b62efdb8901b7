package machine

import "testing"

// A copy of the whole machine has its token. Of two that renew at once each finds what
// the other wrote where its own renewal should stand, and cannot know better
// (docs/protocol.md, Limits). A fenced resource cannot either: the term is one.
func TestHoleACopyTakesItsTwinsRenewalForItsOwn(t *testing.T) {
	one := reigning(unitMachine("a"))
	copied := *one
	two := &copied
	for _, p := range []*play{one, two} {
		for p.s.Write.Kind != Renew {
			p.step(Event{Kind: Tick})
		}
	}
	one.answer(Event{Kind: Written, Rev: 6})
	two.answer(Event{Kind: Written, Outcome: Conflict})
	two.answer(Event{Kind: Read, Seen: one.s.View})
	if !one.s.Leading(one.now) || !two.s.Leading(two.now) {
		t.Fatalf("the hole was not there: %v, %v", one.s.Phase, two.s.Phase)
	}
	// One that renews later hears of the other's renewal, and gives way.
	one.step(Event{Kind: Sight, Seen: one.own(7, 2)})
	if one.s.Leading(one.now) {
		t.Error("leads on after a renewal that it did not write")
	}
}
