package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/demo"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
)

// The exit statuses.
const (
	exitOK         = 0
	exitFailure    = 1
	exitUsage      = 2
	exitTwoLeaders = 3
)

// A cli is the set of commands. Each is a struct of flags with a method Run, which may take
// a context.Context and a demo.Streams.
type cli struct {
	Demo       demo.Command       `cmd:"" help:"Watch a live election, and break it."`
	DemoWorker demo.WorkerCommand `cmd:"" hidden:"" help:"One candidate of the demo, steered through its standard input."`
}

const description = `Leader election over NATS JetStream.

Exit status: 0 success, 1 failure, 2 wrong usage, 3 two leaders seen by the demo.`

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// SIGPIPE too: who reads the output may leave, and the demo has workers and files to clear away.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	helped := false
	parser, err := kong.New(&cli{},
		kong.Name("leader"), kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(demo.Streams{In: stdin, Out: stdout, Err: stderr}),
	)
	if err != nil {
		return complain(stderr, err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	switch {
	case helped:
		return exitOK
	case err != nil:
		complain(stderr, err)
		fmt.Fprintln(stderr, "leader: see leader --help")
		return exitUsage
	}
	return complain(stderr, command.Run())
}

// complain says what went wrong, and returns the exit status for it.
func complain(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "leader:", strings.TrimPrefix(err.Error(), "leader: "))
	switch {
	case errors.Is(err, demo.ErrTwoLeaders):
		return exitTwoLeaders
	case errors.Is(err, leader.ErrInvalidConfig), errors.Is(err, natsconn.ErrContext):
		return exitUsage
	default:
		return exitFailure
	}
}
