package pgstore_test

import (
	"database/sql"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// harness gives each claim a table of its own.
func harness(tb testing.TB, srv *databases.Server, open func(tb testing.TB, table string) store.Store) storetest.Harness {
	tb.Helper()
	table := newTable()
	made(tb, srv.DSN("lab"), table)
	db := srv.DB()
	return storetest.Harness{
		Open:   func(tb testing.TB) store.Store { return open(tb, table) },
		Delete: func(key string) error { return exec(db, "DELETE FROM "+table+" WHERE key = $1", key) },
		Put: func(key string, value []byte) error {
			return exec(db, "INSERT INTO "+table+" (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, tombstone = false", key, value)
		},
		Purge: func(key string) error { return exec(db, "DELETE FROM "+table+" WHERE key = $1", key) },
		Visible: func(key string) (is bool, err error) {
			err = db.QueryRow("SELECT EXISTS (SELECT FROM "+table+" WHERE key = $1 AND NOT tombstone)", key).Scan(&is)
			return is, err
		},
		Interrupt: func() error {
			return exec(db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader'")
		},
	}
}

func exec(db *sql.DB, text string, args ...any) error {
	_, err := db.Exec(text, args...)
	return err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		return harness(tb, srv, func(tb testing.TB, table string) store.Store { return open(tb, srv.DSN("lab"), table) })
	}, storetest.Caps{MaxValue: 1 << 20})
}
