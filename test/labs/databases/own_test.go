package databases_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// A server of a test's own may be killed, and has what it acknowledged.
func TestAnOwnServerIsKilledAndStartedAgain(t *testing.T) {
	var lab databases.Lab
	t.Cleanup(func() { _ = lab.Close() })
	for name, start := range map[string]func(testing.TB, ...string) *databases.Server{
		"PostgreSQL": lab.OwnPostgreSQL, "MariaDB": lab.OwnMariaDB,
	} {
		t.Run(name, func(t *testing.T) {
			srv := start(t)
			srv.Exec("CREATE TABLE t (n INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (7)")
			srv.Kill()
			srv.Run()
			srv.Freeze()
			srv.Thaw()
			var n int
			if err := srv.DB().QueryRow("SELECT n FROM t").Scan(&n); err != nil || n != 7 {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}
