// Package consulstore_test judges the Consul store on real servers.
package consulstore_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// prefixNumber makes the prefixes unique among all tests.
var prefixNumber atomic.Int64

func newPrefix() string { return fmt.Sprintf("p%d/", prefixNumber.Add(1)) }

// open returns a store over the client that is closed when the test ends.
func open(tb testing.TB, client *api.Client, opts consulstore.Options) *consulstore.Store {
	tb.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler) // interruptions are what the tests are about
	}
	s, err := consulstore.New(client, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
