// Command install puts the Chromium that the tests of leader dash need, and the
// machine lacks, into the user's cache.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"

	"github.com/seed-ff2cb582/leader/test/dash/chromium"
)

func main() { os.Exit(run()) }

// run returns 0 even where it cannot be had, unless CI=true: the tests say that
// they were skipped.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := chromium.Install(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "chromium:", err)
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci { // what is no boolean is not true
			return 1
		}
	}
	return 0
}
