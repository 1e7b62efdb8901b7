package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/sqlfence"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/labs/stalewriter"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestStalledLeaderCommitsNothing(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		stalewriter.Try(t, natslab.Start(t), stalewriter.Resource{
			Open: func(ctx context.Context, term leader.Term) (func(context.Context) error, error) {
				// The first transaction of a term, before anything is read.
				err := e.fence.Do(ctx, e.db, "ledger", term, func(*sql.Tx) error { return nil })
				return func(ctx context.Context) error { return e.write(ctx, "ledger", term) }, err
			},
			Log: e.log,
		})
	})
}

// The same with transactions that share the row.
func TestStalledLeaderThatSharesItsRowCommitsNothing(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		stalewriter.Try(t, natslab.Start(t), stalewriter.Resource{
			Open: func(ctx context.Context, term leader.Term) (func(context.Context) error, error) {
				err := e.fence.Do(ctx, e.db, "ledger", term, func(*sql.Tx) error { return nil })
				return func(ctx context.Context) error {
					tx, err := e.db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					defer tx.Rollback() //nolint:errcheck // without effect after a commit
					if err := e.fence.AdmitShared(ctx, tx, "ledger", term); err != nil {
						return err
					}
					if err := e.enter(ctx, tx, term); err != nil {
						return err
					}
					return tx.Commit()
				}, err
			},
			Log: e.log,
		})
	})
}

func TestRuleHoldsInTheTable(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		e.mustWrite("g", term(7, "a"))
		e.mustWrite("g", term(7, "a"))
		e.mustRefuse("g", term(6, "b"))
		e.mustRefuse("g", term(7, "b"))
		e.mustWrite("g", term(fence.MaxTerm, "c"))
		e.mustRefuse("g", term(7, "a"))
		if m, err := e.fence.Last(natslab.Within(t), e.db, "g"); err != nil || m != fence.MarkOf(term(fence.MaxTerm, "c")) {
			t.Errorf("%v, %v", m, err)
		}
		// Other groups, of which one differs by case only.
		for _, group := range []string{"G", "g.h", "h"} {
			if m, err := e.fence.Last(natslab.Within(t), e.db, group); err != nil || !m.IsZero() {
				t.Errorf("%s: %v, %v", group, m, err)
			}
			e.mustWrite(group, term(1, "x"))
		}
	})
}

func TestRefusalNamesBothTerms(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		e.mustWrite("g", term(7, "a"))
		var stale *fence.StaleError
		err := e.write(natslab.Within(t), "g", term(6, "b"))
		if !errors.As(err, &stale) || stale.Refused != fence.MarkOf(term(6, "b")) || stale.Last != fence.MarkOf(term(7, "a")) {
			t.Errorf("%v", err)
		}
	})
}

func TestInvalidTermsAndGroupsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		for _, c := range []struct {
			group string
			term  leader.Term
		}{
			{"g", leader.Term{}},
			{"g", term(1, "")},
			{"g", term(fence.MaxTerm+1, "a")},
			{"", term(1, "a")},
			{"a b", term(1, "a")},
			{"'; DROP TABLE x; --", term(1, "a")},
		} {
			tx := e.begin()
			for _, err := range []error{
				e.fence.Admit(natslab.Within(t), tx, c.group, c.term), e.fence.AdmitShared(natslab.Within(t), tx, c.group, c.term),
			} {
				if !errors.Is(err, fence.ErrInvalid) {
					t.Errorf("%q, %v: %v", c.group, c.term, err)
				}
			}
			_ = tx.Rollback()
		}
	})
}

// A version of before wrote it, or another program.
func TestAnImplausibleMarkInTheTableIsReported(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		e.exec(fmt.Sprintf("INSERT INTO %s (group_name, term, digest) VALUES ('g', %d, '%s')", e.table(), int64(math.MaxInt64), fence.Digest("x")))
		admitted := e.write(natslab.Within(t), "g", term(7, "a"))
		tx := e.begin()
		shared := e.fence.AdmitShared(natslab.Within(t), tx, "g", term(7, "a"))
		_ = tx.Rollback()
		_, last := e.fence.Last(natslab.Within(t), e.db, "g")
		for _, err := range []error{admitted, shared, last} {
			if !errors.Is(err, fence.ErrInvalid) || !strings.Contains(err.Error(), `group "g"`) || !strings.Contains(err.Error(), "9223372036854775807") {
				t.Errorf("%v", err)
			}
		}
	})
}

// The stalled leader's transaction was admitted in time, and is neither
// committed nor rolled back.
func TestNewerTermWaitsForAnAdmittedTransaction(t *testing.T) {
	for name, commit := range map[string]bool{"committed": true, "rolled back": false} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e *engine) {
				old := e.begin()
				if err := e.fence.Admit(natslab.Within(t), old, "g", term(1, "a")); err != nil {
					t.Fatal(err)
				}
				var ended atomic.Bool
				admitted := make(chan error, 1)
				go func() {
					err := e.fence.Do(natslab.Within(t), e.db, "g", term(2, "b"), func(tx *sql.Tx) error {
						if !ended.Load() {
							return errors.New("let in beside the older one")
						}
						return e.enter(natslab.Within(t), tx, term(2, "b"))
					})
					admitted <- err
				}()
				e.awaitBlocked()
				if err := e.enter(natslab.Within(t), old, term(1, "a")); err != nil {
					t.Fatal(err)
				}
				ended.Store(true)
				want := 2
				if commit {
					if err := old.Commit(); err != nil {
						t.Fatal(err)
					}
				} else {
					want = 1
					_ = old.Rollback()
				}
				if err := <-admitted; err != nil {
					t.Fatal(err)
				}
				e.mustRefuse("g", term(1, "a"))
				if n := len(e.log(t)); n != want {
					t.Errorf("%d entries, want %d", n, want)
				}
			})
		})
	}
}

// awaitBlocked waits until some transaction waits for another, if the database
// can report it.
func (e *engine) awaitBlocked() {
	e.t.Helper()
	query := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "SELECT 'waits', count(*) FROM pg_locks WHERE NOT granted",
		// information_schema.innodb_trx is a copy, which is not renewed while
		// somebody looks at it again and again.
		sqlfence.MySQL: "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
	}[e.dialect]
	if query == "" {
		return
	}
	natslab.Eventually(e.t, "a transaction waits", func(ctx context.Context) error {
		var name string
		var n int
		if err := e.db.QueryRowContext(ctx, query).Scan(&name, &n); err != nil || n == 0 {
			return errors.Join(errors.New("none"), err)
		}
		return nil
	})
}

// A takeover that is not committed has not happened, and yet nobody passes it
// by.
func TestOlderTermWaitsForATakeoverThatIsNotCommitted(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		e.mustWrite("g", term(1, "a"))
		for _, commit := range []bool{false, true} {
			takeover := e.begin()
			if err := e.fence.Admit(natslab.Within(t), takeover, "g", term(2, "b")); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- e.write(natslab.Within(t), "g", term(1, "a")) }()
			e.awaitBlocked()
			if !commit {
				_ = takeover.Rollback()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := takeover.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, fence.ErrStale) {
				t.Fatalf("passed a takeover by: %v", err)
			}
		}
	})
}

// A read after Admit returns the predecessor's last commit. On MySQL a snapshot
// taken before the lock was granted would show an older state, and its
// increments would be lost.
func TestReadAfterAdmitSeesTheLatestCommit(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		counter := e.entry + "_n"
		e.exec("CREATE TABLE " + counter + " (n BIGINT NOT NULL)")
		e.exec("INSERT INTO " + counter + " VALUES (0)")
		t.Cleanup(func() { e.exec2("DROP TABLE " + counter) })
		const goroutines, times = 6, 25
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for range times {
					err := e.fence.Do(natslab.Within(t), e.db, "g", term(1, "a"), func(tx *sql.Tx) error {
						var n int
						if err := tx.QueryRowContext(natslab.Within(t), "SELECT n FROM "+counter).Scan(&n); err != nil {
							return err
						}
						_, err := tx.ExecContext(natslab.Within(t), fmt.Sprintf("UPDATE %s SET n = %d", counter, n+1))
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		var n int
		if err := e.db.QueryRowContext(natslab.Within(t), "SELECT n FROM "+counter).Scan(&n); err != nil || n != goroutines*times {
			t.Errorf("%d of %d increments are left: %v", n, goroutines*times, err)
		}
	})
}

// exec2 is exec after the test's context ended.
func (e *engine) exec2(statement string) {
	if _, err := e.db.ExecContext(context.WithoutCancel(e.t.Context()), statement); err != nil {
		e.t.Error(err)
	}
}

// Several claim the same number, which never happens in one election, and none
// is known yet: one token wins.
func TestExactlyOneOfManyFirstTransactionsWins(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		const goroutines = 8
		for round := range 10 {
			group := fmt.Sprint("g", round)
			var won atomic.Int32
			var all sync.WaitGroup
			for i := range goroutines {
				all.Go(func() {
					err := e.write(natslab.Within(t), group, term(1, fmt.Sprint("token", i)))
					if err == nil {
						won.Add(1)
					} else if !errors.Is(err, fence.ErrStale) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if won.Load() != 1 {
				t.Errorf("%d won", won.Load())
			}
		}
	})
}

// Terms come in a wild order from many connections: in the order of the table
// they never go back.
func TestTermsNeverGoBackInTheOrderOfCommits(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		var all sync.WaitGroup
		var accepted, refused atomic.Int32
		for i := range uint64(6) {
			all.Go(func() {
				for n := range uint64(40) {
					// Some are ahead of the others.
					tm := term(1+(n+i*3)/4, "a")
					switch err := e.write(natslab.Within(t), "g", tm); {
					case err == nil:
						accepted.Add(1)
					case errors.Is(err, fence.ErrStale):
						refused.Add(1)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		log := e.log(t)
		for i := 1; i < len(log); i++ {
			if log[i] < log[i-1] {
				t.Errorf("entry %d of term %d after term %d", i, log[i], log[i-1])
			}
		}
		if len(log) != int(accepted.Load()) || refused.Load() == 0 {
			t.Errorf("%d entries, %d accepted, %d refused", len(log), accepted.Load(), refused.Load())
		}
	})
}

func TestSharedTransactionsRunSideBySideAndKeepNewerTermsWaiting(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		tx := e.begin()
		if err := e.fence.AdmitShared(natslab.Within(t), tx, "g", term(1, "a")); !errors.Is(err, sqlfence.ErrNotAdmitted) {
			t.Errorf("before any Admit: %v", err)
		}
		_ = tx.Rollback()
		e.mustWrite("g", term(1, "a"))
		first := e.begin()
		if err := e.fence.AdmitShared(natslab.Within(t), first, "g", term(1, "a")); err != nil {
			t.Fatal(err)
		}
		if e.dialect != sqlfence.SQLite { // which has one writer at a time
			second := e.begin()
			if err := e.fence.AdmitShared(natslab.Within(t), second, "g", term(1, "a")); err != nil {
				t.Fatal(err)
			}
			_ = second.Rollback()
		}
		var ended atomic.Bool
		admitted := make(chan error, 1)
		go func() {
			admitted <- e.fence.Do(natslab.Within(t), e.db, "g", term(2, "b"), func(*sql.Tx) error {
				if !ended.Load() {
					return errors.New("let in beside the older one")
				}
				return nil
			})
		}()
		e.awaitBlocked()
		ended.Store(true)
		if err := first.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-admitted; err != nil {
			t.Fatal(err)
		}
		for n, want := range map[uint64]error{1: fence.ErrStale, 3: sqlfence.ErrNotAdmitted, 2: nil} {
			tx := e.begin()
			token := map[uint64]string{1: "a", 2: "b", 3: "c"}[n]
			if err := e.fence.AdmitShared(natslab.Within(t), tx, "g", term(n, token)); !errors.Is(err, want) {
				t.Errorf("term %d: %v", n, err)
			}
			_ = tx.Rollback()
		}
	})
}

func TestTransactionThatFailsLeavesNoMark(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		failure := errors.New("of the act")
		err := e.fence.Do(natslab.Within(t), e.db, "g", term(7, "a"), func(tx *sql.Tx) error {
			return errors.Join(failure, e.enter(natslab.Within(t), tx, term(7, "a")))
		})
		if !errors.Is(err, failure) {
			t.Fatal(err)
		}
		if m, err := e.fence.Last(natslab.Within(t), e.db, "g"); err != nil || !m.IsZero() || len(e.log(t)) != 0 {
			t.Errorf("%v, %v, %v", m, err, e.log(t))
		}
	})
}

// A person's mark has no digest, or none that any token has.
func TestForeignMarkAdmitsLargerTermsOnly(t *testing.T) {
	each(t, func(_ *testing.T, e *engine) {
		for _, digest := range []string{"", "x"} {
			e.mustWrite("g", term(7, "a"))
			e.exec("UPDATE " + e.table() + " SET digest = '" + digest + "', term = 7")
			e.mustRefuse("g", term(6, "a"))
			e.mustRefuse("g", term(7, "a"))
			e.mustWrite("g", term(8, "a"))
			e.exec("DELETE FROM " + e.table())
		}
	})
}

// From REPEATABLE READ on, PostgreSQL makes a transaction that began before a
// takeover repeat itself.
func TestStricterIsolationLetsNoStaleTransactionIn(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			for _, d := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL} {
				open := map[sqlfence.Dialect]func(testing.TB) *sql.DB{sqlfence.PostgreSQL: lab.PostgreSQL, sqlfence.MySQL: lab.MySQL}[d]
				t.Run(d.String(), func(t *testing.T) {
					e := newEngine(t, d, open(t))
					e.mustWrite("g", term(1, "a"))
					old, err := e.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
					if err != nil {
						t.Fatal(err)
					}
					defer old.Rollback() //nolint:errcheck // it is refused
					// Something is read first, so that the snapshot is older
					// than the takeover.
					var n int
					if err := old.QueryRowContext(natslab.Within(t), "SELECT count(*) FROM "+e.entry).Scan(&n); err != nil {
						t.Fatal(err)
					}
					if level == sql.LevelSerializable && d == sqlfence.MySQL {
						_ = old.Rollback() // there reads lock, and would deadlock with this very goroutine
						return
					}
					e.mustWrite("g", term(2, "b"))
					if err := e.fence.Admit(natslab.Within(t), old, "g", term(1, "a")); err == nil {
						t.Error("admitted")
					} else {
						t.Log(err)
					}
				})
			}
		})
	}
}

// MariaDB 11 has it on by default: a locking read that finds a newer version
// than the snapshot fails.
func TestSnapshotIsolationOfMariaDBWorks(t *testing.T) {
	db := lab.MySQL(t)
	db.SetMaxOpenConns(1)
	e := newEngine(t, sqlfence.MySQL, db)
	if _, err := db.ExecContext(natslab.Within(t), "SET SESSION innodb_snapshot_isolation = ON"); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: this server does not know it: %v", err)
	}
	other := lab.MySQL(t)
	for n := range uint64(5) {
		if err := e.fence.Do(natslab.Within(t), other, "g", term(2*n+1, "a"), func(*sql.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		e.mustWrite("g", term(2*n+2, "b"))
	}
}

func TestBusySQLiteIsAnErrorAndNoAdmission(t *testing.T) {
	db := databases.SQLite(t)
	e := newEngine(t, sqlfence.SQLite, db)
	e.mustWrite("g", term(1, "a"))
	old := e.begin()
	var n int
	if err := old.QueryRowContext(natslab.Within(t), "SELECT count(*) FROM "+e.entry).Scan(&n); err != nil {
		t.Fatal(err)
	}
	e.mustWrite("g", term(2, "b"))
	// Its snapshot is older than the takeover: SQLITE_BUSY_SNAPSHOT.
	if err := e.fence.Admit(natslab.Within(t), old, "g", term(1, "a")); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("%v", err)
	}
}

// The statements in the package documentation, for programs in other languages.
func TestDocumentedStatementsOfPostgreSQLAreTheRule(t *testing.T) {
	e := newEngine(t, sqlfence.PostgreSQL, lab.PostgreSQL(t))
	// A user who may create in a schema of the search_path must not see a
	// token.
	e.exec("CREATE FUNCTION public.convert_to(text, text) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'seen: %', $1; END $$")
	t.Cleanup(func() {
		if _, err := e.db.ExecContext(context.WithoutCancel(t.Context()), "DROP FUNCTION public.convert_to(text, text)"); err != nil {
			t.Error(err)
		}
	})
	admit := func(n int64, token string) int64 {
		result, err := e.db.ExecContext(natslab.Within(t), `INSERT INTO `+e.table()+` AS f (group_name, term, digest)
VALUES ($1, $2, pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to($3, 'UTF8')), 'hex'))
ON CONFLICT (group_name) DO UPDATE SET term = EXCLUDED.term, digest = EXCLUDED.digest
WHERE f.term < EXCLUDED.term OR f.term = EXCLUDED.term AND f.digest = EXCLUDED.digest`, "g", n, token)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := result.RowsAffected()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	e.mustWrite("g", term(7, "a"))
	for _, c := range []struct {
		n     int64
		token string
		rows  int64
	}{{7, "a", 1}, {7, "b", 0}, {6, "a", 0}, {8, "c", 1}} {
		if rows := admit(c.n, c.token); rows != c.rows {
			t.Errorf("term %d/%s: %d rows", c.n, c.token, rows)
		}
	}
	e.mustWrite("g", term(8, "c"))
}

// The rights are those in the package documentation.
func TestALeaderNeedsNoOtherRightsThanThoseDocumented(t *testing.T) {
	db := lab.PostgreSQL(t)
	db.SetMaxOpenConns(1) // the role is the session's
	e := newEngine(t, sqlfence.PostgreSQL, db)
	role := fmt.Sprintf("writer_%d_%d", os.Getpid(), tables.Add(1))
	e.exec("CREATE ROLE " + role)
	e.exec("GRANT SELECT, INSERT, UPDATE ON " + e.table() + " TO " + role)
	e.exec("GRANT INSERT ON " + e.entry + " TO " + role)
	e.exec("SET ROLE " + role)
	e.mustWrite("g", term(1, "a"))
	e.mustWrite("g", term(2, "b"))
	e.mustRefuse("g", term(1, "a"))
	tx := e.begin()
	if err := e.fence.AdmitShared(natslab.Within(t), tx, "g", term(2, "b")); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"RESET ROLE", "DROP OWNED BY " + role, "DROP ROLE " + role} {
		e.exec(text)
	}
}

// Copies of a program that start together all make the table.
func TestManyMayMakeTheTableAtOnce(t *testing.T) {
	for dialect, open := range map[sqlfence.Dialect]func(testing.TB) *sql.DB{
		sqlfence.PostgreSQL: lab.PostgreSQL, sqlfence.MySQL: lab.MySQL,
	} {
		t.Run(dialect.String(), func(t *testing.T) {
			db := open(t)
			for range 8 {
				f, err := sqlfence.New(dialect, fmt.Sprintf("crowd_%d_%d", os.Getpid(), tables.Add(1)))
				if err != nil {
					t.Fatal(err)
				}
				makeAtOnce(t, db, f)
				if _, err := db.ExecContext(natslab.Within(t), "DROP TABLE "+strings.Fields(f.Statements().Last)[4]); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// makeAtOnce makes the table of a fence on eight connections at once.
func makeAtOnce(t *testing.T, db *sql.DB, f *sqlfence.Fence) {
	t.Helper()
	ctx, begin := natslab.Within(t), make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer conn.Close() //nolint:errcheck // nothing was written that counts
			<-begin
			if _, err := conn.ExecContext(ctx, f.Schema()); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	all.Wait()
}
