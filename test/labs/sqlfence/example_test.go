package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // any driver will do

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/sqlfence"
)

// Two leaders of a group write to a database, and the first one comes back
// late.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)

	guard, err := sqlfence.New(sqlfence.SQLite, "leader_fence")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, migration := range []string{guard.Schema(), "CREATE TABLE report (sent_by INTEGER)"} {
		if _, err := db.ExecContext(ctx, migration); err != nil {
			fmt.Println(err)
			return
		}
	}
	// In OnPromote, or in the function given to leader.Run.
	send := func(term leader.Term) {
		err := guard.Do(ctx, db, "reports", term, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO report VALUES (?)", int64(term.Number))
			return err
		})
		switch {
		case errors.Is(err, fence.ErrStale):
			fmt.Println("stop:", err)
		case err != nil:
			fmt.Println(err) // the database's; repeat it as usual
		default:
			fmt.Println("sent in term", term.Number)
		}
	}
	send(leader.Term{Number: 41, Token: "a"})
	send(leader.Term{Number: 57, Token: "b"})
	send(leader.Term{Number: 41, Token: "a"})
	// Output:
	// sent in term 41
	// sent in term 57
	// stop: fence: stale term 41/ca978112: 57/3e23e816 was accepted
}
