package main

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/charmbracelet/x/term"
)

// An outlet is an output whose reader may leave. A reader that leaves has seen
// enough, as head has after its lines. That is no failure: what a command found
// out keeps its exit status. The reader's leaving ends the program as a signal
// does, since the demo has workers and files to clear away.
type outlet struct {
	io.Writer
	left func()
}

// watched returns the output such that left is called when its reader leaves.
// free ends the watch.
//
// SIGPIPE cannot tell that: once it is asked for, a write to any connection
// that its server has closed raises it too (see os/signal). It is asked for all
// the same, and not looked at, since a write to a closed output would end the
// program otherwise.
//
// A terminal stays as it is: commands know it by its type, and one that is gone
// is told by SIGHUP.
func watched(stdout io.Writer, left func()) (_ io.Writer, free func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	free = func() { signal.Stop(ignored) }
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(f.Fd()) {
		return stdout, free
	}
	return outlet{stdout, left}, free
}

// Write discards what nobody reads any more.
func (o outlet) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		o.left()
		return len(b), nil
	}
	return n, err
}
