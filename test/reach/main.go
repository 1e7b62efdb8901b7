// Reach calls the leader by gRPC, 500 times a second, while leaders leave and
// crash, and prints how many calls failed and how long the slowest waited.
//
//	go run ./test/reach          20 handovers and 10 crashes, about a minute
//	go run ./test/reach -quick   2 and 1
//
// The server of NATS and each of the three instances run in a process of their
// own, over loopback. A handover is the stop of a program that leads, as in a
// rolling update; a crash is SIGKILL. The lease is 1 s. The calls wait for
// their leader, as the service config in its record says (waitForReady), and
// are repeated when a connection breaks, as the client says (Repeatable).
//
// A figure that misses its target is marked MISS; that is no error, since the
// machine may be busy: see the floor, what calls wait while nothing changes,
// which is measured in the same run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// ttl is the length of the lease.
const ttl = time.Second

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("reach", flag.ContinueOnError)
	flags.SetOutput(stderr)
	serve := flags.Bool("serve", false, "run the server of NATS until standard input ends (used by reach itself)")
	instance := flags.String("instance", "", "be the instance of this `name` until standard input ends (used by reach itself)")
	url := flags.String("url", "", "where NATS is, for an instance")
	quick := flags.Bool("quick", false, "a little of everything")
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
		err = beInstance(ctx, *instance, *url, stdin, stdout)
	default:
		var f *figures
		if f, err = measure(ctx, *quick, stderr); err == nil {
			err = f.print(stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "reach:", err)
		return 1
	}
	return 0
}

// figures are what a run has shown.
type figures struct {
	machine  harness.Machine
	calls    int
	failures []string

	floor    harness.Samples // the longest wait of a call while nothing changes, before each of the others
	handover harness.Samples // from the call that stops a leader to its successor's promotion
	handed   harness.Samples // the longest wait of a call meanwhile
	beyond   harness.Samples // the difference
	failover harness.Samples // from SIGKILL to the successor's promotion
	crashed  harness.Samples // the longest wait around a crash
}

func (f *figures) print(w io.Writer) error {
	m := f.machine
	fmt.Fprintf(w, "\n%s, %d cores, %s · %s · load before %s\ngo run ./test/reach: %d calls, %d a second, lease %v\n\n",
		m.CPU, m.Cores, m.OS, m.Go, m.Load, f.calls, rate, ttl)
	for _, failure := range f.failures {
		fmt.Fprintln(w, "failed:", failure)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tn\tp50\tmax\ttarget\t")
	fmt.Fprintf(t, "calls that failed\t%d\t\t%d\t0\t%s\n", f.calls, len(f.failures), word(len(f.failures) == 0))
	row := func(name string, s harness.Samples, target time.Duration) {
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
	return t.Flush()
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISS"
}
