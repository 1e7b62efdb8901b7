package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	// The program runs itself for servers and candidates.
	if len(os.Args) > 1 && slices.Contains([]string{"serve", "candidate", "crowd"}, os.Args[1]) {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// No figure of speed is judged here: a test must not depend on the machine
// being fast.
func TestEveryLibraryDoesTheWork(t *testing.T) {
	for _, section := range []string{"handover", "faults"} {
		var out, log bytes.Buffer
		if code := run(t.Context(), []string{"--quick", "--only", section}, nil, &out, &log); code != 0 {
			t.Fatalf("%s: exit code %d:\n%s", section, code, &log)
		}
		for _, want := range []string{"leader", "client-go", "etcd", "Targets"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", section, want, &out)
			}
		}
	}
}

func TestWrongCommandLinesAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--fast"}, {"measure"}, {"serve"}, {"--root", filepath.Join(t.TempDir(), "absent")}} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &log); code != 2 {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}
