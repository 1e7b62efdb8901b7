// Command install builds the FerretDB that the tests of the store for MongoDB
// need into the user's cache.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/seed-ff2cb582/leader/test/stores/ferretlab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := ferretlab.Install(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ferretlab:", err)
		os.Exit(1)
	}
}
