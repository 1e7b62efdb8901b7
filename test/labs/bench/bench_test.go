package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	measure "github.com/seed-ff2cb582/leader/test/internal/measure/lab"
)

func TestMain(m *testing.M) {
	if measure.Part(os.Args[1:]) { // bench runs itself for servers and elections
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	leaks.Main(m)
}

// No figure is judged here: a test must not depend on the machine being fast.
func TestQuickRunMeasuresEverything(t *testing.T) {
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-quick", "-json"}, nil, &out, &log); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, &log)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, f := range r.Figures {
		if f.OK != nil {
			judged++
		}
	}
	if judged < 13 {
		t.Errorf("%d figures have a target:\n%s", judged, &out)
	}
	var table bytes.Buffer
	if err := r.print(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &table)
}

func TestOptionsThatMeasureNothingAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-fast"}, {"-only", "crush"}, {"-quick", "crash"}} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &log); code != 2 || out.Len() > 0 {
			t.Errorf("%q: exit code %d, output %q", args, code, &out)
		}
		if !strings.Contains(log.String(), strings.TrimPrefix(args[len(args)-1], "-")) {
			t.Errorf("%q: %s", args, &log)
		}
	}
}
