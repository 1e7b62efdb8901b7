// Package leaks fails tests on clusters of servers that leave goroutines
// behind.
package leaks

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package that starts clusters, and exits, as
// [goleak.VerifyTestMain]: with a failure if they left goroutines behind.
// Packages without clusters have no need of it. It calls [Crowd].
//
// Goroutines that a cluster leaves behind do not count. A server that is shut
// down while it makes a stream (which was acknowledged already, by the others)
// never closes the stream's files, and a server that sets up a mirror or a
// source waits 30 seconds for its origin's answer (nats-server 2.15.2, see
// docs/evidence/track-record.md).
func Main(m *testing.M) {
	Crowd()
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).setupMirrorConsumer.func3"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"),
	)
}

// Crowd runs 6 tests of the package at the same time, unless -parallel sets
// another number. Tests of elections wait for leases and servers most of the
// time, so that there may be more of them than processors. Call it in TestMain
// before the tests run.
func Crowd() {
	_ = flag.Set("test.parallel", "6") // which the command line, parsed later, overrides
}
