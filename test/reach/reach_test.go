package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-serve" || os.Args[1] == "-instance") { // reach runs itself
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// How long the calls wait is not judged here: a test must not depend on the
// machine being fast.
func TestNoCallFailsThroughHandoversAndACrash(t *testing.T) {
	var log bytes.Buffer
	f, err := measure(t.Context(), true, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	if len(f.handover) != 2 || len(f.crashed) != 1 || f.calls < rate {
		t.Errorf("%d handovers, %d crashes, %d calls", len(f.handover), len(f.crashed), f.calls)
	}
	for _, failure := range f.failures {
		t.Error(failure)
	}
	var table bytes.Buffer
	if err := f.print(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &table)
}

func TestWrongFlagsAreRefused(t *testing.T) {
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-fast"}, strings.NewReader(""), &out, &log); code != 2 {
		t.Errorf("exit code %d", code)
	}
}
