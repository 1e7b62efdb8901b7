package databases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
)

// galera is the library that makes MariaDB's servers a cluster, in which each
// of them takes writes.
const galera = "libgalera_smm.so"

// errGaleraAbsent: neither the machine nor the cache has Galera. It is no
// errAbsent: CI does without.
var errGaleraAbsent = errors.New("the library of Galera is not installed: run `make galera`, which fetches 1 MB, once")

// InstallGalera puts Galera into the user's cache, out of Debian's package, if
// the machine lacks it, and tells w what it does.
func InstallGalera(ctx context.Context, w io.Writer) error {
	if lib, err := find(galera, "galera"); err == nil {
		fmt.Fprintf(w, "databases: Galera is there: %s\n", lib)
		return nil
	}
	return installDebian(ctx, w, galera, "galera-4")
}

// OwnGalera starts a MariaDB server for one test that is a Galera cluster by
// itself. Without Galera the test is skipped, even if CI=true, and fails if
// LEADER_GALERA=required.
func (l *Lab) OwnGalera(tb testing.TB) *Server {
	tb.Helper()
	lib, err := find(galera, "galera")
	if err != nil {
		if os.Getenv("LEADER_GALERA") != "required" {
			tb.Skipf("SKIPPED, NOT TESTED: %v", errGaleraAbsent)
		}
		tb.Fatalf("databases: %v", errGaleraAbsent)
	}
	// The servers' user may have no access to the cache.
	s, err := directory("")
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(s.dir) }) // it is temporary
	copied := filepath.Join(s.dir, galera)
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
