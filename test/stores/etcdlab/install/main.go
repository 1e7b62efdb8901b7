// Command install builds the etcd that the tests need into the user's cache.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"

	"github.com/seed-ff2cb582/leader/test/stores/etcdlab"
)

func main() { os.Exit(run(os.Stderr)) }

// run returns 0 even where etcd cannot be had, unless CI=true: its tests say
// that they were skipped.
func run(w io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := etcdlab.Install(ctx, w); err != nil {
		fmt.Fprintln(w, "etcdlab:", err)
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci { // what is no boolean is not true
			return 1
		}
		fmt.Fprintln(w, "etcdlab: the tests that need it will be skipped")
	}
	return 0
}
