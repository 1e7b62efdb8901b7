// Package ferretlab starts FerretDB 1.24 for the project's tests, in its own
// process: a server that speaks MongoDB's protocol, but that elections cannot
// rely on. Package servers finds the program, and skips or fails a test without
// it.
package ferretlab

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
	"github.com/seed-ff2cb582/leader/test/labs/stores/internal/tethered"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Start starts a server, which is killed when the test ends, and returns its
// URI.
func Start(tb testing.TB) string {
	tb.Helper()
	path := servers.Need(tb, "ferretdb")
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(tb, 1)[0]))
	server, err := tethered.Start(path, addr, tb.TempDir())
	if err != nil {
		tb.Fatalf("ferretlab: %v", err)
	}
	tb.Cleanup(server.Kill)
	natslab.Eventually(tb, "FerretDB listens", func(ctx context.Context) error {
		select {
		case <-server.Exited:
			tb.Fatalf("ferretlab: it has ended:\n%s", server.Log())
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return "mongodb://" + addr
}
