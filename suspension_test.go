package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The timers of a suspended machine stand still with its monotonic clock, and
// go on where they stood. A context that descends from a term's knows its
// cancellation alone, and has to be over when the machine wakes.
func TestASuspensionPastTheWindowEndsWhatDescendsFromTheTermsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := leader.NewMachine(1e6), candidate(t, memstore.New(), config("a"))
		leader.SetMachine(a, m)
		child := make(chan context.Context, 1)
		a.OnPromote(func(ctx context.Context, _ string) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			child <- ctx
			<-ctx.Done()
		})
		started(t, a)
		mustLead(t, a)
		ctx := <-child
		time.Sleep(heartbeat / 2)
		m.Suspend()
		time.Sleep(trust)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("the machine is not suspended")
		}
		m.Wake()
		synctest.Wait() // and nobody looks at IsLeader
		if ctx.Err() == nil {
			t.Error("the work goes on after its window")
		}
	})
}
