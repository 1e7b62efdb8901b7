package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite", without cgo

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence/sqlfence"
)

// A ledger is the protected resource: a database that remembers which slots
// were run, and the account that the job pays into. Each run adds 1 to the
// balance.
type ledger struct {
	db    *sql.DB
	fence *sqlfence.Fence
}

const schema = `
CREATE TABLE IF NOT EXISTS run (slot INTEGER PRIMARY KEY, term INTEGER NOT NULL, instance TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
INSERT INTO account (id, balance) VALUES (1, 0) ON CONFLICT DO NOTHING;`

func open(ctx context.Context, path string) (*ledger, error) {
	// Transactions begin with the write lock, and wait for it: other copies'
	// transactions end soon.
	source := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return nil, err
	}
	f, err := sqlfence.New(sqlfence.SQLite, "leader_fence")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, f.Schema()+";"+schema); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	return &ledger{db: db, fence: f}, nil
}

func (l *ledger) close() { _ = l.db.Close() } // nothing is open any more

// begin shows the term to the database, and returns the last slot that was run,
// or the zero time.
func (l *ledger) begin(ctx context.Context, term leader.Term) (last time.Time, err error) {
	err = l.fence.Do(ctx, l.db, group, term, func(tx *sql.Tx) error {
		var slot sql.NullInt64
		err := tx.QueryRowContext(ctx, `SELECT max(slot) FROM run`).Scan(&slot)
		if slot.Valid {
			last = time.Unix(slot.Int64, 0)
		}
		return err
	})
	return last, err
}

// run runs the job for a slot, unless it was run. An error that matches
// fence.ErrStale means that a later term was here; nothing was done then.
func (l *ledger) run(ctx context.Context, term leader.Term, slot time.Time, instance string) (ran bool, err error) {
	err = l.fence.Do(ctx, l.db, group, term, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO run (slot, term, instance) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			slot.Unix(), int64(term.Number), instance)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err // our own transaction of before, whose answer was lost
		}
		ran = true
		_, err = tx.ExecContext(ctx, `UPDATE account SET balance = balance + 1`)
		return err
	})
	return ran && err == nil, err
}
