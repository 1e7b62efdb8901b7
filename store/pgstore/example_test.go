package pgstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
)

// A program that has a pool elects over it. No server listens on the port of
// this example, so that its campaign ends with its context.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	pool, err := pgxpool.New(ctx, "postgres://app@127.0.0.1:1/app?target_session_attrs=read-write")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	st, err := pgstore.New(pool, pgstore.Options{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close() //nolint:errcheck // it returns nil
	cfg := leader.ElectionConfig{Group: "reports", InstanceID: "host-1", TTL: 10 * time.Second, HeartbeatInterval: 3 * time.Second}
	err = leader.RunWithStore(ctx, st, cfg, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leading in term", term.Number)
		<-ctx.Done() // work here, until ctx ends
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}

// A program that has a pool of database/sql uses that. Changes are found by
// looking.
func ExampleNewSQL() {
	db, err := sql.Open("pgx", "postgres://app@127.0.0.1:1/app") // nobody listens there
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close() //nolint:errcheck // it was not used
	st, err := pgstore.NewSQL(db, pgstore.Options{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close() //nolint:errcheck // it returns nil
	_, err = st.Check(context.Background(), store.CheckRequest{TTL: 10 * time.Second})
	fmt.Println(store.Classify(err))
	// Output: transient
}

// ExampleOpen opens a store that makes a connection, for programs that have
// none.
func ExampleOpen() {
	_, err := pgstore.Open(context.Background(), "postgres://app@127.0.0.1:1/app?create=true")
	fmt.Println(store.Classify(err))
	// Output: transient
}

// Candidates whose users may create nothing have the table made by a migration.
func ExampleSchema() {
	statement, err := pgstore.Schema("app.leader_records")
	first, _, _ := strings.Cut(statement, "\n")
	fmt.Println(first, err)
	// Output: DO $schema$ <nil>
}
