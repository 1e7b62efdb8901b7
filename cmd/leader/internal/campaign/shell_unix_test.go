//go:build unix

package campaign

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait. A wait that succeeds is much shorter.
const patience = time.Minute

// A check that takes too long is ended, again and again.
func TestACheckThatIsEndedLeavesNothingBehind(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	// The child holds the pipe open for as long as it lives.
	go func() {
		ended <- shell(io.Discard, os.Environ())(ctx, "sleep 600 > "+fifo+" & echo $! > "+fifo+".pid; wait")
	}()
	pipe, err := os.Open(fifo) // when the child has, too
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	cancel()
	if err := <-ended; err == nil {
		t.Error("it did not fail")
	}
	gone := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(pipe)
		gone <- err
	}()
	select {
	case err := <-gone:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("what the check has started lives on")
		b, _ := os.ReadFile(fifo + ".pid") // what there is
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
