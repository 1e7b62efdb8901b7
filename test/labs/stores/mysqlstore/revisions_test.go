package mysqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// at returns a store that makes its table, on a server whose clock is stopped
// at the instant.
func at(tb testing.TB, srv *databases.Server, table string, instant time.Time) *mysqlstore.Store {
	tb.Helper()
	db := poolOf(tb, fmt.Sprintf("%s?timestamp=%.6f", srv.DSN("lab"), float64(instant.UnixMicro())/1e6))
	s := over(tb, db, mysqlstore.Options{Table: table, Create: true})
	if _, err := trial.Check(tb, s); err != nil {
		tb.Fatal(err)
	}
	return s
}

// No trigger runs at a TRUNCATE, so that a revision must not be ahead of the
// clock by which the next record draws its own: the server's.
func TestRevisionsGrowAcrossATruncateWithAnyCandidateClock(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	for name, off := range map[string]time.Duration{"an hour ahead": -time.Hour, "an hour behind": time.Hour} {
		t.Run("the candidate's clock is "+name, func(t *testing.T) {
			table, instant := newTable(), time.Now().Add(off)
			s := at(t, srv, table, instant)
			rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
			for range 3 {
				next := trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("w")})
				if next <= rev {
					t.Errorf("revision %d follows %d", next, rev)
				}
				rev = next
			}
			if e := trial.Get(t, s, "a"); e.Revision != rev {
				t.Errorf("acknowledged is revision %d, and the register is at %d", rev, e.Revision)
			}
			srv.Exec("TRUNCATE TABLE " + table)
			later := at(t, srv, table, instant.Add(time.Second))
			if again := trial.Must(t, later, store.Write{Key: "a", Value: []byte("v")}); again <= rev {
				t.Errorf("revision %d follows %d across a TRUNCATE", again, rev)
			}
		})
	}
}

// The server's clock is set back by an hour, or another server has taken its
// place: a write that was to have the revision of its former clock gets
// another, and must not end as a conflict.
func TestWriteSucceedsWhenTheServersClockIsSetBack(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	db := poolOf(t, srv.DSN("lab"))
	db.SetMaxOpenConns(1) // whose session is given another clock
	s := over(t, db, mysqlstore.Options{Table: table, Create: true})
	if _, err := trial.Check(t, s); err != nil {
		t.Fatal(err)
	}
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	if e := trial.Get(t, s, "a"); e.Revision != rev {
		t.Fatalf("the register is at %+v", e)
	}
	if _, err := db.ExecContext(trial.Within(t), "SET timestamp = UNIX_TIMESTAMP(NOW(6)) - 3600"); err != nil {
		t.Fatal(err)
	}
	next, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev, Value: []byte("w")})
	if err != nil || next != rev+1 {
		t.Errorf("revision %d follows %d, %v", next, rev, err)
	}
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev, Value: []byte("x")})
	trial.Outcome(t, err, store.Conflict)
}

// A renewal is one round trip, and its revision follows the server's clock,
// which a replica that is promoted has, too.
func TestAnUpdateIsOneStatementAndDrawsTheServersClock(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	db := poolOf(t, srv.DSN("lab"))
	db.SetMaxOpenConns(1)
	s := over(t, db, mysqlstore.Options{Table: newTable(), Create: true})
	if _, err := trial.Check(t, s); err != nil {
		t.Fatal(err)
	}
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	trial.Get(t, s, "a")
	statements := func() (name string, n int) {
		t.Helper()
		if err := db.QueryRowContext(trial.Within(t), "SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return name, n
	}
	for range 3 {
		_, before := statements()
		sent := time.Now()
		rev = trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("w")})
		_, after := statements()
		if n := after - before - 1; n != 1 {
			t.Errorf("an update took %d statements", n)
		}
		// The look from which the clock is known was no longer ago.
		if drawn := time.UnixMicro(int64(rev)); drawn.Before(sent.Add(-time.Minute)) || drawn.After(time.Now()) {
			t.Errorf("a write of %v has the revision of %v", sent, drawn)
		}
	}
}
