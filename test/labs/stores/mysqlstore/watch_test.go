package mysqlstore_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// Twice in each heartbeat the store looks at every watched key. Nothing else
// reports a change here for an hour.
func TestAHeartbeatPacesTheLooks(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	other := made(t, url(srv), table)
	s := over(t, poolOf(t, srv.DSN("lab")), mysqlstore.Options{Table: table, Every: time.Hour})
	if _, err := s.Check(trial.Within(t), store.CheckRequest{HeartbeatInterval: 50 * time.Millisecond, Key: "a"}); err != nil {
		t.Fatal(err)
	}
	h := trial.Listen(t, s, "a")
	rev := uint64(0)
	for range 3 {
		rev = trial.Must(t, other, store.Write{Key: "a", Expected: rev, Value: []byte("v")})
		h.Until("a write", func(e store.Entry) bool { return e.Revision == rev })
	}
	srv.Exec("DELETE FROM " + table)
	h.Until("a foreign DELETE", func(e store.Entry) bool { return e.Revision == 0 })
}
