// Command install builds the FerretDB that the tests of the store for MongoDB
// need into the user's cache.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/seed-ff2cb582/leader/test/stores/ferretlab"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ferretlab:", err)
		os.Exit(1)
	}
}

func run() error {
	look := flag.Bool("look", false, "report whether it is there, and build nothing")
	flag.Parse()
	if *look {
		return ferretlab.Look(os.Stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return ferretlab.Install(ctx, os.Stderr)
}
