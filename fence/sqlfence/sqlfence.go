package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/store"
)

// ErrNotAdmitted is AdmitShared's error for a term that Admit has not let in
// before. It is not ErrStale: Admit may let it in.
var ErrNotAdmitted = errors.New("sqlfence: the term was not admitted before")

// A Fence is a table of marks in a database. It is immutable, and may be used
// concurrently.
type Fence struct {
	dialect Dialect
	sql     Statements
}

// New returns a fence on a table: a name, or schema.name, of letters, digits
// and underscores. The name is quoted in all statements, so that PostgreSQL
// keeps its case. Anything else is an error that matches fence.ErrInvalid. The
// database is not looked at; [Fence.Schema] makes the table.
func New(d Dialect, table string) (*Fence, error) {
	s, err := statements(d, table)
	if err != nil {
		return nil, err
	}
	return &Fence{dialect: d, sql: s}, nil
}

// Schema returns the statement that makes the table if there is none. It
// belongs to the program's migrations. Any number of programs may run it at the
// same instant.
func (f *Fence) Schema() string { return f.sql.Schema }

// Statements returns all statements, for programs that do not use database/sql.
func (f *Fence) Statements() Statements { return f.sql }

// Admit applies the rule within tx, and locks the group's row until tx ends.
// Call it before anything else in tx, and roll back on every error:
//
//   - fence.ErrStale, as a *fence.StaleError: a newer term was admitted. It
//     stays so.
//   - fence.ErrInvalid: no term, or no group's name; or the group's mark in the
//     table has a number that no election reaches.
//   - all others are the driver's: deadlocks, serialization failures and busy
//     databases among them, for which the transaction is repeated as usual.
//
// It waits for transactions of the group that are under way, for as long as ctx
// and the database's own timeouts allow.
func (f *Fence) Admit(ctx context.Context, tx *sql.Tx, group string, t leader.Term) error {
	want, err := check(group, t)
	if err != nil {
		return err
	}
	args := []any{group, int64(want.Term), want.Digest}
	if f.dialect == MySQL {
		args = append(args, int64(want.Term), want.Digest, int64(want.Term))
	}
	result, err := tx.ExecContext(ctx, f.sql.Admit, args...)
	if err != nil {
		return err
	}
	if f.dialect != MySQL {
		// MySQL counts an unchanged row as 0 or 1, depending on the driver's
		// flags.
		if n, err := result.RowsAffected(); err != nil || n == 1 {
			return err
		}
	}
	switch last, err := f.read(ctx, tx, f.sql.Mark, group); {
	case err != nil:
		return err
	case last != want || f.dialect != MySQL:
		return &fence.StaleError{Refused: want, Last: last}
	}
	return nil
}

// AdmitShared admits a term that Admit let in before, with a shared lock:
// transactions of the term run side by side, and a newer term waits for all of
// them. So a leader calls Admit in a separate transaction when its term begins,
// and AdmitShared in all others, before anything else in each of them. Mixing
// both in one transaction invites deadlocks.
//
// Errors are Admit's and ErrNotAdmitted. On PostgreSQL transactions of an old
// term that overlap without a gap can keep a newer one waiting, so give them a
// lock_timeout or a deadline. SQLite has one writer at a time in any case.
func (f *Fence) AdmitShared(ctx context.Context, tx *sql.Tx, group string, t leader.Term) error {
	want, err := check(group, t)
	if err != nil {
		return err
	}
	if f.sql.Claim != "" {
		if _, err := tx.ExecContext(ctx, f.sql.Claim, group); err != nil {
			return err
		}
	}
	last, err := f.read(ctx, tx, f.sql.Share, group)
	if err != nil || last == want {
		return err
	}
	if want.Term > last.Term {
		return fmt.Errorf("%w: term %v of group %q, after %v", ErrNotAdmitted, want, group, last)
	}
	return &fence.StaleError{Refused: want, Last: last}
}

// Do runs act in a transaction that begins with Admit, and commits it if act
// returns nil. It does not repeat anything. An error of the commit leaves open
// whether it happened, as with every database.
func (f *Fence) Do(ctx context.Context, db *sql.DB, group string, t leader.Term, act func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // without effect after a commit; else the first error counts
	if err := f.Admit(ctx, tx, group, t); err != nil {
		return err
	}
	if err := act(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Last returns the mark of the latest admitted term that is committed, the zero
// Mark if there is none. It is for people and tests: what it returns may be
// outdated at once.
func (f *Fence) Last(ctx context.Context, db *sql.DB, group string) (fence.Mark, error) {
	return f.read(ctx, db, f.sql.Last, group)
}

func (f *Fence) read(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, query, group string,
) (fence.Mark, error) {
	var term int64
	var m fence.Mark
	switch err := q.QueryRowContext(ctx, query, group).Scan(&term, &m.Digest); {
	case errors.Is(err, sql.ErrNoRows):
		return fence.Mark{}, nil
	case err != nil:
		return fence.Mark{}, err
	case term < 0 || term > fence.MaxTerm:
		return fence.Mark{}, fmt.Errorf("%w: the mark of group %q: term %d: the number must be at most %d: replace the row by the row of the latest term",
			fence.ErrInvalid, group, term, uint64(fence.MaxTerm))
	}
	m.Term = uint64(term)
	return m, nil
}

func check(group string, t leader.Term) (fence.Mark, error) {
	if !store.ValidKey(group) {
		return fence.Mark{}, fmt.Errorf("%w: %q is not the name of a group", fence.ErrInvalid, group)
	}
	if err := fence.Check(t); err != nil {
		return fence.Mark{}, err
	}
	return fence.MarkOf(t), nil
}
