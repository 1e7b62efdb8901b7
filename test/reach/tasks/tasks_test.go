package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

var n = flag.Int("tasks", 1500, "how many tasks go through the fire at least")

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-serve" || os.Args[1] == "-candidate" || os.Args[1] == "-workers") { // the lab runs itself
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// The verdict comes from the workers' journals: see burn.
func TestUnderFireNoTaskIsLostNorAcceptedFromAStaleTerm(t *testing.T) {
	for name, grpc := range map[string]bool{"NATS": false, "gRPC": true} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			v, err := burn(t.Context(), options{Servers: 1, GRPC: grpc}, *n, &out)
			t.Logf("%s", &out)
			if err != nil {
				t.Fatal(err)
			}
			if v.Lost != 0 || v.Stale != 0 || v.Twice != 0 || v.Tasks < *n || v.Accepted < v.Tasks ||
				v.Kills == 0 || v.Freezes == 0 || v.WorkerKills == 0 || v.WorkerFreezes == 0 || v.Again == 0 || v.Refused == 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// A lab that cannot condemn shows nothing.
func TestTheJudgeCondemnsWhatItIsToCondemn(t *testing.T) {
	journal := func(events ...happening) verdict {
		v := verdict{Tasks: 1}
		(&lab{events: events}).judge(&v)
		return v
	}
	ok := []happening{
		{Worker: "w", Run: 1, What: "accepted", ID: "x", Attempt: 1, Term: 1}, {Worker: "w", Run: 1, What: "returned", ID: "x", Attempt: 1, Term: 1},
	}
	if v := journal(ok...); v.Lost+v.Stale+v.Twice != 0 || v.Accepted != 1 {
		t.Errorf("a good journal: %+v", v)
	}
	if v := journal(ok[0]); v.Lost != 1 {
		t.Errorf("a lost task: %+v", v)
	}
	if v := journal(append(ok, happening{Worker: "w", Run: 1, What: "accepted", ID: "y", Attempt: 1, Term: 0})...); v.Stale != 1 {
		t.Errorf("an earlier term: %+v", v)
	}
	if v := journal(append(ok, happening{Worker: "v", Run: 2, What: "accepted", ID: "x", Attempt: 1, Term: 1})...); v.Twice != 1 {
		t.Errorf("an attempt at two workers: %+v", v)
	}
	if v := journal(append(ok, happening{Worker: "w", Run: 1, What: "violation", ID: "x", Attempt: 1, Term: 1})...); v.Stale != 1 {
		t.Errorf("a stale order that was accepted: %+v", v)
	}
	late := []happening{
		{Worker: "w", Run: 1, What: "stale", ID: "x", Attempt: 1, Term: 0}, {Worker: "w", Run: 1, What: "refused", ID: "x", Attempt: 1, Term: 0},
		{Worker: "w", Run: 1, What: "again", ID: "x", Attempt: 1, Term: 0}, {Worker: "w", Run: 1, What: "refused", ID: "x", Attempt: 1, Term: 0},
	}
	if v := journal(append(ok, late...)...); v.Late != 1 || v.Again != 1 || v.Refused != 2 || v.Lost+v.Stale+v.Twice != 0 {
		t.Errorf("orders that were refused: %+v", v)
	}
}

func TestTheVerdictCondemnsAFireThatHasShownNothing(t *testing.T) {
	good := verdict{Kills: 1, Freezes: 1, WorkerKills: 1, WorkerFreezes: 1, Again: 1, Refused: 1}
	if err := good.err(); err != nil || !good.struck() {
		t.Errorf("a good fire: %v", err)
	}
	for want, change := range map[string]func(*verdict){
		"1 tasks lost":                  func(v *verdict) { v.Lost = 1 },
		"1 accepted from a stale term":  func(v *verdict) { v.Stale = 1 },
		"1 attempts run by two":         func(v *verdict) { v.Twice = 1 },
		"no leader was killed":          func(v *verdict) { v.Kills = 0 },
		"no leader was frozen":          func(v *verdict) { v.Freezes = 0 },
		"no team of workers was killed": func(v *verdict) { v.WorkerKills = 0 },
		"no team of workers was frozen": func(v *verdict) { v.WorkerFreezes = 0 },
		"no order of a deposed leader":  func(v *verdict) { v.Again = 0 },
		"no order was refused as stale": func(v *verdict) { v.Refused = 0 },
	} {
		v := good
		change(&v)
		if err := v.err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", v, err, want)
		}
	}
}

// A transport in memory, whose other end is the test.
type direct struct{ hear func(wire.ToWorker) }

func (d *direct) Join(_ context.Context, _, _ string, hear func(wire.ToWorker)) (tasks.Seat, error) {
	d.hear = hear
	return d, nil
}

func (*direct) Say(wire.FromWorker) {}

func (*direct) Close() {}

// The worker of this test takes every order, and then turns the stale one down.
func TestAJournalRepeatsOrdersAndRecordsTheirOutcome(t *testing.T) {
	var out bytes.Buffer
	j, link := newJournal("w", harness.NewSpeaker(&out), false), &direct{}
	var given []wire.ToWorker
	seat, err := j.between(link).Join(t.Context(), "g", "w", func(m wire.ToWorker) { given = append(given, m) })
	if err != nil {
		t.Fatal(err)
	}
	take := func() {
		for _, m := range given {
			for _, o := range m.Orders {
				j.accepted(tasks.Task{ID: o.ID, Attempt: o.Attempt, Payload: o.Payload, Term: leader.Term{Number: m.Term.Number, Token: m.Term.Token}})
			}
		}
		given = nil
	}
	ref := wire.Ref{ID: "x", Attempt: 2}
	held := wire.Ref{ID: "z", Attempt: 1}
	link.hear(wire.ToWorker{Term: wire.Term{Number: 1, Token: "t"}, Orders: []wire.Order{{Ref: ref}, {Ref: held}}})
	take()
	link.hear(wire.ToWorker{Term: wire.Term{Number: 1, Token: "t"}, Settled: []wire.Ref{ref}})
	take()
	link.hear(wire.ToWorker{Term: wire.Term{Number: 2, Token: "u"}, Call: true})
	if len(given) != 2 || !given[0].Call || given[1].Term != (wire.Term{Number: 1, Token: "t"}) || len(given[1].Orders) != 1 || given[1].Orders[0].Ref != ref {
		t.Errorf("the worker was given %+v, want the call, and the order of term 1 that was settled", given)
	}
	seat.Say(wire.FromWorker{Refused: []wire.Refusal{{Ref: wire.Ref{ID: "y"}, Why: wire.Full}, {Ref: ref, Why: wire.Stale}}})
	take()
	link.hear(wire.ToWorker{Term: wire.Term{Number: 3, Token: "v"}, Call: true})
	if len(given) != 1 {
		t.Errorf("the worker was given %+v, want the call alone", given)
	}
	var said []string
	for dec := json.NewDecoder(&out); dec.More(); {
		var h happening
		if err := dec.Decode(&h); err != nil {
			t.Fatal(err)
		}
		said = append(said, fmt.Sprintf("%s %s/%d of %d", h.What, h.ID, h.Attempt, h.Term))
	}
	want := []string{"accepted x/2 of 1", "accepted z/1 of 1", "kept x/2 of 1", "again x/2 of 1", "refused x/2 of 1", "violation x/2 of 1", "accepted x/2 of 1"}
	if !slices.Equal(said, want) {
		t.Errorf("the journal has %q, want %q", said, want)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-fast"}, strings.NewReader(""), &out, &log); code != 2 {
		t.Errorf("exit code %d", code)
	}
}
