// Bench measures what this project promises about speed and cost, and prints each figure beside its
// target.
//
//	go run ./test/bench               everything, about three minutes
//	go run ./test/bench -quick        a small run, to see that it works
//	go run ./test/bench -only crash   the sections whose name contains a word
//	go run ./test/bench -json         the figures as JSON
//
// The servers run in a process of their own, one alone and three as a cluster,
// with file storage, over loopback. Every candidate whose speed is measured has a
// connection of its own, as candidates in different processes have. A figure that misses its target is marked
// MISS; that is no error, since the machine may be busy: see the floor, which is measured in
// the same run.
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
	"testing"
	"time"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// A lab is what the sections measure in.
type lab struct {
	ctx      context.Context
	one      *servers
	three    *servers
	quick    bool
	progress io.Writer
	report   *report
	buckets  int
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
	{"herd", measureHerd},
	{"expiry", measureExpiry},
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	serve := flags.Int("serve", 0, "run so many servers until standard input ends (used by bench itself)")
	quick := flags.Bool("quick", false, "measure a little of everything")
	asJSON := flags.Bool("json", false, "print JSON")
	only := flags.String("only", "", "measure the sections whose name contains this")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *serve > 0 {
		return serveServers(*serve, stdin, stdout, stderr)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	testing.Init() // for testing.Benchmark
	r, err := measure(ctx, *quick, *only, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	r.Command = strings.Join(append([]string{"go run ./test/bench"}, args...), " ") // what make bench runs
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

func measure(ctx context.Context, quick bool, only string, progress io.Writer) (_ *report, err error) {
	l := &lab{ctx: ctx, quick: quick, progress: progress, report: newReport()}
	if l.one, err = startServers(ctx, 1); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.one.stop()) }()
	if l.three, err = startServers(ctx, 3); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.three.stop()) }()
	for _, s := range sections {
		if !strings.Contains(s.name, only) {
			continue
		}
		begun := time.Now()
		fmt.Fprintf(progress, "measuring: %s", s.name)
		if err := s.measure(l); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(progress, " (%.1f s)\n", time.Since(begun).Seconds())
	}
	return l.report, nil
}

// n is a number of rounds: many, or few in a quick run.
func (l *lab) n(many, few int) int {
	if l.quick {
		return few
	}
	return many
}
