// Tasks sets the tasks of a leader on fire, and measures them.
//
//	go run ./test/reach/tasks           throughput, and redelivery after crashes: half a minute
//	go run ./test/reach/tasks -grpc     the same with workers that are reached over gRPC
//	go run ./test/reach/tasks -fire     10,000 tasks while leaders and workers are killed and frozen; also with -grpc
//
// The server of NATS, each of three candidates and each of three teams of
// workers run in separate processes, over loopback. The judge reads the
// workers' own journals, in which the messages are read beside the workers.
// When a worker has learned of the next leader, it gets the orders of the
// deposed leader once more, in its own process.
//
// A figure that misses its target is marked MISS, which is not an error, since
// the machine may be busy. Under fire, a task that is lost, or accepted from a
// stale term, is an error. So is a fire in which no such order came, or no
// leader or team was killed, or none frozen.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tasks", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	serve := flags.Bool("serve", false, "run servers of NATS until standard input ends (used by tasks itself)")
	candidate := flags.String("candidate", "", "be the candidate of this `name` (used by tasks itself)")
	workers := flags.String("workers", "", "be the workers of these `names` (used by tasks itself)")
	url := flags.String("url", "", "where NATS is, for a candidate and for workers")
	flags.BoolVar(&o.Quiet, "quiet", false, "workers keep no journal (used by tasks itself)")
	flags.DurationVar(&o.TTL, "ttl", time.Second, "the lease of leaders")
	flags.IntVar(&o.Servers, "servers", 1, "how many servers of NATS there are")
	flags.IntVar(&o.Capacity, "capacity", 256, "how many tasks a worker runs at once")
	flags.DurationVar(&o.Takes, "takes", 0, "how long a task takes")
	flags.BoolVar(&o.Verbose, "v", false, "log")
	flags.BoolVar(&o.GRPC, "grpc", false, "workers are reached over gRPC")
	flags.StringVar(&o.Address, "address", "", "where a gRPC server is, for workers (used by tasks itself)")
	flags.IntVar(&o.Finish, "finish", 0, "the number of finished tasks after which a leader reports (used by tasks itself)")
	flags.BoolVar(&o.Throughput, "throughput", false, "measure nothing but how many stored tasks go through in a second")
	fire := flags.Bool("fire", false, "kill and freeze")
	n := flags.Int("n", 10_000, "how many tasks")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	var err error
	switch {
	case *serve:
		err = harness.ServeNATS(harness.NATSOptions{Servers: o.Servers}, stdin, stdout)
	case *candidate != "":
		err = beCandidate(ctx, *candidate, *url, o, stdin, stdout)
	case *workers != "":
		err = beWorkers(ctx, strings.Split(*workers, ","), *url, o, stdin, stdout)
	case *fire:
		_, err = burn(ctx, o, *n, stdout)
	default:
		err = bench(ctx, o, *n, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "tasks:", err)
		return 1
	}
	return 0
}
