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

// reach measures a little of some sections, and demands that no call fails that
// must not, and that no handler ran what it must not. How long the calls wait
// is not judged here: a test must not depend on the machine being fast.
func reach(t *testing.T, overHTTP bool, sections ...string) *figures {
	t.Helper()
	var log bytes.Buffer
	f, err := measure(t.Context(), options{http: overHTTP, quick: true, only: sections}, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	if f.calls < f.rate || f.runs < f.rate {
		t.Errorf("%d calls, %d runs", f.calls, f.runs)
	}
	if len(f.failures)+len(f.violations) > 0 {
		t.Errorf("%d calls failed, %d violations: see below", len(f.failures), len(f.violations))
	}
	var table bytes.Buffer
	if err := f.print(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &table)
	return f
}

func TestNoCallFailsThroughHandoversAndACrash(t *testing.T) {
	f := reach(t, false, leaving, killed)
	if len(f.handover) != 2 || len(f.crashed) != 1 || f.heldAnswered == 0 {
		t.Errorf("%d handovers, %d crashes, %d calls under way at one", len(f.handover), len(f.crashed), f.heldAnswered)
	}
	if f.broken+f.heldFailed > 0 {
		t.Errorf("%d calls failed that may be repeated", f.broken+f.heldFailed)
	}
}

// Repeatable requests are repeated, and requests that may have been served are
// not.
func TestOnlyRequestsUnderWayFailAtACrash(t *testing.T) {
	f := reach(t, true, leaving, killed)
	if len(f.handover) != 2 || len(f.crashed) != 1 || f.heldAnswered == 0 || f.heldFailed == 0 {
		t.Errorf("%d handovers, %d crashes; under way at one: %d answered by another, %d failed", len(f.handover), len(f.crashed), f.heldAnswered, f.heldFailed)
	}
}

// The judge reads the notes of the handlers, and not the library's own reports.
func TestNoHandlerRunsWhenAnotherLeads(t *testing.T) {
	for _, over := range []struct {
		name string
		http bool
	}{{"gRPC", false}, {"HTTP", true}} {
		t.Run(over.name+"/Frozen", func(t *testing.T) {
			f := reach(t, over.http, frozen)
			if f.gaveUp == 0 || f.refused[frozen] == 0 {
				t.Errorf("%d calls took their timeout on the frozen leader, which refused %d when it went on", f.gaveUp, f.refused[frozen])
			}
		})
		t.Run(over.name+"/Silent", func(t *testing.T) {
			f := reach(t, over.http, silent)
			if f.gaveUp+f.gaveUpElsewhere > 0 || f.refused[silent] < 2 {
				t.Errorf("%d calls took a timeout, %d were refused by silent leaders", f.gaveUp+f.gaveUpElsewhere, f.refused[silent])
			}
		})
	}
}

func TestARunIsJudgedByWhoBeganToLead(t *testing.T) {
	// a leads from 10, b from 20, a again from 30; each begins over 2.
	promotions := []promotion{{"a", 10, 12}, {"b", 20, 22}, {"a", 30, 32}}
	for _, v := range []struct {
		id             string
		arrived, began int64
		by             string // whose promotion had deposed id
	}{
		{"a", 11, 13, ""},
		{"a", 21, 21, ""}, // b has not certainly started
		{"a", 21, 25, ""}, // let in before
		{"a", 22, 25, "b"},
		{"a", 28, 29, "b"},
		{"a", 28, 30, ""}, // a may have started again
		{"a", 33, 34, ""},
		{"b", 15, 16, "a"},
		{"b", 15, 21, ""},
		{"b", 31, 31, ""},
		{"b", 40, 41, "a"},
		{"c", 5, 6, ""},
		{"c", 40, 41, "a"},
	} {
		got := ""
		if p := deposedBy(visit{id: v.id, arrived: v.arrived, began: v.began}, promotions); p != nil {
			got = p.ID
		}
		if got != v.by {
			t.Errorf("%+v: %q", v, got)
		}
	}
	if ledBefore(visit{id: "c", arrived: 5, began: 6}, promotions) || ledBefore(visit{id: "a", began: 9}, promotions) || !ledBefore(visit{id: "a", began: 10}, promotions) {
		t.Error("who has led before")
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-fast"}, strings.NewReader(""), &out, &log); code != 2 {
		t.Errorf("exit code %d", code)
	}
}
