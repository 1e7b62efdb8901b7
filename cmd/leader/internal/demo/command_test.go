package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// demoOf returns a demo whose workers are this test's binary in the given role.
func demoOf(t *testing.T, role string) *Command {
	t.Helper()
	c := &Command{
		Workers: 2, Key: "demo", Bucket: "demo", TTL: time.Second, NoSplay: true, JSON: true, For: 30 * time.Second,
		worker: []string{os.Args[0], role},
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTwoLeadersAreReportedAndAreAnError(t *testing.T) {
	c := demoOf(t, "lie")
	var out bytes.Buffer
	var err error
	for _, c.For = range []time.Duration{2 * time.Second, 20 * time.Second, time.Minute} { // the workers may be slow to begin
		out.Reset()
		if err = c.Run(t.Context(), app.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, kit()); err != nil {
			break
		}
	}
	if !errors.Is(err, app.ErrTwoLeaders) {
		t.Errorf("error %v, want app.ErrTwoLeaders", err)
	}
	proofs, end := 0, Event{}
	for _, e := range decode(t, out.Bytes()) {
		if e.Kind == EventTwoLeaders {
			proofs++
		}
		end = e
	}
	if proofs != 1 { // one pair of terms
		t.Errorf("%d proofs, want 1", proofs)
	}
	if end.Summary == nil || end.Summary.TwoLeaders == 0 {
		t.Errorf("the last event is %+v, want a summary that counts two leaders", end)
	}
}

func TestWorkersThatCanNotBeginEndTheDemo(t *testing.T) {
	c := demoOf(t, "fail")
	var out bytes.Buffer
	err := c.Run(t.Context(), app.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, kit())
	if err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("error %v, want the worker's", err)
	}
}

func decode(t *testing.T, out []byte) (events []Event) {
	t.Helper()
	for line := range bytes.Lines(out) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}
