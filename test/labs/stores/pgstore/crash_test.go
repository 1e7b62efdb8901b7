package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// lazy are settings of a server that acknowledges commits up to 10 s before it
// flushes them.
var lazy = []string{"synchronous_commit=off", "wal_writer_delay=10s"}

// pair starts a primary and a standby, and returns the URL of both.
func pair(t *testing.T, settings ...string) (primary, standby *databases.Server, url string) {
	t.Helper()
	primary = lab.OwnPostgreSQL(t, append(settings, "wal_sender_timeout=60s")...)
	standby = primary.Standby("s1")
	return primary, standby, both(primary, standby)
}

// both returns the URL of two servers, of which one takes writes.
func both(a, b *databases.Server) string {
	return fmt.Sprintf("postgres://lab@%s,%s/postgres?sslmode=disable&connect_timeout=5", a.Addr(), b.Addr())
}

func TestFailoverToASynchronousStandbyLosesNothing(t *testing.T) {
	t.Parallel()
	// The server's own default would acknowledge what the standby lacks.
	primary, standby, url := pair(t, "synchronous_standby_names=s1", "synchronous_commit=local")
	s := made(t, url, newTable())
	report, err := s.Check(trial.Within(t), store.CheckRequest{TTL: time.Second})
	if err != nil || report.Forgetful || len(report.Warnings) > 0 {
		t.Errorf("a pair with a synchronous standby: %+v, %v", report, err)
	}
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("first")})
	standby.Freeze()
	err = trial.Unanswered(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("second")})
	trial.Outcome(t, err, store.Unknown)
	standby.Thaw()
	var e store.Entry
	natslab.Eventually(t, "a write once the standby answers", func(ctx context.Context) (err error) {
		if e, err = s.Get(ctx, "a"); err == nil {
			// A conflict, where the write of before landed after the read.
			rev, err = s.CompareAndSwap(ctx, store.Write{Key: "a", Expected: e.Revision, Value: []byte("third")})
		}
		return err
	})
	primary.Kill()
	standby.Promote()
	natslab.Eventually(t, "a read from the new primary", func(ctx context.Context) (err error) {
		e, err = s.Get(ctx, "a")
		return err
	})
	if e.Revision != rev || string(e.Value) != "third" {
		t.Fatalf("the new primary has %+v, where revision %d was acknowledged", e, rev)
	}
	standby.Exec("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
	if next := trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("fourth")}); next <= rev {
		t.Errorf("revision %d follows %d", next, rev)
	}
}

// A write whose caller gave up waits for the standby all the same. If it was
// cancelled there (SyncRepWaitForLSN: "canceling wait for synchronous
// replication"), it would be read, and lost with the primary.
func TestAWriteGivenUpIsNotReadBeforeTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	primary, standby, url := pair(t, "synchronous_standby_names=s1")
	table := newTable()
	s := made(t, url, table)
	ways := map[string]*pgstore.Store{"Open": s, "New": overPool(t, url, table), "NewSQL": overSQL(t, url, table)}
	rev := map[string]uint64{}
	for way, s := range ways {
		rev[way] = trial.Must(t, s, store.Write{Key: way, Value: []byte("first")})
	}
	standby.Freeze()
	thaw := sync.OnceFunc(standby.Thaw)
	t.Cleanup(thaw)
	for way, s := range ways {
		for range 2 { // the second waits for the first one's lock
			trial.Outcome(t, trial.Unanswered(t, s, store.Write{Key: way, Expected: rev[way], Value: []byte("second")}), store.Unknown)
			if e, err := s.Get(trial.Within(t), way); err != nil || e.Revision != rev[way] {
				t.Errorf("%s: read was %+v (%v), which the standby does not have", way, e, err)
			}
		}
	}
	primary.Kill()
	thaw()
	standby.Promote()
	natslab.Eventually(t, "reads from the new primary", func(ctx context.Context) error {
		for way := range ways {
			e, err := s.Get(ctx, way)
			if err != nil {
				return err
			}
			if e.Revision < rev[way] {
				t.Errorf("%s: the new primary has %+v, where revision %d was read", way, e, rev[way])
			}
		}
		return nil
	})
}

// overPool and overSQL return stores over the user's own pools, made as
// NoCancel documents.
func overPool(t *testing.T, url, table string) *pgstore.Store {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url + "&target_session_attrs=read-write")
	if err != nil {
		t.Fatal(err)
	}
	cfg.BeforeConnect = func(_ context.Context, own *pgx.ConnConfig) error {
		pgstore.NoCancel(own)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(trial.Within(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return over(t, pool, pgstore.Options{Table: table})
}

func overSQL(t *testing.T, url, table string) *pgstore.Store {
	t.Helper()
	cfg, err := pgx.ParseConfig(url + "&target_session_attrs=read-write")
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*cfg, stdlib.OptionBeforeConnect(func(_ context.Context, own *pgx.ConnConfig) error {
		pgstore.NoCancel(own)
		return nil
	}))
	t.Cleanup(func() { _ = db.Close() })
	s, err := pgstore.NewSQL(db, pgstore.Options{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The cost of an asynchronous standby: because of it Check reports that the
// store may forget.
func TestFailoverToAnAsynchronousStandbyForgetsAndIsWarnedOf(t *testing.T) {
	t.Parallel()
	primary := lab.OwnPostgreSQL(t)
	way := natslab.NewRelay(t, primary.Addr())
	host, port, _ := strings.Cut(way.Addr(), ":")
	standby := primary.Standby("s1", fmt.Sprintf("primary_conninfo=host=%s port=%s user=lab application_name=s1", host, port))
	table := newTable()
	s := made(t, both(primary, standby), table)
	report, err := s.Check(trial.Within(t), store.CheckRequest{TTL: time.Second})
	if err != nil || !report.Forgetful || !strings.Contains(strings.Join(report.Warnings, " "), "synchronous_standby_names") {
		t.Errorf("a pair without a synchronous standby: %+v, %v", report, err)
	}
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("first")})
	natslab.Eventually(t, "the standby has the record", func(context.Context) error {
		var n int
		err := standby.DB().QueryRow("SELECT count(*) FROM " + table).Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("it is empty")
		}
		return err
	})
	way.Hold(natslab.ToClient)
	lost := trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("lost")})
	primary.Kill()
	standby.Promote()
	var e store.Entry
	natslab.Eventually(t, "a read from the new primary", func(ctx context.Context) (err error) {
		e, err = s.Get(ctx, "a")
		return err
	})
	if e.Revision != rev {
		t.Errorf("the new primary has %+v, where revision %d was never sent to it", e, lost)
	}
	// Terms are revisions: none may have the number of one that was lost.
	if next := trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("next")}); next <= lost {
		t.Errorf("revision %d follows %d, which was acknowledged and lost", next, lost)
	}
}

// The promoted standby has never received the leader's record. Neither has the
// candidate that starts there, which sees no standby any more.
func TestAFailoverThatLosesTheLeaderIsSurvived(t *testing.T) {
	t.Parallel()
	primary := lab.OwnPostgreSQL(t)
	way := natslab.NewRelay(t, primary.Addr())
	host, port, _ := strings.Cut(way.Addr(), ":")
	standby := primary.Standby("s1", fmt.Sprintf("primary_conninfo=host=%s port=%s user=lab application_name=s1", host, port))
	table := newTable()
	made(t, primary.DSN("lab"), table)
	natslab.Eventually(t, "the standby has the table", func(context.Context) error {
		_, err := standby.DB().Exec("TABLE " + table)
		return err
	})
	before := time.Now()
	elections.FailoverThatForgets(t, elections.Failover{
		Before: func(tb testing.TB) store.Store { return open(tb, primary.DSN("lab"), table) },
		After:  func(tb testing.TB) store.Store { return open(tb, standby.DSN("lab"), table) },
		Part:   func() { way.Hold(natslab.ToClient) },
		Happen: func() { primary.Kill(); standby.Promote() },
	})
	r, err := trial.Check(t, open(t, standby.DSN("lab"), table))
	if since := time.Since(before); err != nil || r.Age > since || r.Forgetful || len(r.Warnings) > 0 {
		t.Errorf("the table is reported to be older than the failover, which was less than %v ago: %+v, %v", since, r, err)
	}
}

// A crash ends the session that listens, and writes made before another session
// listens are not notified.
func TestAWatchOutlivesACrashOfTheServer(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	made(t, srv.DSN("lab"), table)
	s := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table, Every: deafClock})
	h := trial.Listen(t, s, "a")
	listening(t, srv, s)
	rev := uint64(0)
	for range 2 {
		srv.Kill()
		srv.Run()
		writer := open(t, srv.DSN("lab"), table) // without connections of before
		for range 3 {                            // the last of which only a notification can bring
			rev = trial.Must(t, writer, store.Write{Key: "a", Expected: rev, Value: []byte("heard")})
			h.Until("a write after the crash", func(e store.Entry) bool { return e.Revision == rev })
		}
	}
}
