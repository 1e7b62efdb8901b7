package candidate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// The lab reads what a killed process left, so that each answer must be in the
// file as soon as it was given.
func TestEqualAnswersAreOneRunAndEachIsInTheFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	r, err := newRecorder(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	var want []history.Run
	check := func() {
		t.Helper()
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := history.Runs(file); err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	no, yes := history.Answer{}, history.Answer{Leader: 7, Ctx: 7}
	sample := func(t0, t1 int64) history.Sample { return history.Sample{T0: t0, T1: t1} }

	r.add(0, no, sample(1, 2))
	want = append(want, history.Run{Who: 0, Answer: no, First: sample(1, 2), Last: sample(1, 2), Count: 1})
	check()
	r.add(1, yes, sample(3, 4))
	want = append(want, history.Run{Who: 1, Answer: yes, First: sample(3, 4), Last: sample(3, 4), Count: 1})
	check()
	r.add(0, no, sample(11, 30)) // stopped in the middle
	r.add(0, no, sample(31, 32))
	want[0].Last, want[0].Count, want[0].MaxGap = sample(31, 32), 3, 20
	check()
	r.add(1, no, sample(33, 34))
	want = append(want, history.Run{Who: 1, Answer: no, First: sample(33, 34), Last: sample(33, 34), Count: 1})
	check()
}

// If the parent process is gone, nothing is left to order the process to stop.
func TestACandidateEndsWithItsInput(t *testing.T) {
	dir := t.TempDir()
	line, err := json.Marshal(Spec{
		Name: "c", IDs: []string{"c"}, URLs: []string{"nats://127.0.0.1:1"}, Guarded: "nats://127.0.0.1:1",
		Bucket: "b", Group: "g", Settings: schedule.Settings{TTL: time.Second, Heartbeat: 250 * time.Millisecond},
		Samples: filepath.Join(dir, "samples"), Events: filepath.Join(dir, "events"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), strings.NewReader(string(line))); !errors.Is(err, ErrOrphaned) {
		t.Errorf("got %v", err)
	}
}

func TestGoroutinesOfTheLibraryAreDistinguishedFromTheLabs(t *testing.T) {
	for stack, want := range map[string]bool{
		"goroutine 7\ngithub.com/seed-ff2cb582/leader.(*loop).run(0x1)":                                          true,
		"goroutine 7\nselect\ncreated by github.com/seed-ff2cb582/leader/store/natsstore.(*hub).start":           true,
		"goroutine 7\ngithub.com/seed-ff2cb582/leader/internal/machine.Machine.Step":                             true,
		"goroutine 7\ngithub.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate.(*process).sample(0x1)": false,
		"goroutine 7\ngithub.com/nats-io/nats.go.(*Conn).readLoop(0x1)\ncreated by github.com/nats-io/nats.go":   false,
	} {
		if isOurs(stack) != want {
			t.Errorf("%q: %v", stack, !want)
		}
	}
}
