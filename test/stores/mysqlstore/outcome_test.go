package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// brief is a context for a call that does not end by itself.
func brief(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), 300*time.Millisecond)
	tb.Cleanup(cancel)
	return ctx
}

func TestAWriteWhoseAnswerIsLostIsUnknownAndSentOnce(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	sound := made(t, url(srv), table)
	for name, lose := range map[string]func(*natslab.Proxy){
		"the answer does not come": func(*natslab.Proxy) {},
		"the connection is cut":    func(p *natslab.Proxy) { p.Reset() },
	} {
		for _, create := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", creation ", create), func(t *testing.T) {
				p := natslab.NewProxy(t, srv.Addr())
				s := open(t, srv.URL("lab", p.Addr()), table)
				key := "k" + newTable()
				first := uint64(0)
				if !create {
					first = must(t, s, store.Write{Key: key, Value: []byte("first")})
				}
				get(t, s, key) // by a connection that is there
				p.Hold(natslab.ToClient)
				result := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					_, err := s.CompareAndSwap(ctx, store.Write{Key: key, Expected: first, Value: []byte("second")})
					result <- err
				}()
				var applied store.Entry
				natslab.Eventually(t, "the write is applied", func(context.Context) error {
					if applied = get(t, sound, key); string(applied.Value) != "second" {
						return errors.New(string(applied.Value))
					}
					return nil
				})
				lose(p)
				outcome(t, <-result, store.Unknown)
				p.Resume()
				if e := get(t, sound, key); e.Revision != applied.Revision {
					t.Errorf("one call left revision %d, and then %d", applied.Revision, e.Revision)
				}
				_, err := sound.CompareAndSwap(within(t), store.Write{Key: key, Expected: first})
				outcome(t, err, store.Conflict)
			})
		}
	}
}

func TestAWriteToAFrozenServerIsUnknownAndMayLandLater(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	s := made(t, url(srv), newTable())
	first := must(t, s, store.Write{Key: "a", Value: []byte("first")})
	srv.Freeze()
	_, err := s.CompareAndSwap(brief(t), store.Write{Key: "a", Expected: first, Value: []byte("second")})
	srv.Thaw()
	outcome(t, err, store.Unknown)
	natslab.Eventually(t, "the next write", func(ctx context.Context) error {
		e, err := s.Get(ctx, "a")
		if err == nil {
			_, err = s.CompareAndSwap(ctx, store.Write{Key: "a", Expected: e.Revision, Value: []byte("third")})
		}
		return err
	})
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
	outcome(t, err, store.Transient)

	// All connections of the pool are in use.
	db := poolOf(t, srv.DSN("lab"))
	db.SetMaxOpenConns(1)
	busy := over(t, db, mysqlstore.Options{Table: table})
	conn, err := db.Conn(within(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = busy.CompareAndSwap(brief(t), write)
	if cerr := conn.Close(); cerr != nil {
		t.Error(cerr)
	}
	outcome(t, err, store.Transient)

	// The server is gone, and refuses connections.
	srv.Kill()
	idle := over(t, poolOf(t, srv.DSN("lab")), mysqlstore.Options{Table: table})
	_, err = idle.CompareAndSwap(within(t), write)
	outcome(t, err, store.Transient)
	_, err = idle.Get(within(t), "a")
	outcome(t, err, store.Transient)
	srv.Run()
	if e := get(t, idle, "a"); e.Revision != 0 {
		t.Errorf("a write that never left is there: %+v", e)
	}
}

func TestAcknowledgedWritesSurviveKills(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t, "--log-bin=binlog", "--server-id=1", "--sync-binlog=1")
	s := made(t, url(srv), newTable())
	rev := uint64(0)
	for i := range 3 {
		value := fmt.Sprint("write ", i)
		rev = must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte(value)})
		created := must(t, s, store.Write{Key: fmt.Sprint("k", i), Value: []byte(value), Tombstone: true})
		srv.Kill()
		srv.Run()
		e, other := get(t, s, "a"), get(t, s, fmt.Sprint("k", i))
		if e.Revision != rev || string(e.Value) != value || other.Revision != created || !other.Tombstone {
			t.Fatalf("after kill %d: %+v and %+v; acknowledged were revisions %d and %d", i, e, other, rev, created)
		}
	}
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
		rev := must(t, s, w)
		_, err := s.CompareAndSwap(within(t), w)
		outcome(t, err, store.Conflict)
		for range 3 { // the same value each time
			w.Expected = rev
			if rev = must(t, s, w); rev <= w.Expected {
				t.Errorf("%q: revision %d follows %d", flags, rev, w.Expected)
			}
			_, err := s.CompareAndSwap(within(t), w)
			outcome(t, err, store.Conflict)
		}
		if e := get(t, s, "a"); e.Revision != rev {
			t.Errorf("%q: the register stands at %d, and %d was acknowledged", flags, e.Revision, rev)
		}
	}
}

// What such a session is told is undone when it ends.
func TestASessionThatDoesNotCommitWritesNothing(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	rev := must(t, made(t, url(srv), table), store.Write{Key: "a", Value: []byte("v")})
	s := over(t, poolOf(t, srv.DSN("lab")+"?autocommit=0"), mysqlstore.Options{Table: table})
	_, err := s.CompareAndSwap(within(t), store.Write{Key: "a", Expected: rev})
	outcome(t, err, store.Permanent, "autocommit")
	_, err = s.CompareAndSwap(within(t), store.Write{Key: "b"})
	outcome(t, err, store.Permanent, "autocommit")
	_, err = s.Check(within(t), store.CheckRequest{})
	outcome(t, err, store.Permanent, "autocommit")
}

func TestAClosedStoreOrPoolIsClosedForGood(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	db := poolOf(t, srv.DSN("lab"))
	s := over(t, db, mysqlstore.Options{Table: table, Create: true})
	if _, err := s.Check(within(t), store.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := db.PingContext(within(t)); err != nil {
		t.Errorf("a store closed the pool that it was given: %v", err)
	}
	other := over(t, db, mysqlstore.Options{Table: table})
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	for _, s := range []*mysqlstore.Store{s, other} {
		if _, err := s.CompareAndSwap(within(t), store.Write{Key: "a"}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a write: %v", err)
		}
		if _, err := s.Get(within(t), "a"); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a read: %v", err)
		}
	}
}

func TestInvalidKeysAndValuesAreRefusedWithoutTheServer(t *testing.T) {
	t.Parallel()
	s := over(t, poolOf(t, "lab@tcp(127.0.0.1:1)/none"), mysqlstore.Options{}) // nobody listens there
	for _, w := range []store.Write{{Key: ""}, {Key: "a' OR '1"}, {Key: "a", Value: make([]byte, 1<<20+1)}} {
		if _, err := s.CompareAndSwap(within(t), w); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("key %q with %d bytes: %v", w.Key, len(w.Value), err)
		}
	}
	if _, err := s.Get(within(t), "a'"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a read: %v", err)
	}
	_, err := s.CompareAndSwap(within(t), store.Write{Key: "a", Expected: 1 << 63})
	outcome(t, err, store.Conflict)
}
