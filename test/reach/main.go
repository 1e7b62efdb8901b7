// Reach calls the leader by gRPC, 500 times a second, while leaders leave,
// crash, are frozen and fall silent, and prints how many calls failed and how
// long the slowest waited.
//
//	go run ./test/reach          20 handovers, 10 crashes, 5 freezes and 6 silences, about two minutes
//	go run ./test/reach -http    the same by HTTP
//	go run ./test/reach -quick   2, 1, 1 and 2, and 100 calls a second
//
// The server of NATS and each of the three instances run in a process of their
// own, over loopback. A handover is the stop of a program that leads, as in a
// rolling update; a crash is SIGKILL; a freeze is SIGSTOP, until the successor
// has answered and the calls under way are over; a leader falls silent when a
// proxy between it and NATS lets nothing pass, or breaks its connections. The
// lease is 1 s.
//
// By gRPC the calls wait for their leader, as the service config in its record
// requires (waitForReady), and are repeated when a connection breaks, as the
// client requests (Repeatable). By HTTP every second one is a POST, which must
// not be repeated if it may have been served.
//
// Each instance notes in a file which calls arrived and which its handlers ran,
// on the clock that all processes share. By that it is judged whether one ran a
// call when another led already, and whether a call ran twice that must not.
//
// A figure that misses its target is marked MISS. A miss is not an error, since
// the machine may be busy: compare it with the floor, how long calls wait while
// nothing changes, which is measured in the same run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("reach", flag.ContinueOnError)
	flags.SetOutput(stderr)
	serve := flags.Bool("serve", false, "run the server of NATS until standard input ends (used by reach itself)")
	instance := flags.String("instance", "", "be the instance of this `name` until standard input ends (used by reach itself)")
	url := flags.String("url", "", "where NATS is, for an instance")
	journals := flags.String("journals", "", "the `directory` of the journals, for an instance")
	var o options
	flags.BoolVar(&o.http, "http", false, "call by HTTP in place of gRPC")
	flags.BoolVar(&o.quick, "quick", false, "a little of everything")
	flags.Func("only", "measure this `section` alone: "+strings.Join(sections(), ", "), func(name string) error {
		o.only = append(o.only, name)
		if !slices.Contains(sections(), name) {
			return errSection
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	var err error
	switch {
	case *serve:
		err = harness.ServeNATS(harness.NATSOptions{Servers: 1}, stdin, stdout)
	case *instance != "":
		err = beInstance(ctx, part{*instance, *url, *journals, o.protocol()}, stdin, stdout)
	default:
		var f *figures
		if f, err = measure(ctx, o, stderr); err == nil {
			err = f.print(stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "reach:", err)
		return 1
	}
	return 0
}

func (f *figures) print(w io.Writer) error {
	m, command := f.machine, "go run ./test/reach"
	if f.http {
		command += " -http"
	}
	fmt.Fprintf(w, "\n%s, %d cores, %s · %s · load before %s\n%s: %d calls, %d a second, lease %v\n\n",
		m.CPU, m.Cores, m.OS, m.Go, m.Load, command, f.calls, f.rate, ttl)
	for _, wrong := range f.wrong() {
		fmt.Fprintln(w, wrong)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tn\tp50\tmax\ttarget\t")
	count := func(name string, of, n int) {
		fmt.Fprintf(t, "%s\t%d\t\t%d\t0\t%s\n", name, of, n, word(n == 0))
	}
	count("calls that failed", f.calls, len(f.failures))
	count("runs after another had started to lead, or twice", f.runs, len(f.violations))
	row := func(name string, s harness.Samples, target time.Duration) {
		if len(s) == 0 {
			return // it was not measured
		}
		fmt.Fprintf(t, "%s\t%d\t%v\t%v\t", name, len(s), s.Median().Round(10*time.Microsecond), s.Max().Round(10*time.Microsecond))
		if target > 0 {
			fmt.Fprintf(t, "≤ %v\t%s", target, word(s.Max() <= target))
		}
		fmt.Fprintln(t)
	}
	row("longest wait in 300 ms without a change", f.floor, 0)
	row("handover", f.handover, 0)
	row("longest wait in a handover", f.handed, 0)
	row("the same, beyond the handover itself", f.beyond, 20*time.Millisecond)
	row("failover after a crash", f.failover, 0)
	row("longest wait around a crash", f.crashed, ttl*11/10+50*time.Millisecond)
	row("failover of a frozen leader", f.frozen, 0)
	row("longest wait once its successor is seen", f.thawed, 0)
	row("failover of a silent leader", f.silent, 0)
	row("longest wait around it", f.unheard, ttl*11/10+50*time.Millisecond)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ncalls sent to a leader that was killed: %d failed, of them %d that began before its end was noticed; of those that it kept for that, %d were answered by another, %d failed\n",
		f.broken, f.brokenLate, f.heldAnswered, f.heldFailed)
	if f.left > 0 {
		fmt.Fprintf(w, "the machine is too busy: %d calls were not made, since too many waited\n", f.left)
	}
	fmt.Fprintf(w, "calls that took their timeout of %v: %d on a frozen leader, %d elsewhere\n", impatience, f.gaveUp, f.gaveUpElsewhere)
	if f.unsure > 0 {
		fmt.Fprintf(w, "the machine is too busy: %d calls failed that had no connection in time, and may have been sent when the next leader was seen\n", f.unsure)
	}
	fmt.Fprintf(w, "calls that were refused by who had led, when another did: handovers %d, freezes %d, silences %d\n",
		f.refused[leaving], f.refused[frozen], f.refused[silent])
	return nil
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISS"
}
