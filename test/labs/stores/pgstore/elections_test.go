package pgstore_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
)

func TestElections(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t, "max_connections=400")
	table := newTable()
	made(t, srv.DSN("lab"), table)
	db := srv.DB()
	elections.Run(t, elections.Harness{
		Open:   func(tb testing.TB) store.Store { return open(tb, srv.DSN("lab"), table) },
		Delete: func(key string) error { return exec(db, "DELETE FROM "+table+" WHERE key = $1", key) },
	})
}
