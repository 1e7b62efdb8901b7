package databases

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
)

// OwnGalera starts a MariaDB server for one test that is a Galera cluster by
// itself, in which each server takes writes.
func (l *Lab) OwnGalera(tb testing.TB) *Server {
	tb.Helper()
	lib := servers.Need(tb, "galera")
	// The servers' user may have no access to the cache.
	s, err := directory("")
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(s.dir) }) // it is temporary
	copied := filepath.Join(s.dir, filepath.Base(lib))
	text, err := os.ReadFile(lib)
	if err == nil {
		err = errors.Join(os.WriteFile(copied, text, 0o644), own(copied))
	}
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	at := ports.Free(tb, 2)
	return l.OwnMariaDB(tb, "--wsrep-on=ON", "--wsrep-new-cluster", "--wsrep-cluster-address=gcomm://", "--wsrep-provider="+copied,
		"--wsrep-node-address=127.0.0.1", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:%d;ist.recv_addr=tcp://127.0.0.1:%d", at[0], at[1]))
}
