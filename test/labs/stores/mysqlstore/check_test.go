package mysqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

func TestCheckFindsNothingWrongWithADurableServer(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	s := over(t, poolOf(t, srv.DSN("lab")), mysqlstore.Options{Table: table, Create: true})
	trial.FindsNothingWrong(t, s, time.Now())
	if e := trial.Get(t, s, "group"); e.Revision != 0 {
		t.Errorf("the check wrote: %+v", e)
	}
	// A table that is made again goes on.
	before := trial.Must(t, s, store.Write{Key: "group", Value: []byte("v")})
	for _, spoil := range []string{"TRUNCATE TABLE " + table, "DROP TABLE " + table, "DROP TABLE " + table + ", " + table + "_floor"} {
		srv.Exec(spoil)
		if _, err := trial.Check(t, s); err != nil {
			t.Fatalf("%s: %v", spoil, err)
		}
		after := trial.Must(t, s, store.Write{Key: "group", Value: []byte("v")})
		if after <= before {
			t.Errorf("%s: revision %d follows %d", spoil, after, before)
		}
		before = after
	}
}

// A table's age is the difference of two instants. The server gives them by its
// wall clock, in a zone where an hour may come twice or be left out, and cuts
// one of them to whole seconds. The test sets the clock and the zone of the
// session.
func TestATableIsNotReportedAsOlderThanItIs(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	made(t, url(srv), table)
	var second int64 // in which the table was made
	err := srv.DB().QueryRow("SELECT UNIX_TIMESTAMP(create_time) FROM information_schema.tables WHERE table_name = ?", table).Scan(&second)
	if err != nil {
		t.Fatal(err)
	}
	// How far a zone is ahead of UTC, before and after its change.
	back, forth := [2]int{3600, 0}, [2]int{0, 3600}
	for i, c := range []struct {
		name   string
		change time.Duration // of the zone, after the second
		ahead  [2]int
		after  time.Duration // of the reading
	}{
		{"in the same second", -24 * time.Hour, back, 999 * time.Millisecond},
		{"a second later", -24 * time.Hour, back, time.Second},
		{"an hour later", -24 * time.Hour, back, time.Hour},
		{"made in a repeated hour", -10 * time.Minute, back, 2 * time.Hour},
		{"made in an hour that is repeated", 10 * time.Minute, back, 2 * time.Hour},
		{"read in a repeated hour", 115 * time.Minute, back, 2 * time.Hour},
		{"read in an hour that is repeated", 130 * time.Minute, back, 2 * time.Hour},
		{"an hour is left out", 10 * time.Minute, forth, 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			zone := 1 + i
			srv.Exec(fmt.Sprintf("INSERT INTO mysql.time_zone (Time_zone_id) VALUES (%d)", zone),
				fmt.Sprintf("INSERT INTO mysql.time_zone_name VALUES ('zone%[1]d', %[1]d)", zone),
				fmt.Sprintf("INSERT INTO mysql.time_zone_transition_type VALUES (%[1]d, 0, %[2]d, 0, 'before'), (%[1]d, 1, %[3]d, 0, 'then')", zone, c.ahead[0], c.ahead[1]),
				fmt.Sprintf("INSERT INTO mysql.time_zone_transition VALUES (%[1]d, 0, 0), (%[1]d, %[2]d, 1)", zone, second+int64(c.change.Seconds())))
			db := poolOf(t, fmt.Sprintf("%s?time_zone=%%27zone%d%%27&timestamp=%f", srv.DSN("lab"), zone, float64(second)+c.after.Seconds()))
			r, err := trial.Check(t, over(t, db, mysqlstore.Options{Table: table}))
			// It may have been made at the end of its second.
			if most := max(c.after-time.Second, 1); err != nil || r.Age <= 0 || r.Age > most {
				t.Errorf("the table may be %v old, and is reported to be %v old, %v", most, r.Age, err)
			}
		})
	}
}

// The clock of the server is set back between a deletion and what follows.
func TestRevisionsGrowAcrossADeletionAndAClockSetBack(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	s := made(t, url(srv), table)
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	// As if that had been written by a clock an hour ahead.
	srv.Exec("UPDATE " + table + " SET revision = revision + 3600000000")
	ahead := trial.Get(t, s, "a").Revision
	if ahead < rev+3_600_000_000 {
		t.Fatalf("the register is at %d, after %d", ahead, rev)
	}
	srv.Exec("DELETE FROM " + table)
	if again := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")}); again <= ahead {
		t.Errorf("revision %d follows %d", again, ahead)
	}
	srv.Exec("DELETE FROM "+table, "INSERT INTO "+table+" (name, value) VALUES ('a', 'by hand')")
	if e := trial.Get(t, s, "a"); e.Revision <= ahead {
		t.Errorf("by hand revision %d follows %d", e.Revision, ahead)
	}
	before := trial.Get(t, s, "a").Revision
	for _, set := range []string{"revision = 1, value = 'again'", "value = 'again'"} {
		srv.Exec("UPDATE " + table + " SET " + set)
		e := trial.Get(t, s, "a")
		if e.Revision <= before || string(e.Value) != "again" {
			t.Errorf("SET %s by hand: %+v, after %d", set, e, before)
		}
		before = e.Revision
	}
	if _, err := srv.DB().Exec("UPDATE " + table + " SET name = 'b'"); err == nil || !strings.Contains(err.Error(), "renamed") {
		t.Errorf("a rename: %v", err)
	}
}

// A creation that meets a deletion under way draws its revision after it, be it
// ours or another tool's. With a binlog of rows, as MySQL has by default, a
// trigger's read takes no lock that it does not ask for.
func TestARevisionIsDrawnAfterAConcurrentDeletions(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t, "--binlog-format=ROW")
	for _, isolation := range []string{"READ-COMMITTED", "REPEATABLE-READ"} {
		for creator, create := range map[string]func(*sql.DB, *mysqlstore.Store, string) error{
			"a store": func(_ *sql.DB, s *mysqlstore.Store, _ string) error {
				rev, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Value: []byte("w")})
				if e := trial.Get(t, s, "a"); err == nil && e.Revision != rev {
					t.Errorf("acknowledged is revision %d, and the register is at %d", rev, e.Revision)
				}
				return err
			},
			"another tool": func(db *sql.DB, _ *mysqlstore.Store, table string) error {
				_, err := db.ExecContext(trial.Within(t), "INSERT INTO "+table+" (name, value) VALUES ('a', 'w')")
				return err
			},
		} {
			t.Run(creator+", "+isolation, func(t *testing.T) {
				table := newTable()
				made(t, url(srv), table)
				db := poolOf(t, srv.DSN("lab")+"?tx_isolation=%27"+isolation+"%27")
				s := over(t, db, mysqlstore.Options{Table: table})
				drawnAfterADeletion(t, srv, s, table, func() error { return create(db, s, table) })
			})
		}
	}
}

// drawnAfterADeletion has a record created while its deletion is under way.
func drawnAfterADeletion(t *testing.T, srv *databases.Server, s *mysqlstore.Store, table string, create func() error) {
	t.Helper()
	trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	// Ahead of the clock, so that only the lock can help.
	srv.Exec("UPDATE " + table + " SET revision = revision + 3600000000")
	ahead := trial.Get(t, s, "a").Revision
	tx, err := srv.DB().BeginTx(trial.Within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("DELETE FROM " + table); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- create() }()
	// Not by innodb_trx, which is not refreshed while it is asked often.
	trial.Await(t, "the creation waits", func() bool {
		var n int
		err := srv.DB().QueryRowContext(trial.Within(t), "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'").Scan(&n)
		return err == nil && n > 0
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if e := trial.Get(t, s, "a"); e.Revision <= ahead {
		t.Errorf("the record is at revision %d, and one was deleted at %d", e.Revision, ahead)
	}
}

func TestCheckRefusesATableThatDoesNotSuit(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	for _, c := range []struct {
		name  string
		spoil []string // of T_NAME
		flags string   // of the driver
		words []string
	}{
		{"missing", []string{"DROP TABLE T_NAME"}, "", []string{"missing", "mysqlstore.Schema", "Options.Create"}},
		{"MyISAM", []string{"ALTER TABLE T_NAME ENGINE = MyISAM"}, "", []string{"MyISAM", "InnoDB"}},
		{"a trigger is gone", []string{"DROP TRIGGER T_NAME_update"}, "", []string{"2 triggers"}},
		{"no floor", []string{"DROP TABLE T_NAME_floor"}, "", []string{"incomplete", "mysqlstore.Schema"}},
		{"a floor without row locks", []string{"ALTER TABLE T_NAME_floor ENGINE = MyISAM"}, "", []string{"T_NAME_floor", "InnoDB"}},
		{"a view in the floor's place", []string{
			"CREATE TABLE T_NAME_below AS SELECT * FROM T_NAME_floor", "DROP TABLE T_NAME_floor", "CREATE VIEW T_NAME_floor AS SELECT * FROM T_NAME_below",
		}, "", []string{"T_NAME_floor", "InnoDB"}},
		{"incomplete", []string{"DELETE FROM T_NAME_floor WHERE id = 2"}, "", []string{"incomplete"}},
		{"dirty reads", nil, "?tx_isolation=%27READ-UNCOMMITTED%27", []string{"isolation"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			made(t, url(srv), table)
			for _, text := range c.spoil {
				srv.Exec(strings.ReplaceAll(text, "T_NAME", table))
			}
			_, err := trial.Check(t, over(t, poolOf(t, srv.DSN("lab")+c.flags), mysqlstore.Options{Table: table}))
			for _, word := range c.words {
				trial.Outcome(t, err, store.Permanent, strings.ReplaceAll(word, "T_NAME", table))
			}
		})
	}
}

func TestCheckWarnsOfAServerThatMayForget(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t, "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2", "--skip-innodb-doublewrite")
	r, err := trial.Check(t, made(t, url(srv), newTable()))
	if err != nil || !r.Forgetful || len(r.Warnings) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, word := range []string{"innodb_flush_log_at_trx_commit=2", "sync_binlog=0", "innodb_doublewrite"} {
		if !strings.Contains(r.Warnings[i], word) {
			t.Errorf("%q is not reported: %s", word, r.Warnings[i])
		}
	}
}

// Without a binlog InnoDB shows a write before it is on the disk: see
// TestStore/Acknowledged, which fails on such a server.
func TestCheckWarnsOfAServerWithoutABinlog(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t, "--skip-log-bin")
	r, err := trial.Check(t, made(t, url(srv), newTable()))
	if err != nil || !r.Forgetful || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "log_bin") {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A failover may end it, so it is temporary. The user here has all rights, and
// the server itself would make an exception for it.
func TestAReadOnlyServerIsRefusedForTheMoment(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	s := made(t, url(srv), newTable())
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	srv.Exec("SET GLOBAL read_only = 1")
	_, err := trial.Check(t, s)
	trial.Outcome(t, err, store.Transient, "read-only")
	_, err = s.Get(trial.Within(t), "a")
	trial.Outcome(t, err, store.Transient, "read-only")
	for _, w := range []store.Write{{Key: "a", Expected: rev}, {Key: "b"}} {
		_, err = s.CompareAndSwap(trial.Within(t), w)
		trial.Outcome(t, err, store.Transient, "read-only")
	}
	srv.Exec("SET GLOBAL read_only = 0")
	if e := trial.Get(t, s, "a"); e.Revision != rev {
		t.Errorf("the register is at %+v", e)
	}
}

// A connection that the pool kept would go on refusing when another server has
// become the primary under the same name. For a user with few rights the server
// itself refuses writes.
func TestAConnectionToAServerThatTakesNoWritesIsClosed(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	rev := trial.Must(t, made(t, url(srv), table), store.Write{Key: "a", Value: []byte("v")})
	srv.Exec("CREATE USER candidate", "GRANT SELECT, INSERT, UPDATE ON lab."+table+" TO candidate",
		"GRANT SELECT ON lab."+table+"_floor TO candidate", "SET GLOBAL read_only = 1")
	for _, user := range []string{"candidate", "lab"} {
		db := poolOf(t, srv.DSN(user))
		db.SetMaxOpenConns(1)
		s := over(t, db, mysqlstore.Options{Table: table})
		connection := func() (id int64) {
			t.Helper()
			if err := db.QueryRowContext(trial.Within(t), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			return id
		}
		for name, call := range map[string]func() error{
			"update": func() error {
				_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
				return err
			},
			"creation": func() error { _, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "b"}); return err },
			"read":     func() error { _, err := s.Get(trial.Within(t), "a"); return err },
			"check":    func() error { _, err := trial.Check(t, s); return err },
		} {
			before := connection()
			trial.Outcome(t, call(), store.Transient, "read")
			if connection() == before {
				t.Errorf("the pool of user %s keeps the connection after a refused %s", user, name)
			}
		}
	}
}

func TestAnyNumberMayMakeTheTableAtOnce(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	for range 3 {
		table := newTable()
		results := make(chan error, 8)
		for range cap(results) {
			s := over(t, poolOf(t, srv.DSN("lab")), mysqlstore.Options{Table: table, Create: true})
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
	texts, err := mysqlstore.Schema("app.records")
	if err != nil {
		t.Fatal(err)
	}
	srv.Exec("CREATE DATABASE app")
	srv.Exec(texts...)
	srv.Exec(texts...) // a migration may run twice
	s := over(t, poolOf(t, srv.DSN("lab")), mysqlstore.Options{Table: "app.records"})
	if _, err := trial.Check(t, s); err != nil {
		t.Error(err)
	}
	trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
}

// The rights are those in the package documentation.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	texts, err := mysqlstore.Schema("")
	if err != nil {
		t.Fatal(err)
	}
	srv.Exec("USE lab")
	db := poolOf(t, srv.DSN("lab"))
	for _, text := range append(texts,
		"CREATE USER candidate, observer, stranger",
		"GRANT SELECT, INSERT, UPDATE ON leader_records TO candidate", "GRANT SELECT ON leader_records_floor TO candidate",
		"GRANT SELECT ON leader_records TO observer", "GRANT SELECT ON leader_records_floor TO observer",
		"CREATE TABLE other (n INTEGER)", "GRANT SELECT ON other TO stranger") {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	candidate := over(t, poolOf(t, srv.DSN("candidate")), mysqlstore.Options{})
	if r, err := trial.Check(t, candidate); err != nil || len(r.Warnings) > 0 {
		t.Fatalf("a candidate: %+v, %v", r, err)
	}
	rev := trial.Must(t, candidate, store.Write{Key: "group", Value: []byte("v")})
	rev = trial.Must(t, candidate, store.Write{Key: "group", Expected: rev, Value: []byte("w")})
	observer := over(t, poolOf(t, srv.DSN("observer")), mysqlstore.Options{})
	if r, err := observer.Check(trial.Within(t), store.CheckRequest{}); err != nil || len(r.Warnings) > 0 {
		t.Errorf("an observer: %+v, %v", r, err)
	}
	if e := trial.Get(t, observer, "group"); e.Revision != rev {
		t.Errorf("an observer sees %+v", e)
	}
	_, err = trial.Check(t, observer)
	trial.Outcome(t, err, store.Permanent, "grant", "leader_records")
	_, err = observer.CompareAndSwap(trial.Within(t), store.Write{Key: "other"})
	trial.Outcome(t, err, store.Permanent, "grant")
	stranger := over(t, poolOf(t, srv.DSN("stranger")), mysqlstore.Options{})
	_, err = stranger.Get(trial.Within(t), "group")
	trial.Outcome(t, err, store.Permanent, "grant")
	_, err = trial.Check(t, stranger)
	trial.Outcome(t, err, store.Permanent, "missing")
	if _, err := poolOf(t, srv.DSN("candidate")).Exec("DELETE FROM leader_records"); err == nil {
		t.Error("a candidate may delete")
	}
}

// lacksRights is the error of a view whose invoker may not use what is in it.
const lacksRights = 1356

// Triggers run with the rights of the user who made them, and use whatever has
// the name of the second table. A user who may create and drop in the database
// thus gets no rights except those on the two tables, if they were made as
// documented.
func TestTheMakerOfTheTriggersNeedsRightsOnTheTwoTablesAlone(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t, "--log-bin-trust-function-creators=1")
	srv.Exec("CREATE USER maker, app",
		"GRANT CREATE, SELECT, INSERT, UPDATE, TRIGGER ON lab.records TO maker",
		"GRANT CREATE, SELECT, INSERT, UPDATE ON lab.records_floor TO maker",
		"GRANT ALL ON lab.* TO app", "CREATE DATABASE secret", "CREATE TABLE secret.seen (who TEXT)")
	s := over(t, poolOf(t, srv.DSN("maker")), mysqlstore.Options{Table: "records", Create: true})
	if r, err := trial.Check(t, s); err != nil || len(r.Warnings) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	app := poolOf(t, srv.DSN("app"))
	rev := trial.Must(t, over(t, app, mysqlstore.Options{Table: "records"}), store.Write{Key: "a", Value: []byte("v")})
	trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("w")})
	for _, text := range []string{
		"DELETE FROM records", "DROP TABLE records_floor",
		"CREATE FUNCTION f() RETURNS BIGINT UNSIGNED SQL SECURITY INVOKER BEGIN INSERT INTO secret.seen VALUES (CURRENT_USER()); RETURN 1; END",
		"CREATE SQL SECURITY INVOKER VIEW records_floor AS SELECT 1 AS id, f() AS revision",
	} {
		if _, err := app.ExecContext(trial.Within(t), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	_, err := app.ExecContext(trial.Within(t), "INSERT INTO records (name, value) VALUES ('b', '')")
	if answer, ok := errors.AsType[*mysql.MySQLError](err); !ok || answer.Number != lacksRights {
		t.Errorf("by a view in the place of the second table: %v", err)
	}
}

// A Galera cluster certifies a write when it commits, on each server by itself:
// what reads show there was not examined, so no election runs on it.
func TestAGaleraClusterIsRefused(t *testing.T) {
	t.Parallel()
	srv := lab.OwnGalera(t)
	_, err := open(t, srv.URL("lab", srv.Addr()), newTable()).Check(trial.Within(t), store.CheckRequest{})
	if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), "Galera") {
		t.Errorf("Check: %v", err)
	}
}
