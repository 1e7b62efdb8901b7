package board_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
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

// write writes a record with a lease of 3 s, which waits 3.3 s.
func write(t *testing.T, st store.Store, group, id string, renewal int, expected uint64) (revision uint64) {
	t.Helper()
	revision, err := st.CompareAndSwap(t.Context(), store.Write{
		Key: group, Expected: expected, Value: fmt.Appendf(nil, `{"id":%q,"token":"t","ttl":3000,"term":1,"renewal":%d}`, id, renewal),
	})
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func groupOf(t *testing.T, b *board.Board, name string) board.Group {
	t.Helper()
	synctest.Wait()
	g, ok := b.Group(name)
	if !ok {
		t.Fatalf("no group %s", name)
	}
	return g
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

func TestSinceReturnsOnlyNewChanges(t *testing.T) {
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

func TestBoardIgnoresInvalidKeys(t *testing.T) {
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

// A record does not contain its age. Only the next renewal proves that its
// leader lives.
func TestALeaderThatWasFoundIsUnconfirmedUntilItRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		revision := write(t, st, "reports", "w", 1, 0)
		time.Sleep(time.Minute)
		b := boardtest.Follow(t, st)
		if g := groupOf(t, b, "reports"); g.ID != "w" || g.Confirmed || !g.Since().IsZero() {
			t.Errorf("found: %+v, since %v", g, g.Since())
		}
		seen := b.Since(0).Seq
		write(t, st, "reports", "w", 2, revision)
		if g := groupOf(t, b, "reports"); !g.Confirmed || !g.Since().IsZero() {
			t.Errorf("renewed: %+v, since %v", g, g.Since())
		}
		if d := b.Since(seen); len(d.Changed) != 1 {
			t.Errorf("the first renewal was not reported: %+v", d)
		}
		// A leader whose claim was seen needs no renewal.
		claimed := time.Now()
		write(t, st, "billing", "w", 0, 0)
		if g := groupOf(t, b, "billing"); !g.Confirmed || !g.Since().Equal(claimed) {
			t.Errorf("claimed: %+v, since %v, want %v", g, g.Since(), claimed)
		}
	})
}

func TestALeaderThatWasFoundDeadWasSoBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		write(t, st, "reports", "w", 1, 0)
		write(t, st, "billing", "w", 1, 0)
		write(t, st, "orders", "w", 1, 0)
		died := time.Now()
		time.Sleep(5 * time.Minute)
		b := boardtest.Follow(t, st)
		b.Learn([]board.Finding{{Group: "reports", Term: 1, Renewed: died, Since: died.Add(3 * time.Second), Dead: true}, {Group: "billing", Term: 2, Renewed: died, Dead: true}})
		if g := groupOf(t, b, "reports"); g.ID != "" || g.Reason != leader.ReasonExpired || !g.Since().Equal(died.Add(3*time.Second)) {
			t.Errorf("found: %+v", g)
		}
		if g := groupOf(t, b, "billing"); g.ID == "" {
			t.Errorf("a finding of another term was taken in: %+v", g)
		}
		// The clock of a leader may be wrong: it does not decide when the
		// leader was gone.
		b.Learn([]board.Finding{{Group: "orders", Term: 1, Renewed: died, Own: true}})
		if g := groupOf(t, b, "orders"); g.ID == "" || !g.Own || !g.Renewed.Equal(died) {
			t.Errorf("found, by its own clock: %+v", g)
		}
		found := time.Now()
		time.Sleep(4 * time.Second)
		if g := groupOf(t, b, "reports"); g.ID != "" || !g.Since().Equal(died.Add(3*time.Second)) || g.Terms[0].Began.After(g.Terms[0].Ended) {
			t.Errorf("found dead: %+v, vacant since %v, which was found at %v", g, g.Since(), found)
		}
		if g := groupOf(t, b, "billing"); g.ID != "" || !g.Since().Equal(found.Add(3300*time.Millisecond)) {
			t.Errorf("of which nothing more is known: %+v, vacant since %v", g, g.Since())
		}
		if g := groupOf(t, b, "orders"); g.ID != "" || g.Own || !g.Since().Equal(found.Add(3300*time.Millisecond)) {
			t.Errorf("by its own clock: %+v, vacant since %v", g, g.Since())
		}
	})
}

func TestFoundLeaderHasTheTimesThatOthersKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		begun := time.Now()
		write(t, st, "reports", "w", 1, 0)
		if _, err := st.CompareAndSwap(t.Context(), store.Write{Key: "gone", Tombstone: true, Value: []byte(`{"reason":"resigned","term":2}`)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		b := boardtest.Follow(t, st)
		held := groupOf(t, b, "reports")
		b.Learn([]board.Finding{{Group: "reports", Term: 1, Since: begun}, {Group: "gone", Term: 2, Since: begun}, {Group: "none", Term: 1, Since: begun}})
		if g := groupOf(t, b, "reports"); !g.Since().Equal(begun) || held.Terms[0].Began.Equal(begun) {
			t.Errorf("since %v, want %v; what was handed out: %+v", g.Since(), begun, held.Terms)
		}
		if g := groupOf(t, b, "gone"); !g.Since().Equal(begun) {
			t.Errorf("vacant since %v, want %v", g.Since(), begun)
		}
	})
}

const (
	pausedByAnn = `{"paused":{"by":"ann","reason":"not yet"}}`
	resumed     = `{}`
)

// demandPlaceholder demands that a group is known by its pause alone.
func demandPlaceholder(t *testing.T, b *board.Board, name string) {
	t.Helper()
	g := groupOf(t, b, name)
	if !g.Paused || g.PausedBy != "ann" || g.PauseWhy != "not yet" || g.ID != "" || g.Reason != leader.ReasonAbsent ||
		g.Latest != 0 || len(g.Terms)+len(g.Changes)+g.Malformed != 0 || !g.Since().IsZero() || !g.Heard.IsZero() {
		t.Errorf("%+v", g)
	}
}

func demandNone(t *testing.T, b *board.Board, when string) {
	t.Helper()
	synctest.Wait()
	if d := b.Since(0); d.Count != 0 || d.State.Ignored != 0 {
		t.Errorf("%s: %+v", when, d)
	}
}

// The group has no leader until somebody remembers the pause.
func TestAGroupThatIsPausedBeforeItsFirstLeaderIsKnown(t *testing.T) {
	for _, found := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			if found {
				st.Put("_ctl.early", []byte(pausedByAnn))
			}
			b := boardtest.Follow(t, st)
			if !found {
				demandNone(t, b, "before the pause")
				st.Put("_ctl.early", []byte(pausedByAnn))
			}
			demandPlaceholder(t, b, "early")
			seen := b.Since(0).Seq
			st.Put("_ctl.early", []byte(resumed))
			demandNone(t, b, "after the pause")
			<-b.After(seen)
			st.Put("_ctl.early", []byte(pausedByAnn))
			demandPlaceholder(t, b, "early")
			st.Delete("_ctl.early")
			demandNone(t, b, "after its control record was deleted")
		})
	}
}

// A candidate that led before it heard of the pause, or the next one.
func TestTheFirstLeaderOfAGroupThatWasPausedFollowsNobody(t *testing.T) {
	for _, first := range []string{"the pause ends", "it leads"} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			st.Put("_ctl.early", []byte(pausedByAnn))
			b := boardtest.Follow(t, st)
			demandPlaceholder(t, b, "early")
			if first == "the pause ends" {
				st.Put("_ctl.early", []byte(resumed))
				synctest.Wait()
			}
			began := time.Now()
			st.Put("early", []byte(`{"id":"w","token":"t","ttl":3000,"term":1}`))
			g := groupOf(t, b, "early")
			if g.ID != "w" || g.Latest != 1 || len(g.Terms) != 1 || g.Terms[0].Older || !g.Since().Equal(began) || len(g.Changes) != 0 ||
				!g.Confirmed || g.Paused != (first == "it leads") {
				t.Errorf("%s first: %+v", first, g)
			}
			st.Put("_ctl.early", []byte(resumed))
			if g := groupOf(t, b, "early"); g.ID != "w" || g.Paused {
				t.Errorf("%s first, and after the pause: %+v", first, g)
			}
		})
	}
}

// Of a leader that was found it is not known since when it has led, even if the
// pause was read before its record.
func TestARecordThatIsFoundAfterAPauseIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("_ctl.reports", []byte(pausedByAnn))
		write(t, st, "reports", "w", 1, 0)
		b := boardtest.Follow(t, st)
		if g := groupOf(t, b, "reports"); g.ID != "w" || !g.Paused || g.Confirmed || !g.Terms[0].Older {
			t.Errorf("%+v", g)
		}
	})
}

// Knowledge of it goes with its record, as for any other group.
func TestAPausedGroupStaysWithoutItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		b := boardtest.Follow(t, st)
		st.Put("reports", []byte(`{"id":"v","token":"s","ttl":3000,"term":1}`))
		synctest.Wait()
		st.Put("reports", []byte(`{"id":"w","token":"t","ttl":3000,"term":2}`))
		st.Put("_ctl.reports", []byte(pausedByAnn))
		if g := groupOf(t, b, "reports"); len(g.Terms) != 2 || !maps.Equal(g.Changes, map[leader.Reason]int{board.ReasonUnseen: 1}) {
			t.Errorf("before: %+v", g)
		}
		st.Purge("reports")
		demandPlaceholder(t, b, "reports")
		st.Put("_ctl.reports", []byte(resumed))
		demandNone(t, b, "after the pause")
	})
}
