//go:build !unix

package runner

import (
	"context"
	"errors"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// A GuardCommand is the process that starts the program and ends it in time: see the package documentation.
type GuardCommand struct{}

var errUnsupported = errors.New("leader run is not for this system: it needs signals and process groups, without which it could not " +
	"promise that nothing is left of a program before another host begins (leader run --help)")

// Run fails.
func (GuardCommand) Run() error { return errUnsupported }

func (c Command) run(context.Context, string, app.Streams) error { return errUnsupported }
