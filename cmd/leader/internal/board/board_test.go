package board_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board/boardtest"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func stand(t *testing.T, st store.Store, group, id string) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: group, InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second, DeleteOnStop: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	return e
}

func TestATermEndsForTheReasonThatItsLeaderGives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		b := boardtest.Follow(t, st)
		e := stand(t, st, "reports", "worker-1")
		term := e.Term().Number
		if err := e.Pause(t.Context(), "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		g, _ := b.Group("reports")
		if len(g.Terms) != 1 || g.Terms[0].Number != term || g.Terms[0].Reason != leader.ReasonPaused || g.Terms[0].Ended.IsZero() {
			t.Errorf("terms %+v", g.Terms)
		}
		if !g.Paused || g.PausedBy != "worker-1" || g.PauseWhy != "maintenance" {
			t.Errorf("paused %v by %q: %q", g.Paused, g.PausedBy, g.PauseWhy)
		}
		if err := e.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		g, _ = b.Group("reports")
		if g.Paused || g.ID != "worker-1" || len(g.Terms) != 2 || g.Changes[leader.ReasonPaused] != 1 {
			t.Errorf("after the pause: %+v", g)
		}
	})
}

func TestASilentLeaderIsVacantAndItsLateRenewalGoesOnWithItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		b := boardtest.Follow(t, st)
		record := func(renewal int, expected uint64) uint64 {
			t.Helper()
			revision, err := st.CompareAndSwap(t.Context(), store.Write{
				Key: "reports", Expected: expected, Value: fmt.Appendf(nil, `{"id":"w","token":"t","ttl":3000,"term":1,"renewal":%d}`, renewal),
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return revision
		}
		revision := record(0, 0)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if g, _ := b.Group("reports"); g.ID != "" || g.Reason != leader.ReasonExpired || g.Terms[0].Ended.IsZero() {
			t.Errorf("a silent leader: %+v", g)
		}
		record(1, revision)
		g, _ := b.Group("reports")
		if g.ID != "w" || len(g.Terms) != 1 || !g.Terms[0].Ended.IsZero() || len(g.Changes) != 0 {
			t.Errorf("after its late renewal: %+v", g)
		}
	})
}

func TestSinceTellsOnlyWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		b := boardtest.Follow(t, st)
		stand(t, st, "billing", "bill-1")
		stand(t, st, "reports", "worker-1")
		all := b.Since(0)
		if len(all.Changed) != 2 || all.Count != 2 || !all.State.Complete {
			t.Fatalf("all: %+v", all)
		}
		if d := b.Since(all.Seq); len(d.Changed)+len(d.Renewed) != 0 {
			t.Errorf("nothing has happened, and yet: %+v", d)
		}
		time.Sleep(3 * time.Second / 2)
		<-b.After(all.Seq)
		if d := b.Since(all.Seq); len(d.Changed) != 0 || len(d.Renewed) != 2 {
			t.Errorf("after renewals: %d changed, %d renewed", len(d.Changed), len(d.Renewed))
		}
	})
}

func TestKeysThatAreNoGroupsAreNoGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardtest.Follow(t, forged{memstore.New()})
		if d := b.Since(0); d.Count != 1 || d.Changed[0].Group != "reports" {
			t.Errorf("%+v", d)
		}
	})
}

// forged is a store in which somebody has written keys that no candidate can
// have, past the client's checks.
type forged struct{ *memstore.Store }

func (f forged) WatchPattern(_ context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	if pattern != ">" {
		return nil, errors.New("may not be watched")
	}
	for i, key := range []string{"reports", "<img>", "a b", "é", strings.Repeat("x", 5000)} {
		deliver(store.Entry{Key: key, Revision: uint64(i + 1), Value: []byte(`{"id":"w","token":"t","ttl":60000}`)})
	}
	present(nil)
	return func() {}, nil
}
