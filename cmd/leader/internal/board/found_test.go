package board_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board/boardtest"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// write writes a record with a lease of 3 s, which waits 3.3 s.
func write(t *testing.T, st store.Store, group, leader string, renewal int, expected uint64) (revision uint64) {
	t.Helper()
	revision, err := st.CompareAndSwap(t.Context(), store.Write{
		Key: group, Expected: expected, Value: fmt.Appendf(nil, `{"id":%q,"token":"t","ttl":3000,"term":1,"renewal":%d}`, leader, renewal),
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

// A record does not tell its age. That its leader lives is known with the next
// renewal, and not before.
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
			t.Errorf("that it lives was no news: %+v", d)
		}
		// One whose claim was seen needs no renewal.
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
		b.Learn([]board.Finding{{Group: "reports", Term: 1, Renewed: died, Silent: true}, {Group: "billing", Term: 2, Renewed: died, Silent: true}})
		if g := groupOf(t, b, "reports"); !g.Silent || !g.Renewed.Equal(died) {
			t.Errorf("found: %+v", g)
		}
		if g := groupOf(t, b, "billing"); g.Silent {
			t.Errorf("a finding of another term was taken in: %+v", g)
		}
		// The clock of a leader may be wrong: when it was gone is not told by it.
		b.Learn([]board.Finding{{Group: "orders", Term: 1, Renewed: died, Own: true}})
		if g := groupOf(t, b, "orders"); g.Silent || !g.Own || !g.Renewed.Equal(died) {
			t.Errorf("found, by its own clock: %+v", g)
		}
		found := time.Now()
		time.Sleep(4 * time.Second)
		if g := groupOf(t, b, "reports"); g.ID != "" || !g.Since().Equal(died.Add(3300*time.Millisecond)) || g.Terms[0].Began.After(g.Terms[0].Ended) {
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

func TestWhatWasFoundHasTheTimesThatOthersKnow(t *testing.T) {
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
