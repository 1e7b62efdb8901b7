package leader_test

import (
	"context"
	"sync/atomic"
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

// A follower has no transition when its group is paused or its health check
// begins to fail, so a program that waits says only by a note what it waits
// for.
func TestACandidateSaysWhatKeepsItFromCampaigning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		st, j := memstore.New(), newJournal()
		ctl := control(t, st)
		if _, err := ctl.Pause(t.Context(), "g", "upgrade"); err != nil {
			t.Fatal(err)
		}
		cfg := config("a")
		cfg.HealthChecker = &health{check: func(context.Context) bool { return !sick.Load() }}
		cfg.HealthCheckInterval, cfg.MaxConsecutiveFailures = heartbeat, 2
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteBarred || n.Kind == leader.NoteUnbarred {
				j.note("%s: %s", n.Kind, n.Text)
			}
		}
		e := start(t, st, cfg)
		time.Sleep(10 * ttl)
		said := []string{`barred: group "g" is paused by "ops" (upgrade): this candidate does not campaign until it is resumed`}
		j.demand(t, said...)

		// A second reason has a note of its own, and each its end.
		sick.Store(true)
		time.Sleep(10 * ttl)
		said = append(said, "barred: the health check fails: this candidate does not campaign until it passes")
		j.demand(t, said...)
		if _, err := ctl.File(t.Context(), leader.Request{Op: leader.OpResume, Group: "g"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * ttl)
		said = append(said, `unbarred: group "g" is no longer paused`)
		j.demand(t, said...)
		mustNotLead(t, e)
		sick.Store(false)
		time.Sleep(10 * ttl)
		said = append(said, "unbarred: the health check passes again")
		j.demand(t, said...)
		mustLead(t, e)
		if _, err := ctl.Pause(t.Context(), "g", ""); err != nil {
			t.Fatal(err)
		}
		j.demand(t, append(said, `barred: group "g" is paused by "ops": this candidate does not campaign until it is resumed`)...)
	})
}
