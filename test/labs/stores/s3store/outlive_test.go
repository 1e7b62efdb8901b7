package s3store_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

func TestAnElectionOutlivesItsServer(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	trial.Outlive(t, time.Second, trial.NewWays(t, 3, srv.Addr), func(addr string) store.Store { return at(t, addr, "") },
		trial.Harms("the server", srv)...)
}
