package board_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board/boardtest"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

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

// Nobody leads it until somebody remembers the pause.
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

// What is known of it goes with its record, as that of any other.
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
