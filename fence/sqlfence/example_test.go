package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/sqlfence"
)

// A leader writes to its database, which refuses the transaction of one whose
// successor was there before.
func Example() { //nolint:testableexamples // it needs a database
	guard, err := sqlfence.New(sqlfence.PostgreSQL, "fences")
	if err != nil {
		fmt.Println(err)
		return
	}
	// Once, in the program's migrations: db.Exec(guard.Schema())
	book := func(ctx context.Context, db *sql.DB, term leader.Term) error {
		err := guard.Do(ctx, db, "reports", term, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO bookings (day) VALUES (now()::date)")
			return err
		})
		if errors.Is(err, fence.ErrStale) {
			return fmt.Errorf("another leads by now, and nothing was booked: %w", err)
		}
		return err
	}
	_ = book // called in a term, with the term
}
