// Command install puts the database servers that the tests need, and the
// machine lacks, into the user's cache.
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
	only := flag.String("only", "", "postgresql18 or galera: fetch that, and nothing else")
	look := flag.Bool("look", false, "with -only postgresql18: report whether it is there, and fetch nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := do(ctx, os.Stderr, *only, *look)
	stop()
	os.Exit(code)
}

func do(ctx context.Context, w io.Writer, only string, look bool) int {
	switch {
	case only == "postgresql18" && look:
		return demand(w, databases.LookNewer(w))
	case only == "postgresql18":
		return demand(w, databases.InstallNewer(ctx, w))
	case only == "galera" && !look:
		return demand(w, databases.InstallGalera(ctx, w))
	case only != "" || look:
		return demand(w, fmt.Errorf("-only %s -look=%v: there is no such thing", only, look))
	}
	return run(ctx, w)
}

// demand returns 1 for an error.
func demand(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(w, "databases:", err)
	return 1
}

// run returns 0 even where the servers cannot be had, unless CI=true: their
// tests say that they were skipped.
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
