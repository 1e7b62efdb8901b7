package board_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board/boardtest"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestTermsOfAHistoryComeBeforeSeenTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		for i := range uint64(9) { // its terms are counts of its writes
			if _, err := st.CompareAndSwap(t.Context(), store.Write{Key: "_ctl.spare", Expected: i}); err != nil {
				t.Fatal(err)
			}
		}
		first := stand(t, st, "reports", "worker-1")
		stand(t, st, "reports", "worker-2")
		begin := time.Now()
		time.Sleep(time.Hour)
		b := boardtest.Follow(t, st)
		term := first.Term().Number
		terms := []advisory.Term{
			{Group: "reports", Leader: "worker-2", Number: term - 4, Ended: begin.Add(-90 * time.Minute), Reason: leader.ReasonResigned, By: "ann"},
			// No advisory contains its start.
			{Group: "reports", Leader: "worker-4", Number: term - 3, Ended: begin.Add(-time.Hour), Reason: leader.ReasonResigned},
			// It crashed.
			{Group: "reports", Leader: "worker-3", Number: term - 2, Began: begin.Add(-time.Hour)},
			// Its clock is wrong.
			{Group: "reports", Leader: "worker-2", Number: term - 1, Began: begin, Ended: begin.Add(9e12)},
			{Group: "reports", Leader: "worker-1", Number: term, Began: begin},
			{Group: "reports", Leader: "worker-2", Number: term + 9, Began: begin}, // seen, or going to be
			{Group: "nobody", Leader: "worker-1", Number: term},
		}
		held := b.Since(0)
		since := begin.Add(-2 * time.Hour)
		b.Recall(terms, since)
		g, _ := b.Group("reports")
		if len(g.Terms) != 5 {
			t.Fatalf("terms %+v", g.Terms)
		}
		for i, want := range []board.Term{
			{Number: term - 4, Leader: "worker-2", Began: since, Older: true, Ended: begin.Add(-90 * time.Minute), Reason: leader.ReasonResigned, By: "ann"},
			{Number: term - 3, Leader: "worker-4", Began: begin.Add(-90 * time.Minute), Older: true, Ended: begin.Add(-time.Hour), Reason: leader.ReasonResigned},
			{Number: term - 2, Leader: "worker-3", Began: begin.Add(-time.Hour), Ended: begin, Reason: board.ReasonUnseen},
			{Number: term - 1, Leader: "worker-2", Began: begin, Ended: begin},
			{Number: term, Leader: "worker-1", Began: begin, Correlation: g.Terms[4].Correlation},
		} {
			if g.Terms[i] != want {
				t.Errorf("term %d: %+v, want %+v", i, g.Terms[i], want)
			}
		}
		if d := b.Since(held.Seq); len(d.Changed) != 1 || len(held.Changed[0].Terms) != 1 || held.Changed[0].Terms[0].Began.Equal(begin) {
			t.Errorf("reported: %+v, and handed out before: %+v", d.Changed, held.Changed)
		}
		if _, ok := b.Group("nobody"); ok {
			t.Error("a history has made a group")
		}
	})
}

func TestARecalledPastHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		stand(t, st, "reports", "worker-1")
		b := boardtest.Follow(t, st)
		g, _ := b.Group("reports")
		var terms []advisory.Term
		for range 3 * board.MaxTerms {
			terms = append(terms, advisory.Term{Group: "reports", Leader: "worker-2", Number: g.Term - 1})
		}
		b.Recall(terms, time.Time{})
		if g, _ = b.Group("reports"); len(g.Terms) != board.MaxTerms || g.Terms[board.MaxTerms-1].Leader != "worker-1" {
			t.Errorf("%d terms, the last %+v", len(g.Terms), g.Terms[len(g.Terms)-1])
		}
	})
}
