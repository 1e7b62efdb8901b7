//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
)

// stuckPipe returns the end to write to of a pipe that is full and that nobody
// reads.
func stuckPipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = reader.Close(), writer.Close() })
	full := make([]byte, 4096)
	for {
		if err := writer.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write(full); err != nil {
			break
		}
	}
	return writer
}

// The reader of a log may hang, as a logging daemon on a full disk does.
func TestAStuckLogHoldsNoTermUp(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	writer := stuckPipe(t)
	cmd := command(t, nil, "run", "jobs", "--server", url, "--id", "a", "--verbose", "--", "sh", "-c", "echo up; exec sleep 600")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	first := make(chan string, 1)
	go func() {
		b := make([]byte, 16)
		n, _ := out.Read(b)
		first <- string(b[:n])
	}()
	select {
	case l := <-first:
		if l != "up\n" {
			t.Fatalf("the program prints %q", l)
		}
	case <-time.After(patience):
		t.Fatal("the program does not start")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // a signal ends it
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("leader run ignores SIGTERM")
	}
	if code, out, stderr := runProgram(t, nil, "get", "jobs", "--server", url); code != 0 || !strings.Contains(out, "stopped by a") {
		t.Errorf("the lease was not released: exit status %d\n%s%s", code, out, stderr)
	}
}
