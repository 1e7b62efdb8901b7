package engine

import (
	"testing"
	"time"
)

// A stall longer than the interval leaves both behind it, and select chooses by
// chance: a check that passed in time would count as one that hangs.
func TestAVerdictGoesBeforeATickThatCameMeanwhile(t *testing.T) {
	for range 100 {
		verdict, tick := make(chan bool, 1), make(chan time.Time, 1)
		verdict <- true
		tick <- time.Now()
		ok, came := next(t.Context(), verdict, tick)
		if came != aVerdict || !ok {
			t.Fatalf("the check passed, and what came first is %v, %v", came, ok)
		}
		if _, came = next(t.Context(), verdict, tick); came != aTick {
			t.Fatalf("the tick was lost: %v", came)
		}
	}
}
