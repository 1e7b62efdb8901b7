// Package built builds the leader command for tests that run it as a user
// would, as a separate program, and runs it. Only tests that need modules which
// cmd/leader cannot require do so: databases, browsers, Kubernetes. Go's test
// cache does not see what go build depends on: run their packages with
// -count=1.
package built

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Run builds the command, stores its path in program, runs the tests, and
// removes the command again. It returns the exit code of the tests, for
// [os.Exit]. If the command cannot be built, Run reports it on stderr and
// returns 1.
func Run(m *testing.M, program *string) int {
	dir, err := os.MkdirTemp("", "leader-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	*program = filepath.Join(dir, "leader.exe") // a name that runs everywhere
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", *program, "github.com/seed-ff2cb582/leader/cmd/leader").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// Try runs a program to its end, for as long as the context lets it, in an
// environment with nothing of the caller's but the PATH.
func Try(ctx context.Context, tb testing.TB, program string, args ...string) (code int, stdout, stderr string) {
	tb.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"HOME=" + tb.TempDir(), "TMPDIR=" + tb.TempDir(), "PATH=" + os.Getenv("PATH")}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		tb.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
