//go:build unix

package upgrade_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

const defaultOld = "05a30709"

var oldCommit = flag.String("old", defaultOld, "the earlier commit, in any form that git accepts")

// A version is a build of the command.
type version struct {
	name    string // old or new
	program string // the path
}

// buildOld builds the command of the earlier commit from a copy of its sources.
func buildOld(t *testing.T) version {
	t.Helper()
	root, err := run(t, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err == nil {
		_, err = run(t, ".", nil, "git", "cat-file", "-e", *oldCommit+"^{commit}")
	}
	if err != nil {
		absent(t, err)
	}
	dir := t.TempDir()
	archive, err := run(t, strings.TrimSpace(root), nil, "git", "archive", "--format=tar", *oldCommit)
	if err == nil {
		_, err = run(t, dir, strings.NewReader(archive), "tar", "-x", "-f", "-")
	}
	if err != nil {
		t.Fatal(err)
	}
	v, err := build(t, "old", dir)
	if err != nil && strings.Contains(err.Error(), "GOPROXY=off") {
		absent(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// buildNew builds the command of this tree.
func buildNew(t *testing.T) version {
	t.Helper()
	v, err := build(t, "new", ".")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// build builds the command of the workspace that contains dir.
func build(t *testing.T, name, dir string) (version, error) {
	t.Helper()
	v := version{name, filepath.Join(t.TempDir(), "leader-"+name)}
	_, err := run(t, dir, nil, "go", "build", "-trimpath", "-tags", "natsonly", "-o", v.program, "github.com/seed-ff2cb582/leader/cmd/leader")
	return v, err
}

// run runs a program to its end, without the network, and returns its output.
func run(t *testing.T, dir string, stdin io.Reader, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*natslab.Patience) // a build from nothing takes minutes
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, stdin, &out, &errs
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=", "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// absent skips the test because the repository lacks the earlier commit (a
// shallow clone), or the machine lacks a module of that commit. It fails the test
// if -old names the commit, or LEADER_SERVERS contains "all".
func absent(t *testing.T, why error) {
	t.Helper()
	says := fmt.Sprintf("commit %[1]s cannot be built: %[2]v\n"+
		"To get it with its modules: git fetch --unshallow --tags; git worktree add /tmp/old %[1]s && (cd /tmp/old && go build -o /dev/null ./cmd/leader); git worktree remove /tmp/old",
		*oldCommit, why)
	if *oldCommit != defaultOld || slices.Contains(strings.Fields(os.Getenv("LEADER_SERVERS")), "all") {
		t.Fatal(says)
	}
	t.Skip("SKIPPED, NOT TESTED: " + says)
}
