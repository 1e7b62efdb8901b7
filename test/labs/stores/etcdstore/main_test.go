// Package etcdstore_test judges the etcd store on real servers.
package etcdstore_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// prefixNumber makes the prefixes unique among all tests.
var prefixNumber atomic.Int64

func newPrefix() string { return fmt.Sprintf("p%d/", prefixNumber.Add(1)) }

// open returns a store over the client that is closed when the test ends.
func open(tb testing.TB, client *clientv3.Client, opts etcdstore.Options) *etcdstore.Store {
	tb.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler) // interruptions are what the tests are about
	}
	s, err := etcdstore.New(client, opts)
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
