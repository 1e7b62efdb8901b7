package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
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

// A machine that wakes within its window, and does not reach its store, leads
// for what is left: it slept for the rest. Others measure by TrustUntil what
// they grant on the strength of the term.
func TestASuspensionWithinTheWindowTakesFromTrustUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := faultstore.New(faultstore.Options{})
		t.Cleanup(net.Close)
		m, a := leader.NewMachine(1e6), candidate(t, net.Client("a"), config("a"))
		leader.SetMachine(a, m)
		started(t, a)
		mustLead(t, a)
		net.Partition("a")
		m.Suspend()
		time.Sleep(trust / 2)
		m.Wake()
		synctest.Wait()
		left := a.TrustUntil().Sub(m.Present())
		if status := a.Status().TrustUntil.Sub(m.Present()); !a.IsLeader() || left <= 0 || status != left {
			t.Fatalf("leads %v, for %v (status: %v)", a.IsLeader(), left, status)
		}
		time.Sleep(left)
		if over := a.TrustUntil(); a.IsLeader() || !over.IsZero() {
			t.Errorf("leads on, until %v", over)
		}
	})
}

// A proof ages while the machine sleeps, though the monotonic clock stands
// still: by that alone it would be as young after the suspension as before.
func TestAProofAgesInASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := network(t, nil), config("a")
		cfg.Fencing.ValidationInterval = heartbeat / 2
		m, a := leader.NewMachine(1e6), candidate(t, f.Client("a"), cfg)
		leader.SetMachine(a, m)
		started(t, a)
		mustLead(t, a)
		f.BlackHole("a")
		do := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 1)
			defer cancel()
			return a.Do(ctx, func(context.Context) error { return nil })
		}
		time.Sleep(heartbeat / 4)
		if err := do(); err != nil {
			t.Fatalf("the proof is young enough: %v", err)
		}
		m.Suspend()
		time.Sleep(heartbeat / 2)
		m.Wake()
		if err := do(); !errors.Is(err, context.DeadlineExceeded) || !a.IsLeader() {
			t.Errorf("%v, leads: %v", err, a.IsLeader())
		}
	})
}

// An operation that went to sleep with its machine asks its own context first,
// which is to know as much as IsLeader.
func TestTheContextOfAnOperationEndsInASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := leader.NewMachine(1e6), candidate(t, memstore.New(), config("a"))
		leader.SetMachine(a, m)
		started(t, a)
		mustLead(t, a)
		err := a.Do(t.Context(), func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("before: %v", ctx.Err())
			}
			m.Suspend()
			time.Sleep(trust)
			m.Wake()
			if err := ctx.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("Err: %v", err)
			}
			return context.Cause(ctx)
		})
		if l := (*leader.LossError)(nil); !errors.As(err, &l) || l.Reason != leader.ReasonTrustExpired {
			t.Errorf("cause: %v", err)
		}
	})
}
