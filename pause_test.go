package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A program that starts must not lead a group that is paused, however early its
// own record is known.
func TestACandidateWaitsForItsControlRecordBeforeItCampaigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.Event && c.Key == record.ControlKey("g") {
				fate.Delay = ttl / 2
			}
			return fate
		})
		put(t, f.Client("operator"), record.ControlKey("g"), record.Control{Paused: &record.Pause{By: "operator", Reason: "migration"}})
		a := start(t, f.Client("a"), config("a"))
		time.Sleep(10 * ttl)
		mustNotLead(t, a)
		if s := a.Status(); s.Barred != leader.ReasonPaused || time.Since(s.LastTransition) < 10*ttl {
			t.Errorf("%+v", s)
		}
	})
}

// Without the right to read the control record, and where it never arrives, a
// candidate goes on without it.
func TestACandidateThatNeverHearsOfItsControlRecordGoesOnWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, unread{memstore.New()}, config("a"))
		time.Sleep(ttl - time.Nanosecond)
		mustNotLead(t, a)
		time.Sleep(time.Nanosecond)
		mustLead(t, a)
	})
}

// An unread store tells nothing of control records.
type unread struct{ *memstore.Store }

func (u unread) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	return u.Store.Watch(ctx, keys, func(e store.Entry) {
		if e.Key != record.ControlKey("g") {
			deliver(e)
		}
	})
}

func TestALoneCandidateLeadsAgainAtOnceWhenItsGroupIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, memstore.New(), config("a"))
		mustLead(t, a)
		if err := a.Pause(t.Context(), "upgrade"); err != nil {
			t.Fatal(err)
		}
		mustNotLead(t, a)
		if err := a.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(jitter)
		mustLead(t, a)
	})
}
