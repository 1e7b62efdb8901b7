// Proxy measures what the leader's proxy costs: latency and throughput of one
// connection, direct, through a plain copy by reads and writes, and through the
// proxy, in turn.
//
//	go run ./test/reach/proxy                over loopback
//	go run ./test/reach/proxy -links 10gbit,1gbit
//	go run ./test/reach/proxy -copy 'socat TCP-LISTEN:$PORT,bind=$HOST,fork TCP:$TO'
//
// With -copy any program replaces the plain copy.
//
// Client, server, plain copy and proxy run in separate processes. With -links
// each is also a separate host, in a network namespace, and links of these
// rates join the hosts, one after the other. Then the link is the limit, and
// not the processors, which all hosts share here. That takes Linux, the right
// to make namespaces (root), and the commands ip, tc and nsenter. Nothing of it
// outlasts the run.
//
// A figure that misses its target is marked MISS, which is not an error.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// The ways from the client to the server.
const (
	direct = iota
	copied
	proxied
	ways
)

// options are the options of a run.
type options struct {
	links  []string // rates as tc reads them; the empty one is loopback
	copy   string   // the command of a program in the place of the plain copy
	size   int64    // bytes of a round
	rounds int
	trips  int // of a byte there and back
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	part := flags.String("part", "", "be this `part` until standard input ends (used by proxy itself)")
	alone := flags.Bool("alone", false, "in a separate network namespace (used by proxy itself)")
	listen := flags.String("listen", "127.0.0.1:0", "the `address` of a part (used by proxy itself)")
	to := flags.String("to", "", "the `address` of the server (used by proxy itself)")
	links := flags.String("links", "", "measure over links of these `rates` as well")
	o := options{links: []string{""}}
	flags.StringVar(&o.copy, "copy", "", "a shell's `command` for a program that takes the place of the plain copy: it listens on $HOST:$PORT, and carries TCP connections on to $TO")
	flags.Int64Var(&o.size, "size", 64<<20, "how many `bytes` make a round")
	flags.IntVar(&o.rounds, "rounds", 21, "how many rounds there are by each way")
	flags.IntVar(&o.trips, "trips", 5000, "how often a byte goes there and back by each way")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if *links != "" {
		o.links = append(o.links, strings.Split(*links, ",")...)
	}
	var err error
	switch {
	case *alone:
		err = goAlone(args)
	case *part != "":
		err = play(ctx, *part, *listen, *to, o.copy, stdin, stdout)
	default:
		err = measureAll(ctx, o, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "proxy:", err)
		return 1
	}
	return 0
}

func measureAll(ctx context.Context, o options, stdout io.Writer) error {
	m := harness.ThisMachine()
	fmt.Fprintf(stdout, "%s, %d cores, %s · %s · load before %s\n%d rounds of %d MiB, and %d bytes there and back, by each way in turn\n",
		m.CPU, m.Cores, m.OS, m.Go, m.Load, o.rounds, o.size>>20, o.trips)
	if o.copy != "" {
		fmt.Fprintf(stdout, "in the place of the plain copy: %s\n", o.copy)
	}
	fmt.Fprintln(stdout)
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "link\tfigure\tdirect\tplain copy\tproxy\ttarget\t")
	for _, link := range o.links {
		f, err := measure(ctx, o, link)
		if err != nil {
			return err
		}
		f.print(t)
	}
	return t.Flush()
}

// figures are what one link has shown.
type figures struct {
	link    string
	rate    [ways]float64 // medians, in bytes a second
	latency [ways]harness.Samples
	// used is the processor time for a gigabyte: for direct the time of the two
	// ends, for the others the time of the process between.
	used [ways]time.Duration
}

func (f *figures) print(w io.Writer) {
	name := f.link
	if name == "" {
		name = "loopback"
	}
	share := func(way int) float64 { return 100 * f.rate[way] / f.rate[direct] }
	fmt.Fprintf(w, "%s\tthroughput\t%.0f MB/s\t%.0f %%\t%.0f %%\t≥ 80 %%\t%s\n",
		name, f.rate[direct]/1e6, share(copied), share(proxied), word(share(proxied) >= 80))
	fmt.Fprintf(w, "%s\tprocessors for a gigabyte, of the ends and of each between\t%v\t%v\t%v\t\t\n", name,
		f.used[direct].Round(time.Millisecond), f.used[copied].Round(time.Millisecond), f.used[proxied].Round(time.Millisecond))
	fmt.Fprintf(w, "%s\tthroughput at which all processors are busy\t%.0f MB/s\t%.0f %%\t%.0f %%\t\t\n", name,
		f.bound(direct)/1e6, 100*f.bound(copied)/f.rate[direct], 100*f.bound(proxied)/f.rate[direct])
	row := func(what string, p, target float64) {
		at := func(way int) time.Duration { return f.latency[way].Percentile(p).Round(100 * time.Nanosecond) }
		added := at(proxied) - at(direct)
		fmt.Fprintf(w, "%s\ta byte there and back, %s\t%v\t%+.1f µs\t%+.1f µs\t", name, what, at(direct),
			float64((at(copied)-at(direct)).Nanoseconds())/1e3, float64(added.Nanoseconds())/1e3)
		if target > 0 {
			fmt.Fprintf(w, "≤ +%.0f µs\t%s", target, word(added <= 100*time.Microsecond))
		}
		fmt.Fprintln(w)
	}
	row("p50", 50, 100)
	row("p99", 99, 0)
}

// bound is how many bytes a second a way could carry if no processor ever
// waited and the ends took no more than they do without anybody between.
func (f *figures) bound(way int) float64 {
	total := f.used[direct]
	if way != direct {
		total += f.used[way]
	}
	return float64(runtime.NumCPU()) / total.Seconds() * 1e9
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISS"
}
