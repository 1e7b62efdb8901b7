package board_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board/boardtest"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The leader does not change by reports that follow something unreadable, but
// the records are still being written.
func TestEachRecordThatCannotBeReadIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("reports", []byte("found"))
		b := boardtest.Follow(t, st)
		put := func(group, text string, want int) {
			t.Helper()
			st.Put(group, []byte(text))
			if g := groupOf(t, b, group); g.Malformed != want {
				t.Errorf("after %s in %s %d are counted, want %d", text, group, g.Malformed, want)
			}
		}
		if g := groupOf(t, b, "reports"); g.Malformed != 1 || g.Reason != leader.ReasonOverwritten {
			t.Errorf("of what was found %d is counted: %s", g.Malformed, g.Reason)
		}
		put("reports", "a text", 2)
		put("reports", "a text", 3)
		put("reports", `{"of":"somebody"}`, 4)
		put("reports", `{"id":"w","token":"t","ttl":3000}`, 4)
		put("reports", "a text", 5)
		st.Delete("reports")
		put("reports", "a text", 6)
		put("billing", "a text", 1)
		st.Put("_ctl.billing", []byte("no request"))
		put("billing", "a text", 2)
		// Of which the bucket knows nothing any more.
		st.Purge("billing")
		synctest.Wait()
		put("billing", "a text", 1)
	})
}

// repeating is a store that reports everything twice, as a store does after an
// interruption.
type repeating struct{ *memstore.Store }

func (r repeating) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	return r.Store.WatchPattern(ctx, pattern, func(e store.Entry) { deliver(e); deliver(e) }, present)
}

func TestARecordThatIsDeliveredAgainIsNotCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		b := boardtest.Follow(t, repeating{st})
		st.Put("reports", []byte("once"))
		synctest.Wait()
		st.Put("reports", []byte("again"))
		if g := groupOf(t, b, "reports"); g.Malformed != 2 {
			t.Errorf("%d are counted of two", g.Malformed)
		}
	})
}

// closed is a store whose connection is closed permanently.
type closed struct{ *memstore.Store }

func (closed) ConnState() store.ConnState               { return store.Closed }
func (closed) OnConnState(func(store.ConnState)) func() { return func() {} }

func TestABoardIsLeftWithItsConnection(t *testing.T) {
	if err := (&board.Board{}).Follow(t.Context(), closed{memstore.New()}, ">", func(board.News) {}); !errors.Is(err, leader.ErrConnectionClosed) {
		t.Errorf("got %v", err)
	}
}
