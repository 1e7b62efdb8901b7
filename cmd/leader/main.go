// Command leader shows, steers and uses elections, with no code to write:
// leader demo shows a live one on a NATS server that it brings along, leader
// run keeps a program running on one of several machines, and leader ls, leader
// step-down and others are for those who operate elections. docs/reference/commands.md
// describes them all.
//
// Data goes to the standard output, prose to the standard error. leader --help
// lists the exit statuses.
package main

//go:generate go test -count=1 -run ^Test(ReferenceIsCurrent|HelpOfTheProgram)$ -update .

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/stores"
)

func main() { os.Exit(runProcess()) }

// runProcess calls run with all that belongs to the process, and returns its exit
// status.
func runProcess() int {
	ends := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	if len(os.Args) > 1 && os.Args[1] == "run" {
		// SIGHUP is its program's, and ends no host that has none.
		ends = ends[:2]
		if !signal.Ignored(syscall.SIGHUP) {
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
	}
	ctx, stop := app.UntilSignal(context.Background(), ends...)
	defer stop()
	// Unless a program asks for SIGPIPE, a write to its closed standard output
	// ends it. The signal itself proves nothing: a write to a connection that
	// its server has closed raises it, too (see os/signal and outlet).
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	stores.Quiet()
	return run(ctx, os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr)
}
