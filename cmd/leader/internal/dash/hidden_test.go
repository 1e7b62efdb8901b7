package dash

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
)

func TestThePageIsToldWhichGroupsAreForgotten(t *testing.T) {
	for reason, want := range map[leader.Reason]bool{leader.ReasonForgotten: true, leader.ReasonVacated: false, leader.ReasonStopped: false} {
		g := board.Group{LeaderInfo: leader.LeaderInfo{Group: "g", Reason: reason}}
		if v := viewOf(g, time.Now()); v.Hidden != want {
			t.Errorf("%s: %+v", reason, v)
		}
	}
}
