//go:build !unix

package guard

import "errors"

// A Command is the command line of the process that starts the program and ends
// it in time.
type Command struct{}

// ErrUnsupported explains why leader run is refused.
var ErrUnsupported = errors.New("leader run is not for this system: it needs signals and process groups, without which it could not " +
	"promise that nothing is left of a program before another host begins (leader run --help)")

// Run fails.
func (Command) Run() error { return ErrUnsupported }
