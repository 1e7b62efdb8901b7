// Command install gets the servers that the labs need and the machine lacks. It
// exits with status 1 if one cannot be had.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/seed-ff2cb582/leader/test/labs/servers"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("install", flag.ContinueOnError)
	flags.SetOutput(stderr)
	look := flags.Bool("look", false, "report which servers are here and get none; status 1 if one is absent")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: install [-look] [name...]\n\nGets the named servers that are absent; without names, all of these:")
		_ = servers.Table(stderr) // prose for people
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *look {
		err = servers.Look(stderr, flags.Args()...)
	} else {
		err = servers.Get(ctx, stderr, flags.Args()...)
	}
	if err != nil {
		fmt.Fprintln(stderr, "servers:", err)
		return 1
	}
	return 0
}
