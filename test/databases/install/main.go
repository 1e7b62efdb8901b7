// Command install puts the database servers that the tests need, and the machine lacks, into the user's cache.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"

	"github.com/seed-ff2cb582/leader/test/databases"
)

func main() { os.Exit(run(os.Stderr)) }

// run returns 0 also where the servers cannot be had, unless CI=true: their tests say that they were skipped.
func run(w io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := databases.Install(ctx, w); err != nil {
		fmt.Fprintln(w, "databases:", err)
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci { // what is no boolean is not true
			return 1
		}
		fmt.Fprintln(w, "databases: the tests that need it will be skipped")
	}
	return 0
}
