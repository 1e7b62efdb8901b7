// Package devtest gives the tests of the command a server of its own, and
// connections. What it gives ends with the test.
package devtest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devnats"
)

// Serve starts the server that --dev starts, on a free port.
func Serve(tb testing.TB) (url string) {
	tb.Helper()
	srv, err := devnats.Start(0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = srv.Close() })
	return srv.URL()
}

// Connect connects to a server with JetStream.
func Connect(tb testing.TB, url string, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	tb.Helper()
	// By default 2 s, which a machine that stalls exceeds.
	nc, err := nats.Connect(url, append([]nats.Option{nats.Timeout(time.Minute)}, options...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	return nc, js
}
