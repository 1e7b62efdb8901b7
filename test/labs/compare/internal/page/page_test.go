package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
)

// sample is a report with something in every place.
func sample() *figure.Report {
	of := func(name string, both time.Duration) *figure.Result {
		cost := figure.Cost{Joined: time.Second, CPU: 0.1, Heap: 4096, Goroutines: 1, Settled: 10_000}
		return &figure.Result{
			Library: name, Store: "nats-server 2", Answers: true,
			RoundTrip: harness.Samples{1e5}, Handover: harness.Samples{2e5, 3e5},
			Crashes: []figure.Crash{{TTL: 300 * time.Millisecond}, {TTL: time.Second, Permitted: true, Samples: harness.Samples{11e8, 12e8}}},
			Faults:  []figure.Fault{{Name: "frozen", Trials: []figure.Trial{{Works: both, Beliefs: 1}}}},
			Traffic: figure.Traffic{Followers: 10, Heartbeat: time.Second, In: 1, Out: 12, Bytes: 100},
			Crowds: []figure.Crowd{
				{Elections: 1000, TTL: 3 * time.Second, Leading: cost, Following: cost},
				{Elections: 10_000, TTL: 30 * time.Second, Leading: cost, Following: cost},
			},
			Answer: 50, Herds: []figure.Herd{{
				Candidates: 200, Left: figure.Succession{Took: harness.Samples{1e6}, Claims: []int{4}},
				Died: figure.Succession{Took: harness.Samples{2e9}, Claims: []int{5}}, Bare: harness.Samples{7e5, 9e5},
			}},
		}
	}
	ours := of("leader", 0)
	ours.Plain = figure.Plain{Traffic: figure.Traffic{Followers: 10, In: 3, Out: 123.4}, Crowd: ours.Crowds[0]}
	over := &storefigures.Report{Rounds: 20, Stores: []storefigures.Store{
		{
			Name: "Redis", Swap: harness.Samples{4e5}, Trips: 1, Bytes: 612, Plain: harness.Samples{3e5}, Least: harness.Samples{6e5}, Handover: harness.Samples{9e5},
			Crash: harness.Samples{11e8}, TTL: time.Second,
		},
		{Name: "Consul", Absent: "not measured: no server"},
	}}
	return &figure.Report{Command: "make compare", Commit: "0123456789ab", Stores: over, Results: []*figure.Result{ours, of("client-go", 675e6), of("etcd", 1e6)}}
}

func TestPageHoldsEveryFigure(t *testing.T) {
	r := sample()
	text, err := Markdown(r, r.Judge())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"675 ms", "| frozen, 1 trials | 0 |", "make compare",
		"| handover, p50 (most), n = 2 | 0.20 ms (0.30 ms) |", "| a handover among 200 by plain messages and writes, p50 (most), n = 2 | 0.70 ms (0.90 ms) |",
		"of commit 0123456789ab", "`AcquireGrace` off", "| met |",
		"| in a bucket that does not republish: messages from the server | 123.4 | – | – |",
		"| in a bucket that does not republish, 1000 led, TTL 3s: CPU, % of a core | 10.0 | – | – |",
		"| store | handover among 3, p50 (claims) |", "| Redis | – | – | – |", "| Consul | not measured: no server |", "20 rounds in each",
		"| graceful handover over each store that reports changes | ≤ 3.5 × its compare-and-swap | 2.2 × (Redis) | met |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if bytes.Contains(text, []byte("<no value>")) {
		t.Error("the page has holes")
	}
}

func TestPictureIsSVGWithEachLibrary(t *testing.T) {
	var b bytes.Buffer
	if err := Plot(&b, sample()); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"client-go", "etcd", "share of the trials", "milliseconds"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}

func TestOverlapsAreDrawnForEachFaultAndLibrary(t *testing.T) {
	var b bytes.Buffer
	if err := PlotOverlaps(&b, sample()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"client-go", "etcd", "frozen", "675 ms", "0 ms", "two leaders"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}

func TestOnlyTheBlockIsReplaced(t *testing.T) {
	got, err := replaceBlock("above\n"+begin+"old\n"+end+"below\n", "new\n")
	if want := "above\n" + begin + "new\n" + end + "below\n"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if _, err := replaceBlock("above\n"+begin+"old\nbelow\n", "new\n"); !errors.Is(err, errNoBlock) {
		t.Errorf("a block without an end: %v", err)
	}
}

func TestShortTableNamesTheCommandAndTheWorstTrial(t *testing.T) {
	text := Short(sample())
	for _, want := range []string{"`make compare`", "| a handover among 200 candidates, p50 | 1.00 ms | 1.00 ms | 1.00 ms |", "docs/evidence/comparison.md"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 121 && !strings.HasPrefix(line, "|") {
			t.Errorf("a long line: %s", line)
		}
	}
}

// Of fewer than a hundred samples the 99th percentile is the longest.
func TestAPercentileIsNamedForWhatItIs(t *testing.T) {
	many := make(harness.Samples, 200)
	for i := range many {
		many[i] = time.Duration(i+1) * time.Millisecond
	}
	r := sample()
	for _, res := range r.Results {
		res.Handover = many
	}
	if text := Short(r); !strings.Contains(text, "| graceful handover, p50 (p99), n = 200 | 100 ms (198 ms) |") {
		t.Errorf("of 200 samples: %s", text)
	}
	r.Results[1].Handover = many[:15]
	if text := Short(r); !strings.Contains(text, "| graceful handover, p50 (most), n = 15 to 200 | 100 ms (200 ms) | 8.00 ms (15.0 ms) |") {
		t.Errorf("of 15 samples: %s", text)
	}
}
