package mysqlstore_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
)

func TestElections(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	made(t, url(srv), table)
	db := srv.DB()
	elections.Run(t, elections.Harness{
		Open:   func(tb testing.TB) store.Store { return open(tb, url(srv), table) },
		Delete: func(key string) error { return exec(db, "DELETE FROM "+table+" WHERE name = ?", key) },
	})
}
