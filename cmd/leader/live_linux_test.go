package main

import (
	"syscall"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/demo"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"
)

// The orphans of a container go to its process 1, and those of a session to a
// subreaper, as we are from here on. Such a parent may be of the workers' own
// session, and then the system does not continue a stopped one.
func TestNoWorkerOutlivesAKilledDemoWhoseOrphansAreAdopted(t *testing.T) {
	t.Parallel()
	if err := process.Adopt(); err != nil {
		t.Fatal(err)
	}
	l := start(t, nil, "--workers", "3", "--no-splay", "--script", "0s freeze", "--ttl", "30s", "--heartbeat", "1s")
	l.awaitKind(demo.EventFault)
	if err := l.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.end()
	checkGone(t, l.seen)
}
