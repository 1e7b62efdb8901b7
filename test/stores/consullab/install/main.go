// Command install builds the Consul that its store's tests need into the user's
// cache.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/seed-ff2cb582/leader/test/stores/consullab"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "consullab:", err)
		os.Exit(1)
	}
}

func run() error {
	look := flag.Bool("look", false, "report whether it is there, and build nothing")
	flag.Parse()
	if *look {
		return consullab.Look(os.Stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return consullab.Install(ctx, os.Stderr)
}
