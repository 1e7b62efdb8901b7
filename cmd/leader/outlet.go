package main

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/charmbracelet/x/term"
)

// An outlet is an output whose reader may leave. A reader that leaves has seen
// enough, as head has after its lines. That is not a failure: the command's
// result keeps its exit status. The reader's leaving ends the program as a
// signal does, since the demo has workers and files to clear away.
type outlet struct {
	io.Writer
	left func()
}

// watched returns the output such that left is called when its reader leaves.
//
// A terminal stays as it is: commands know it by its type, and SIGHUP reports
// one that is gone.
func watched(stdout io.Writer, left func()) io.Writer {
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(f.Fd()) {
		return stdout
	}
	return outlet{stdout, left}
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
