// Package consulstore_test judges the Consul store on real servers.
package consulstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/natslab"
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

// eventually writes until the write is acknowledged or found, as a store's user
// does across faults.
func eventually(tb testing.TB, s store.Store, key string, expected uint64, value string) (rev uint64) {
	tb.Helper()
	natslab.Eventually(tb, "write of "+key, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		rev, err = s.CompareAndSwap(ctx, store.Write{Key: key, Expected: expected, Value: []byte(value)})
		if errors.Is(err, store.ErrConflict) {
			e, err := s.Get(ctx, key)
			if err != nil || string(e.Value) == value {
				rev = e.Revision
				return err
			}
			expected = e.Revision
		}
		return err
	})
	return rev
}
