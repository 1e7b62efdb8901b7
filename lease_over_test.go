package leader

import (
	"testing"
	"time"
)

// What was known before a lease ran out does not show that it did: the request
// itself may have taken as long.
func TestALeaseThatWasNotReadAfterItsEndHasNotRunOut(t *testing.T) {
	now := time.Now()
	state := observed{info: LeaderInfo{Group: "g", ID: "a", Term: 1, Until: now.Add(-time.Second)}, rev: 5, at: now.Add(-time.Minute)}
	w := &handing{h: Handover{Request: Request{Op: OpPause, Group: "g"}}, sent: now}
	w.arrived(state)
	if w.done(now) {
		t.Error("done by an old state")
	}
	state.read = now.Add(-2 * time.Second)
	w.arrived(state)
	if w.done(now) {
		t.Error("done by a read that began while the lease lasted")
	}
	state.read = now
	w.arrived(state)
	if !w.done(now) || w.h.Vacancy.Reason != ReasonExpired {
		t.Errorf("not done by a read after its end: %+v", w.h)
	}
}
