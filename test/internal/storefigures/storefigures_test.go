package storefigures_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
)

func sample() *storefigures.Report {
	return &storefigures.Report{Rounds: 3, Stores: []storefigures.Store{
		{
			Name: "told", Swap: harness.Samples{2e6, 1e6, 9e6}, Trips: 1, Bytes: 612, CPU: 5e4, Plain: harness.Samples{16e5}, Least: harness.Samples{3e6},
			Handover: harness.Samples{4e6}, Heartbeat: time.Second, Crash: harness.Samples{11e8}, TTL: time.Second, Rest: 0.012,
		},
		{Name: "looked at", Swap: harness.Samples{1e6}, Plain: harness.Samples{5e5}, Trips: 1, Handover: harness.Samples{8e8}, Crash: harness.Samples{12e8}, TTL: time.Second},
		{Name: "missing", Absent: "no server here: make missing"},
	}}
}

func TestEachStoreHasARowOfAsManyCells(t *testing.T) {
	t.Parallel()
	text := sample().Markdown()
	for _, want := range []string{
		"| told | 2.00 ms (9.00) | 1 (612) | 0.05 ms | 1.60 ms (1.60) | 3.00 ms | 4.00 ms (4.00) | 2.0 (2.5) | 1.10 | 1.2 % |",
		"| looked at | 1.00 ms (1.00) | 1 (0) | 0.00 ms | 0.50 ms (0.50) | – | 800.00 ms (800.00) | 800.0 (1600.0) | 1.20 | 0.0 % |",
		"| missing | no server here: make missing |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	bars := -1
	for line := range strings.Lines(text) {
		if n := strings.Count(line, "|"); bars >= 0 && n != bars {
			t.Errorf("a row of %d cells: %s", n-1, line)
		} else {
			bars = n
		}
	}
}

func TestAReportIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "figures.json")
	want := sample()
	if err := want.Write(file); err != nil {
		t.Fatal(err)
	}
	got, err := storefigures.Read(file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
