package mysqlstore_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/test/databases"
)

// heard collects what a watch delivers.
type heard struct {
	tb      testing.TB
	entries chan store.Entry
}

func listen(tb testing.TB, s store.Watcher, keys ...string) *heard {
	tb.Helper()
	h := &heard{tb: tb, entries: make(chan store.Entry, 1<<16)}
	stop, err := s.Watch(tb.Context(), keys, func(e store.Entry) { h.entries <- e })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return h
}

// until waits for an entry that satisfies ok.
func (h *heard) until(what string, ok func(store.Entry) bool) store.Entry {
	h.tb.Helper()
	for {
		select {
		case e := <-h.entries:
			if ok(e) {
				return e
			}
		case <-time.After(databases.Patience):
			h.tb.Fatalf("never heard: %s", what)
		}
	}
}

// A heartbeat has what is watched looked at twice in it; nothing else tells of a
// change here for an hour.
func TestAHeartbeatPacesTheLooks(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	other := made(t, url(srv), table)
	s := over(t, poolOf(t, srv.DSN("lab")), mysqlstore.Options{Table: table, Every: time.Hour})
	if _, err := s.Check(within(t), store.CheckRequest{HeartbeatInterval: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	h := listen(t, s, "a")
	rev := uint64(0)
	for range 3 {
		rev = must(t, other, store.Write{Key: "a", Expected: rev, Value: []byte("v")})
		h.until("a write", func(e store.Entry) bool { return e.Revision == rev })
	}
	srv.Exec("DELETE FROM " + table)
	h.until("a foreign DELETE", func(e store.Entry) bool { return e.Revision == 0 })
}
