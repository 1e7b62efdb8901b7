// Command install puts the database servers that the tests need, and the machine lacks, into the user's cache.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"

	"github.com/seed-ff2cb582/leader/test/databases"
)

func main() {
	newer := flag.Bool("postgresql18", false, "fetch PostgreSQL 18, and nothing else")
	look := flag.Bool("look", false, "with -postgresql18: tell whether it is there, and fetch nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var code int
	switch {
	case *newer && *look:
		code = demand(os.Stderr, databases.LookNewer(os.Stderr))
	case *newer:
		code = demand(os.Stderr, databases.InstallNewer(ctx, os.Stderr))
	default:
		code = run(ctx, os.Stderr)
	}
	stop()
	os.Exit(code)
}

// demand returns 1 for an error.
func demand(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(w, "databases:", err)
	return 1
}

// run returns 0 also where the servers cannot be had, unless CI=true: their tests say that they were skipped.
func run(ctx context.Context, w io.Writer) int {
	err := databases.Install(ctx, w)
	if err == nil {
		return 0
	}
	fmt.Fprintln(w, "databases:", err)
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci { // what is no boolean is not true
		return 1
	}
	fmt.Fprintln(w, "databases: the tests that need it will be skipped")
	return 0
}
