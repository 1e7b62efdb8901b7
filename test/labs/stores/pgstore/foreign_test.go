package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// deafClock is a time between looks so long that only a notification reports a
// change.
const deafClock = time.Hour

// listening waits until a connection of the store listens.
func listening(tb testing.TB, srv *databases.Server, s *pgstore.Store) {
	tb.Helper()
	db := srv.DB()
	natslab.Eventually(tb, "the store listens", func(context.Context) error {
		var n int
		err := db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '/* listens */%'").Scan(&n)
		if err == nil && (n == 0 || s.ConnState() != store.Connected) {
			err = errors.New("not yet")
		}
		return err
	})
}

func TestForeignChangesAreNotified(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	made(t, srv.DSN("lab"), table)
	s := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table, Every: deafClock})
	first := trial.Must(t, s, store.Write{Key: "a", Value: []byte("first")})
	h := trial.Listen(t, s, "a", "b")
	h.Until("the beginning", func(e store.Entry) bool { return e.Revision == first })
	listening(t, srv, s)

	srv.Exec("UPDATE " + table + " SET value = 'by hand' WHERE key = 'a'")
	e := h.Until("a foreign UPDATE", func(e store.Entry) bool { return string(e.Value) == "by hand" })
	if e.Revision <= first {
		t.Errorf("a foreign UPDATE left revision %d, over %d", e.Revision, first)
	}
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: first})
	trial.Outcome(t, err, store.Conflict)
	// The revision that it writes does not matter.
	srv.Exec("UPDATE " + table + " SET revision = 1, value = 'again' WHERE key = 'a'")
	if again := h.Until("another", func(e store.Entry) bool { return string(e.Value) == "again" }); again.Revision <= e.Revision {
		t.Errorf("revision %d follows %d", again.Revision, e.Revision)
	}
	srv.Exec("INSERT INTO " + table + " (key, revision, value) VALUES ('b', 1, 'new')")
	b := h.Until("a foreign INSERT", func(e store.Entry) bool { return string(e.Value) == "new" })
	if b.Revision <= e.Revision {
		t.Errorf("a foreign INSERT has revision %d, after %d", b.Revision, e.Revision)
	}
	srv.Exec("DELETE FROM " + table + " WHERE key = 'b'")
	h.Until("a foreign DELETE", func(e store.Entry) bool { return e.Key == "b" && e.Revision == 0 })
	srv.Exec("TRUNCATE " + table + " RESTART IDENTITY")
	h.Until("a TRUNCATE", func(e store.Entry) bool { return e.Key == "a" && e.Revision == 0 })
	if after := trial.Must(t, s, store.Write{Key: "b", Value: []byte("v")}); after <= b.Revision {
		t.Errorf("revision %d follows %d across a TRUNCATE", after, b.Revision)
	}
	// A key is the name of an election.
	if _, err := srv.DB().Exec("UPDATE " + table + " SET key = 'c' WHERE key = 'b'"); err == nil || !strings.Contains(err.Error(), "renamed") {
		t.Errorf("a rename: %v", err)
	}
}

// A creation waits for a deletion to be committed. Its session is then stopped,
// until a rival has created and deleted the key.
func TestARevisionIsDrawnAfterARivalsCreationAndDeletion(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	rival := made(t, srv.DSN("lab"), table)
	trial.Must(t, rival, store.Write{Key: "a", Value: []byte("old")})
	tx, err := srv.DB().BeginTx(trial.Within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("DELETE FROM " + table + " WHERE key = 'a'"); err != nil {
		t.Fatal(err)
	}
	slow := over(t, poolOf(t, srv.DSN("lab"), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "slow" }), pgstore.Options{Table: table})
	type result struct {
		rev uint64
		err error
	}
	results := make(chan result, 1)
	go func() {
		rev, err := slow.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Value: []byte("slow")})
		results <- result{rev, err}
	}()
	pid := 0
	natslab.Eventually(t, "the creation waits", func(ctx context.Context) error {
		return srv.DB().QueryRowContext(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = 'slow' AND wait_event_type = 'Lock'").Scan(&pid)
	})
	srv.Halt(pid)
	defer srv.Resume(pid)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	between := trial.Must(t, rival, store.Write{Key: "a", Value: []byte("between")})
	srv.Exec("DELETE FROM " + table + " WHERE key = 'a'")
	srv.Resume(pid)
	r := <-results
	if r.err != nil {
		t.Fatal(r.err)
	}
	if r.rev <= between {
		t.Errorf("revision %d was created after %d", r.rev, between)
	}
}

// A connection that listens, and is cut off without a word, is noticed by its
// silence.
func TestAWatchOutlivesABlackHole(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	sound := made(t, srv.DSN("lab"), table)
	p := natslab.NewRelay(t, srv.Addr())
	s := over(t, poolOf(t, srv.URL("lab", p.Addr())), pgstore.Options{Table: table, Every: deafClock, Timeout: time.Second})
	h := trial.Listen(t, s, "a")
	rev := uint64(0)
	for range 3 { // the last of which only notifications can bring
		rev = trial.Must(t, sound, store.Write{Key: "a", Expected: rev, Value: []byte("heard")})
		h.Until("a write", func(e store.Entry) bool { return e.Revision == rev })
	}
	p.Hold(natslab.ToServer, natslab.ToClient)
	rev = trial.Must(t, sound, store.Write{Key: "a", Expected: rev, Value: []byte("unheard")})
	natslab.Eventually(t, "the loss is noticed", func(context.Context) error {
		if s.ConnState() == store.Connected {
			return errors.New("not yet")
		}
		return nil
	})
	p.Drop() // what was held is lost
	p.Resume()
	h.Until("what was written meanwhile", func(e store.Entry) bool { return e.Revision == rev })
}

func TestBehindAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	addr := srv.PgBouncer("transaction")
	table := newTable()
	pool := poolOf(t, srv.URL("lab", addr))
	s := over(t, pool, pgstore.Options{Table: table, Create: true, Every: 100 * time.Millisecond})
	r, err := trial.Check(t, s)
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "transaction mode") {
		t.Fatalf("%+v, %v", r, err)
	}
	h := trial.Listen(t, s, "a")
	rev := uint64(0)
	for i := range 20 {
		rev = trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte(fmt.Sprint(i))})
		h.Until("a write, found by the clock", func(e store.Entry) bool { return e.Revision == rev })
	}
	trial.StaysConnected(t, s, 5*time.Second) // longer than a notification is waited for
}

// A session that goes on listening sends notifications to the next client that
// the pooler lends it to, which does not read them.
func TestBehindAPoolerNoSessionGoesOnListening(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	pool := poolOf(t, srv.URL("lab", srv.PgBouncer("transaction")))
	s := over(t, pool, pgstore.Options{Table: newTable(), Create: true})
	if r, err := trial.Check(t, s); err != nil || len(r.Warnings) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	// Transactions under way at once have as many sessions as the pooler has.
	ctx := trial.Within(t)
	var underWay []pgx.Tx
	defer func() {
		for _, tx := range underWay {
			_ = tx.Rollback(ctx) // it wrote nothing
		}
	}()
	for range 4 {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		underWay = append(underWay, tx)
		var pid, channels int
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid(), (SELECT count(*) FROM pg_listening_channels())", pgx.QueryExecModeExec).Scan(&pid, &channels); err != nil {
			t.Fatal(err)
		}
		if channels != 0 {
			t.Errorf("session %d listens to %d channels", pid, channels)
		}
	}
}

func TestBehindAPoolerInSessionModeChangesAreNotified(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	addr := srv.PgBouncer("session")
	table := newTable()
	made(t, srv.DSN("lab"), table)
	pool := poolOf(t, srv.URL("lab", addr), func(c *pgxpool.Config) { c.MaxConns = 2 })
	s := over(t, pool, pgstore.Options{Table: table, Every: deafClock})
	if r, err := trial.Check(t, s); err != nil || len(r.Warnings) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h := trial.Listen(t, s, "a")
	listening(t, srv, s)
	srv.Exec("INSERT INTO " + table + " (key, value) VALUES ('a', 'by hand')")
	h.Until("a notification", func(e store.Entry) bool { return string(e.Value) == "by hand" })
}
