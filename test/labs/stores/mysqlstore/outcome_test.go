package mysqlstore_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

func TestAWriteForWhichNoConnectionIsFreeIsTransient(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	made(t, url(srv), table)
	db := poolOf(t, srv.DSN("lab"))
	db.SetMaxOpenConns(1)
	busy := over(t, db, mysqlstore.Options{Table: table})
	conn, err := db.Conn(trial.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = busy.CompareAndSwap(trial.Brief(t), store.Write{Key: "a", Value: []byte("v")})
	if cerr := conn.Close(); cerr != nil {
		t.Error(cerr)
	}
	trial.Outcome(t, err, store.Transient)
	if e := trial.Get(t, busy, "a"); e.Revision != 0 {
		t.Errorf("a write that never left is there: %+v", e)
	}
}

// The driver counts rows that are found, or rows that are changed, depending on
// its flags.
func TestFlagsOfTheDriverChangeNoOutcome(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	for _, flags := range []string{"", "?clientFoundRows=true", "?interpolateParams=true", "?rejectReadOnly=true", "?parseTime=true&loc=Local&time_zone=%27%2B05%3A00%27"} {
		table := newTable()
		made(t, url(srv), table)
		s := over(t, poolOf(t, srv.DSN("lab")+flags), mysqlstore.Options{Table: table})
		w := store.Write{Key: "a", Value: []byte("same")}
		rev := trial.Must(t, s, w)
		_, err := s.CompareAndSwap(trial.Within(t), w)
		trial.Outcome(t, err, store.Conflict)
		for range 3 { // the same value each time
			w.Expected = rev
			if rev = trial.Must(t, s, w); rev <= w.Expected {
				t.Errorf("%q: revision %d follows %d", flags, rev, w.Expected)
			}
			_, err := s.CompareAndSwap(trial.Within(t), w)
			trial.Outcome(t, err, store.Conflict)
		}
		if e := trial.Get(t, s, "a"); e.Revision != rev {
			t.Errorf("%q: the register is at %d, and %d was acknowledged", flags, e.Revision, rev)
		}
	}
}

// The driver applies the limit of its settings, unless these make it ask the
// server.
func TestAWriteLargerThanTheDriverSendsIsRefusedPermanently(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	made(t, url(srv), table)
	s := over(t, poolOf(t, srv.DSN("lab")+"?maxAllowedPacket=65536"), mysqlstore.Options{Table: table})
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	for _, w := range []store.Write{{Key: "a", Expected: rev}, {Key: "b"}} {
		w.Value = make([]byte, 40<<10) // as hexadecimal digits
		_, err := s.CompareAndSwap(trial.Within(t), w)
		trial.Outcome(t, err, store.Permanent, "packet")
	}
	if a, b := trial.Get(t, s, "a"), trial.Get(t, s, "b"); a.Revision != rev || b.Revision != 0 {
		t.Errorf("a refused write was applied: %+v, %+v", a, b)
	}
	trial.Must(t, s, store.Write{Key: "a", Expected: rev}) // the connection goes on
}

// The server undoes the statements of such a session when it ends.
func TestASessionThatDoesNotCommitWritesNothing(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	rev := trial.Must(t, made(t, url(srv), table), store.Write{Key: "a", Value: []byte("v")})
	s := over(t, poolOf(t, srv.DSN("lab")+"?autocommit=0"), mysqlstore.Options{Table: table})
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
	trial.Outcome(t, err, store.Permanent, "autocommit")
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "b"})
	trial.Outcome(t, err, store.Permanent, "autocommit")
	_, err = s.Check(trial.Within(t), store.CheckRequest{})
	trial.Outcome(t, err, store.Permanent, "autocommit")
}
