package sqlitestore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/examples/sqlitestore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
)

func TestStore(t *testing.T) {
	judge.Run(t, func(testing.TB) judge.Subject { return judge.Subject{Registers: inFile} }, judge.Options{
		Histories: 50, // each write is synced to the disk
		Caps: storetest.Caps{
			NoPut:       "an UPDATE that leaves the revision alone breaks the table's rules",
			NoPurge:     "Delete leaves no trace already",
			NoInterrupt: "a file has no connection that could break",
			MaxValue:    store.MaxValue,
		},
	})
}

// inFile makes the registers of a file of their own.
func inFile(t testing.TB) judge.Registers {
	file := filepath.Join(t.TempDir(), "leader.db")
	open := func(t testing.TB) *sqlitestore.Store {
		s, err := sqlitestore.Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		s.Pace(25 * time.Millisecond) // as an election's heartbeat would
		return s
	}
	return judge.Registers{Harness: storetest.Harness{
		Open: func(t testing.TB) store.Store { return open(t) },
		Delete: func(key string) error {
			_, err := open(t).DB().Exec("DELETE FROM leader WHERE key = ?", key)
			return err
		},
		Visible: func(key string) (there bool, err error) {
			err = open(t).DB().QueryRow("SELECT count(*) FROM leader WHERE key = ? AND NOT tombstone", key).Scan(&there)
			return there, err
		},
	}}
}
