package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strings"
	"testing"
)

var n = flag.Int("tasks", 1500, "how many tasks go through the fire")

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-serve" || os.Args[1] == "-candidate" || os.Args[1] == "-workers") { // the lab runs itself
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// The verdict is that of the workers' journals: see burn.
func TestUnderFireNoTaskIsLostNorAcceptedFromAStaleTerm(t *testing.T) {
	for name, grpc := range map[string]bool{"NATS": false, "gRPC": true} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			v, err := burn(t.Context(), options{Servers: 1, GRPC: grpc}, *n, &out)
			t.Logf("%s", &out)
			if err != nil {
				t.Fatal(err)
			}
			if v.Lost != 0 || v.Stale != 0 || v.Twice != 0 || v.Accepted < *n || v.Kills == 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// A lab that cannot condemn shows nothing.
func TestTheJudgeCondemnsWhatItIsToCondemn(t *testing.T) {
	journal := func(events ...happening) (v verdict) {
		(&lab{events: events}).judge(&v, 1)
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
}

func TestWrongFlagsAreRefused(t *testing.T) {
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-fast"}, strings.NewReader(""), &out, &log); code != 2 {
		t.Errorf("exit code %d", code)
	}
}
