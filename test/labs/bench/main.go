// Bench measures what this project promises about speed and cost, and prints
// each figure beside its target.
//
//	go run ./test/labs/bench               everything, about four minutes
//	go run ./test/labs/bench -quick        a small run, to see that it works
//	go run ./test/labs/bench -only crash   the sections whose name contains a word
//	go run ./test/labs/bench -json         the figures as JSON
//
// It measures the same as make compare (test/labs/compare), but without the
// other libraries, so it does not require their clients: package lab measures
// in both. Figures that the other libraries have no match for are measured
// here.
//
// The servers run in a separate process, one alone and three as a cluster, with
// file storage, over loopback. Every candidate whose speed is measured has its
// own connection, as candidates in different processes have. A figure that
// misses its target is marked MISS. A miss is not an error, since the machine
// may be busy: compare it with the floor, which is measured in the same run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	measure "github.com/seed-ff2cb582/leader/test/internal/measure/lab"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// A section measures something and adds it to the report.
type section struct {
	name    string
	measure func(*lab) error
}

var sections = []section{
	{"isleader", measureIsLeader},
	{"handover", measureHandover},
	{"takeover", measureTakeover},
	{"crash", measureCrash},
	{"renewal", measureRenewal},
	{"steady", measureSteady},
	{"thousand", measureThousand},
	{"rhythm", measureRhythm},
	{"herd", measureHerd},
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if measure.Part(args) {
		if err := measure.Play([]peer.Library{peer.Ours{}}, args, stdin, stdout); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
		return 0
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "measure a little of everything")
	asJSON := flags.Bool("json", false, "print JSON")
	only := flags.String("only", "", "measure the sections whose name contains this")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	plan := harness.Run{Quick: *quick, Only: *only, Progress: stderr, Look: 20 * time.Millisecond}
	if err := validate(plan, flags.Args()); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	plan.Ctx = ctx
	r, err := measureAll(plan)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	r.Command = strings.Join(append([]string{"go run ./test/labs/bench"}, args...), " ") // what make bench runs
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = r.print(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// validate refuses what would be ignored otherwise.
func validate(r harness.Run, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("argument %q: there are flags alone", rest[0])
	}
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	return r.Validate(names...)
}

func measureAll(r harness.Run) (_ *report, err error) {
	l := &lab{Run: r, report: newReport()}
	if l.one, err = startServers(r, 1); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.one.bench.Close()) }()
	if l.three, err = startServers(r, 3); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.three.bench.Close()) }()
	for _, s := range sections {
		if !r.Measures(s.name) {
			continue
		}
		if err := r.Measure(s.name, func() error { return s.measure(l) }); err != nil {
			return nil, err
		}
	}
	return l.report, nil
}
