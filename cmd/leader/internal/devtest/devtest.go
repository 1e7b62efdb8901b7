// Package devtest gives the tests of the command their own NATS servers, in the
// test's process, and connections. All of it ends with the test.
//
// test/natslab does more of the same for the tests of other modules. The command
// cannot require the module test, which is never released.
package devtest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Serve starts a server without users, and returns its URL.
func Serve(tb testing.TB) (url string) {
	tb.Helper()
	return Start(tb).URL()
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
