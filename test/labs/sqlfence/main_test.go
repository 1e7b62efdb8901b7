// Package sqlfence_test shows that a stale leader's transactions are refused by
// real databases.
package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/sqlfence"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var lab databases.Lab

func TestMain(m *testing.M) {
	code := m.Run()
	if err := lab.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func term(n uint64, token string) leader.Term { return leader.Term{Number: n, Token: token} }

// An engine is a database with separate tables for one test: the fence, and
// entry (id, term), in which ids grow in the order of the transactions that
// hold the fence.
type engine struct {
	t       *testing.T
	db      *sql.DB
	dialect sqlfence.Dialect
	fence   *sqlfence.Fence
	entry   string
}

var tables atomic.Int64

// each runs a test on every engine.
func each(t *testing.T, test func(t *testing.T, e *engine)) {
	t.Helper()
	for dialect, open := range map[sqlfence.Dialect]func(testing.TB) *sql.DB{
		sqlfence.PostgreSQL: lab.PostgreSQL, sqlfence.MySQL: lab.MySQL, sqlfence.SQLite: databases.SQLite,
	} {
		t.Run(dialect.String(), func(t *testing.T) { test(t, newEngine(t, dialect, open(t))) })
	}
}

func newEngine(t *testing.T, d sqlfence.Dialect, db *sql.DB) *engine {
	t.Helper()
	// A unique name, and a reserved word: names are quoted.
	suffix := fmt.Sprintf("%d_%d", os.Getpid(), tables.Add(1))
	f, err := sqlfence.New(d, "Order_"+suffix)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t, db, d, f, "entry_" + suffix}
	id := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		sqlfence.MySQL:      "BIGINT AUTO_INCREMENT PRIMARY KEY",
		sqlfence.SQLite:     "INTEGER PRIMARY KEY AUTOINCREMENT",
	}[d]
	e.exec(f.Schema())
	e.exec(f.Schema()) // again, as migrations do
	e.exec("CREATE TABLE " + e.entry + " (id " + id + ", term BIGINT NOT NULL)")
	t.Cleanup(func() {
		for _, table := range []string{e.entry, e.table()} {
			if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP TABLE "+table); err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

// table returns the quoted name of the fence's table.
func (e *engine) table() string { return strings.Fields(e.fence.Statements().Last)[4] }

func (e *engine) exec(statement string) {
	e.t.Helper()
	if _, err := e.db.ExecContext(natslab.Within(e.t), statement); err != nil {
		e.t.Fatalf("%s: %v", statement, err)
	}
}

func (e *engine) begin() *sql.Tx {
	e.t.Helper()
	tx, err := e.db.BeginTx(e.t.Context(), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// write leaves an entry in a transaction of the term.
func (e *engine) write(ctx context.Context, group string, t leader.Term) error {
	return e.fence.Do(ctx, e.db, group, t, func(tx *sql.Tx) error { return e.enter(ctx, tx, t) })
}

func (e *engine) enter(ctx context.Context, tx *sql.Tx, t leader.Term) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (term) VALUES (%d)", e.entry, t.Number))
	return err
}

// log returns the terms of the entries in their order.
func (e *engine) log(t *testing.T) (terms []uint64) {
	t.Helper()
	rows, err := e.db.QueryContext(natslab.Within(t), "SELECT term FROM "+e.entry+" ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // nothing was written
	for rows.Next() {
		var n uint64
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		terms = append(terms, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return terms
}

func (e *engine) mustWrite(group string, t leader.Term) {
	e.t.Helper()
	if err := e.write(natslab.Within(e.t), group, t); err != nil {
		e.t.Fatalf("term %v: %v", t, err)
	}
}

func (e *engine) mustRefuse(group string, t leader.Term) {
	e.t.Helper()
	if err := e.write(natslab.Within(e.t), group, t); !errors.Is(err, fence.ErrStale) {
		e.t.Errorf("term %v: %v", t, err)
	}
}
