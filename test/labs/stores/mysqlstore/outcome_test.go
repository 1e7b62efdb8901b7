package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

func TestAWriteWhoseAnswerIsLostIsUnknownAndSentOnce(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	made(t, url(srv), table)
	trial.LostAnswers(t, trial.Way{
		Addr: srv.Addr(),
		Open: func(tb testing.TB, addr string) store.Store { return open(tb, srv.URL("lab", addr), table) },
	})
}

func TestAWriteToAFrozenServerIsUnknownAndMayLandLater(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	trial.Frozen(t, made(t, url(srv), newTable()), srv, false)
}

func TestWhatNeverLeftIsTransient(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	s := made(t, url(srv), table)
	write := store.Write{Key: "a", Value: []byte("v")}

	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.CompareAndSwap(done, write)
	trial.Outcome(t, err, store.Transient)

	// All connections of the pool are in use.
	db := poolOf(t, srv.DSN("lab"))
	db.SetMaxOpenConns(1)
	busy := over(t, db, mysqlstore.Options{Table: table})
	conn, err := db.Conn(trial.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = busy.CompareAndSwap(trial.Brief(t), write)
	if cerr := conn.Close(); cerr != nil {
		t.Error(cerr)
	}
	trial.Outcome(t, err, store.Transient)

	// The server is gone, and refuses connections.
	srv.Kill()
	idle := over(t, poolOf(t, srv.DSN("lab")), mysqlstore.Options{Table: table})
	_, err = idle.CompareAndSwap(trial.Within(t), write)
	trial.Outcome(t, err, store.Transient)
	_, err = idle.Get(trial.Within(t), "a")
	trial.Outcome(t, err, store.Transient)
	srv.Run()
	if e := trial.Get(t, idle, "a"); e.Revision != 0 {
		t.Errorf("a write that never left is there: %+v", e)
	}
}

func TestAcknowledgedWritesSurviveKills(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	s := made(t, url(srv), newTable())
	rev := uint64(0)
	for i := range 3 {
		value := fmt.Sprint("write ", i)
		rev = trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte(value)})
		created := trial.Must(t, s, store.Write{Key: fmt.Sprint("k", i), Value: []byte(value), Tombstone: true})
		srv.Kill()
		srv.Run()
		e, other := trial.Get(t, s, "a"), trial.Get(t, s, fmt.Sprint("k", i))
		if e.Revision != rev || string(e.Value) != value || other.Revision != created || !other.Tombstone {
			t.Fatalf("after kill %d: %+v and %+v; acknowledged were revisions %d and %d", i, e, other, rev, created)
		}
	}
}

func TestWhatAReadShowedStays(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	made(t, url(srv), table)
	trial.ReadsAreKept(t, 5, func(tb testing.TB) store.Store { return open(tb, url(srv), table) }, func() { srv.Kill(); srv.Run() })
}

// The driver counts rows that are found, or that are changed, as its flags say.
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
			t.Errorf("%q: the register stands at %d, and %d was acknowledged", flags, e.Revision, rev)
		}
	}
}

// Unless the driver is told to ask the server, its limit is the one of its
// settings.
func TestAWriteLargerThanTheDriverSendsIsRefusedForGood(t *testing.T) {
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

// What such a session is told is undone when it ends.
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

func TestAClosedStoreOrPoolIsClosedForGood(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	db := poolOf(t, srv.DSN("lab"))
	s := over(t, db, mysqlstore.Options{Table: table, Create: true})
	if _, err := s.Check(trial.Within(t), store.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := db.PingContext(trial.Within(t)); err != nil {
		t.Errorf("a store closed the pool that it was given: %v", err)
	}
	other := over(t, db, mysqlstore.Options{Table: table})
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	trial.SaysClosed(t, s, other)
}

func TestInvalidKeysAndValuesAreRefusedWithoutTheServer(t *testing.T) {
	t.Parallel()
	s := over(t, poolOf(t, "lab@tcp(127.0.0.1:1)/none"), mysqlstore.Options{}) // nobody listens there
	for _, w := range []store.Write{{Key: ""}, {Key: "a' OR '1"}, {Key: "a", Value: make([]byte, 1<<20+1)}} {
		if _, err := s.CompareAndSwap(trial.Within(t), w); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("key %q with %d bytes: %v", w.Key, len(w.Value), err)
		}
	}
	if _, err := s.Get(trial.Within(t), "a'"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a read: %v", err)
	}
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: 1 << 63})
	trial.Outcome(t, err, store.Conflict)
}
