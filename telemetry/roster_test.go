package telemetry_test

import (
	"slices"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/telemetry"
)

func TestAnElectionIsShownForAsLongAsItRuns(t *testing.T) {
	stopped := leader.Transition{To: leader.StateStopped}
	id := telemetry.Identity{Group: "g", InstanceID: "a"}
	for name, order := range map[string][2]int{"the earlier stops first": {0, 1}, "the later stops first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			var r telemetry.Roster[int]
			elections := []leader.Hooks{r.Show(id, 0), r.Show(id, 1)}
			if got := r.All(); !slices.Equal(got, []int{1}) {
				t.Errorf("of two that run %v is shown", got)
			}
			elections[order[0]].Transition(stopped)
			if got := r.All(); !slices.Equal(got, []int{order[1]}) {
				t.Errorf("%v is shown, and %d runs", got, order[1])
			}
			elections[order[1]].Transition(stopped)
			if got := r.All(); len(got) != 0 {
				t.Errorf("%v is shown, and none runs", got)
			}
		})
	}
}
