// Command install builds the servers of objects that the tests need into the
// user's cache. With the flag -look it builds nothing, and fails if one is not
// there.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/seed-ff2cb582/leader/test/stores/objectlab"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "objectlab:", err)
		os.Exit(1)
	}
}

func run() error {
	look := flag.Bool("look", false, "report whether they are there, and build nothing")
	flag.Parse()
	if *look {
		return objectlab.Look(os.Stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return objectlab.Install(ctx, os.Stderr)
}
