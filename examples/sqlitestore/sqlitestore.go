// Package sqlitestore is a whole store in 97 lines of code: elections among
// the processes of one machine, over a SQLite file. docs/contributing/adding-a-store.md
// explains it step by step.
package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// schema makes the table. A deleted row leaves its revision in the counter, so
// that revisions go on growing.
const schema = `
CREATE TABLE IF NOT EXISTS leader (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, tombstone INTEGER NOT NULL, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS leader_revision (last INTEGER NOT NULL);
INSERT INTO leader_revision SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM leader_revision);`

// A Store keeps records in a file. Make one with Open.
type Store struct {
	*base.Store // all but Check
	db          *sql.DB
}

// Open opens the file, and makes it if it is missing.
func Open(ctx context.Context, file string) (*Store, error) {
	// A write waits for other writes. synchronous(full) keeps what was
	// acknowledged if the machine fails.
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", store.ErrPermanent, err), db.Close())
	}
	s, err := base.New(system{db}, base.Options{Name: "SQLite, " + file, Release: db.Close})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Store{s, db}, nil
}

// A system is the file's database, as a base.Store uses it.
type system struct{ db *sql.DB }

// Swap implements base.System. Everything before the commit undoes
// itself; whether a commit that failed was applied is not known.
func (s system) Swap(ctx context.Context, w store.Write) (uint64, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to undo
	revision, err := swap(ctx, tx, w)
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return revision, nil
}

func swap(ctx context.Context, tx *sql.Tx, w store.Write) (revision uint64, err error) {
	var now uint64
	err = tx.QueryRowContext(ctx, "SELECT revision FROM leader WHERE key = ?", w.Key).Scan(&now)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	if now != w.Expected {
		return 0, fmt.Errorf("%w: key %q is at revision %d", store.ErrConflict, w.Key, now)
	}
	if err := tx.QueryRowContext(ctx, "UPDATE leader_revision SET last = last + 1 RETURNING last").Scan(&revision); err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	_, err = tx.ExecContext(ctx, "REPLACE INTO leader VALUES (?, ?, ?, ?)", w.Key, revision, w.Tombstone, append([]byte{}, w.Value...))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	return revision, nil
}

// Read implements base.System.
func (s system) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	args := make([]any, len(keys))
	for i, key := range keys {
		args[i] = key
	}
	return s.query(ctx, "WHERE key IN ("+strings.TrimSuffix(strings.Repeat("?,", len(keys)), ",")+")", args...)
}

// List implements base.System. The Feed picks those that match.
func (s system) List(ctx context.Context, _ string) ([]store.Entry, error) { return s.query(ctx, "") }

func (s system) query(ctx context.Context, where string, args ...any) (entries []store.Entry, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT key, revision, tombstone, value FROM leader "+where, args...) //nolint:gosec // of our own parts
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	defer rows.Close() //nolint:errcheck // see Err
	for rows.Next() {
		var e store.Entry
		if err := rows.Scan(&e.Key, &e.Revision, &e.Tombstone, &e.Value); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrTransient, err)
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	return entries, nil
}

// Check implements store.Checker. It sets how often the Feed looks.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	s.Pace(req.HeartbeatInterval, req.Key)
	_, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return store.Report{}, err // it is closed
	}
	cancel()
	return store.Report{}, nil
}
