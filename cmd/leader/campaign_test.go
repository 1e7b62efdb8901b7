package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A transition is a line of leader campaign --json.
type transition struct {
	At       time.Time `json:"at"`
	Event    string    `json:"event"`
	Reason   string    `json:"reason"`
	Term     uint64    `json:"term"`
	LeaderID string    `json:"leader_id"`
	By       string    `json:"by"`
	Why      string    `json:"why"`
}

func decodeTransitions(t *testing.T, out string) (all []transition) {
	t.Helper()
	for l := range strings.Lines(out) {
		dec := json.NewDecoder(strings.NewReader(l))
		dec.DisallowUnknownFields()
		var tr transition
		if err := dec.Decode(&tr); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		all = append(all, tr)
	}
	return all
}

func TestACampaignTellsItsTransitions(t *testing.T) {
	code, out, stderr := runProgram(t, nil, "campaign", "--dev", "solo", "--id", "a", "--for", "5s", "--resign-after", "100ms", "--json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	var story []string
	for _, tr := range decodeTransitions(t, out) {
		story = append(story, tr.Event+" "+tr.Reason)
		if tr.At.IsZero() || tr.Event == "promoted" && (tr.Term == 0 || tr.LeaderID != "a") {
			t.Errorf("%+v", tr)
		}
	}
	const want = "campaigning started, promoted absent, demoted resigned, campaigning standing-back"
	if got := strings.Join(story, ", "); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "stopped stopped") {
		t.Errorf("got  %s\nwant %s …", got, want)
	}
}

func TestCampaignsTakeTurns(t *testing.T) {
	url := serveElections(t)
	outputs := make(chan string)
	for _, id := range []string{"a", "b"} {
		cmd := command(t, nil, "campaign", "turns", "--server", url, "--id", id, "--for", "6s", "--resign-after", "200ms", "--json")
		go func() {
			out, _ := cmd.Output() // what it says tells
			outputs <- string(out)
		}()
	}
	for range 2 {
		terms := 0
		for _, tr := range decodeTransitions(t, <-outputs) {
			if tr.Event == "promoted" {
				terms++
			}
		}
		if terms < 2 {
			t.Errorf("%d terms, want turns", terms)
		}
	}
}
