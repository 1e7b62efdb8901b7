package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestCheckFindsNothingWrongWithADurableServer(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	s := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table, Create: true})
	trial.FindsNothingWrong(t, s, time.Now())
	if e := trial.Get(t, s, "group"); e.Revision != 0 {
		t.Errorf("the check wrote: %+v", e)
	}
	// A table of another time has its age, and revisions go on.
	before := trial.Must(t, s, store.Write{Key: "group", Value: []byte("v")})
	srv.Exec("DROP TABLE " + table)
	trial.FindsNothingWrong(t, s, time.Now())
	if after := trial.Must(t, s, store.Write{Key: "group", Value: []byte("v")}); after <= before {
		t.Errorf("revision %d follows %d across a table made again", after, before)
	}
	srv.Exec("DROP TABLE "+table, "DROP SEQUENCE "+table+"_revision")
	if _, err := trial.Check(t, s); err != nil {
		t.Fatal(err)
	}
	if after := trial.Must(t, s, store.Write{Key: "group", Value: []byte("v")}); after <= before {
		t.Errorf("revision %d follows %d across a table and a sequence made again", after, before)
	}
}

func TestCheckRefusesATableThatDoesNotSuit(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	for _, c := range []struct {
		name  string
		spoil []string // of T_NAME
		words []string
	}{
		{"missing", []string{"DROP TABLE T_NAME"}, []string{"missing", "pgstore.Schema", "Options.Create"}},
		{"unlogged", []string{"ALTER TABLE T_NAME SET UNLOGGED"}, []string{"SET LOGGED"}},
		{"sequence with a cache", []string{"ALTER SEQUENCE T_NAME_revision CACHE 32"}, []string{"CACHE 1"}},
		{"sequence that falls", []string{"ALTER SEQUENCE T_NAME_revision INCREMENT BY -1"}, []string{"INCREMENT BY 1"}},
		{"sequence that cycles", []string{"ALTER SEQUENCE T_NAME_revision CYCLE"}, []string{"NO CYCLE"}},
		{"no sequence", []string{"DROP SEQUENCE T_NAME_revision"}, []string{"T_NAME_revision", "missing"}},
		{"a trigger is disabled", []string{"ALTER TABLE T_NAME DISABLE TRIGGER leader_tell"}, []string{"ENABLE TRIGGER"}},
		{"a trigger is gone", []string{"DROP TRIGGER leader_draw ON T_NAME"}, []string{"2 of its triggers"}},
		{"a view", []string{"DROP TABLE T_NAME", "CREATE VIEW T_NAME AS SELECT 1"}, []string{"relkind v"}},
		{"no function", []string{"DROP FUNCTION T_NAME_swap"}, []string{"pgstore.Schema"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			made(t, srv.DSN("lab"), table)
			for _, text := range c.spoil {
				srv.Exec(strings.ReplaceAll(text, "T_NAME", table))
			}
			s := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table})
			_, err := trial.Check(t, s)
			trial.Outcome(t, err, store.Permanent)
			for _, w := range c.words {
				trial.Outcome(t, err, store.Permanent, strings.ReplaceAll(w, "T_NAME", table))
			}
		})
	}
}

// A trigger that is disabled after the check draws no revision.
func TestAWriteWithoutARevisionIsRefused(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	s := made(t, srv.DSN("lab"), table)
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("first")})
	srv.Exec("ALTER TABLE " + table + " DISABLE TRIGGER leader_draw")
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev, Value: []byte("second")})
	trial.Outcome(t, err, store.Permanent, "trigger")
	if e := trial.Get(t, s, "a"); e.Revision != rev || string(e.Value) != "first" {
		t.Errorf("the register is at %+v", e)
	}
}

func TestCheckWarnsOfAServerThatMayForget(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t, "fsync=off", "full_page_writes=off")
	s := made(t, srv.DSN("lab"), newTable())
	r, err := trial.Check(t, s)
	if err != nil || !r.Forgetful || len(r.Warnings) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	srv.Exec("SELECT pg_create_physical_replication_slot('s1')") // of a standby that is away
	if r, err = trial.Check(t, s); err != nil || len(r.Warnings) != 3 || !strings.Contains(r.Warnings[2], "1 replication slots") {
		t.Fatalf("%+v, %v", r, err)
	}
}

// Recovery ends by itself, and so does what a failover made read-only.
func TestAServerThatTakesNoWritesIsRefusedForTheMoment(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	primary := made(t, srv.DSN("lab"), table)
	rev := trial.Must(t, primary, store.Write{Key: "a", Value: []byte("v")})
	standby := srv.Standby("s1")
	s := over(t, poolOf(t, standby.DSN("lab")), pgstore.Options{Table: table})
	_, err := trial.Check(t, s)
	trial.Outcome(t, err, store.Transient, "standby", "target_session_attrs")
	_, err = s.Get(trial.Within(t), "a")
	trial.Outcome(t, err, store.Transient, "standby")
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
	trial.Outcome(t, err, store.Transient, "target_session_attrs")

	srv.Exec("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	natslab.Eventually(t, "the primary takes no writes", func(ctx context.Context) error {
		next, err := primary.CompareAndSwap(ctx, store.Write{Key: "a", Expected: rev})
		if err == nil {
			rev = next
			return errors.New("it does")
		}
		return nil
	})
	readOnly := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table})
	_, err = trial.Check(t, readOnly)
	trial.Outcome(t, err, store.Transient, "default_transaction_read_only")
	_, err = readOnly.CompareAndSwap(trial.Within(t), store.Write{Key: "a"})
	trial.Outcome(t, err, store.Transient)

	standby.Promote()
	natslab.Eventually(t, "the promoted standby serves", func(ctx context.Context) error {
		_, err := s.Get(ctx, "a")
		return err
	})
}

// Transactions of the pool's own making change nothing: whatever their
// isolation, a lost race is not acknowledged.
func TestAnyIsolationLevelWorks(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t, "default_transaction_isolation=serializable")
	table := newTable()
	s := made(t, srv.DSN("lab"), table)
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	won := make(chan error, 8)
	for range cap(won) {
		go func() {
			_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev, Value: []byte("w")})
			won <- err
		}()
	}
	winners := 0
	for range cap(won) {
		switch err := <-won; store.Classify(err) {
		case store.OK:
			winners++
		case store.Conflict, store.Transient:
		default:
			t.Error(err)
		}
	}
	if winners != 1 {
		t.Errorf("%d of %d writes over one revision won", winners, cap(won))
	}
}

func TestAnyNumberMayMakeTheTableAtOnce(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	for range 5 {
		table := newTable()
		results := make(chan error, 8)
		for range cap(results) {
			s := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table, Create: true})
			go func() {
				_, err := trial.Check(t, s)
				results <- err
			}()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	}
	text, err := pgstore.Schema("app.records")
	if err != nil {
		t.Fatal(err)
	}
	srv.Exec("CREATE SCHEMA app", text, text) // a migration may run twice
	if _, err := trial.Check(t, over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: "app.records"})); err != nil {
		t.Error(err)
	}
}
