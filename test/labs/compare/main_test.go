package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/lab"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/others"
)

func TestMain(m *testing.M) {
	// The program runs itself for servers and candidates.
	if lab.Part(os.Args[1:]) {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// No figure of speed is judged here: a test must not depend on the machine
// being fast.
func TestEveryLibraryDoesTheWork(t *testing.T) {
	t.Parallel()
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

// Beside the other, since both wait for leases most of the time.
func TestTheLoopOfClientGoKeepsOneLeaderOverElections(t *testing.T) {
	t.Parallel()
	results, err := lab.Run(harness.Run{Ctx: t.Context(), Quick: true, Only: "faults", Progress: io.Discard, Look: time.Millisecond}, others.Bridges()[:1])
	if err != nil {
		t.Fatal(err)
	}
	if len(results[0].Faults) != 4 {
		t.Errorf("%d kinds of faults", len(results[0].Faults))
	}
	for _, f := range results[0].Faults {
		if worst := f.Worst(); worst.Both() != 0 || worst.Open {
			t.Errorf("%s: two led for %v", f.Name, worst.Both())
		}
	}
}

func TestWrongCommandLinesAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--fast"}, {"measure"}, {"serve"}, {"--root", filepath.Join(t.TempDir(), "absent")},
		{"--only", "crush"}, {"--kube", "--only", "stores"}, // would measure nothing
	} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &log); code != 2 {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}
