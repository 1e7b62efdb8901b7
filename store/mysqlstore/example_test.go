package mysqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql" // for sql.Open

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
)

// A program that has a pool elects over it. No server listens on the port of
// this example, so that its campaign ends with its context.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	pool, err := sql.Open("mysql", "app@tcp(127.0.0.1:1)/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close() //nolint:errcheck // nothing was written
	st, err := mysqlstore.New(pool, mysqlstore.Options{Create: true})
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

// ExampleOpen opens a store that makes a connection, for programs that have
// none.
func ExampleOpen() {
	_, err := mysqlstore.Open(context.Background(), "mysql://app@127.0.0.1:1/app?create=true")
	fmt.Println(store.Classify(err))
	// Output: transient
}

// Candidates whose users may create nothing have the table made by a migration.
func ExampleSchema() {
	statements, err := mysqlstore.Schema("app.leader_records")
	fmt.Println(len(statements), err)
	// Output: 7 <nil>
}
