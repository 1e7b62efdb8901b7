package app

import (
	"context"
	"errors"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/store"
)

// The exit statuses of all commands but run, whose status is its child's.
const (
	ExitOK         = 0
	ExitFailure    = 1
	ExitUsage      = 2
	ExitTwoLeaders = 3 // the demo saw two leaders at one instant
	ExitNotFound   = 4 // no such group, or nobody leads it
	ExitRefused    = 5 // a permission is missing, or the bucket; the message names it
	ExitTimeout    = 6 // the server did not answer, or a request had no effect, in time
)

// Errors that decide the exit status.
var (
	// ErrUsage: the command line is wrong in a way that only the command can
	// see.
	ErrUsage = errors.New("usage")
	// ErrNotFound: there is no such group or leader.
	ErrNotFound = errors.New("not found")
	// ErrTwoLeaders: at some instant two candidates led. It should be
	// impossible.
	ErrTwoLeaders = errors.New("two leaders were seen at one instant")
)

// An ExitError ends the program with the given status, without a message.
type ExitError struct{ Code int }

// Error returns the status as text.
func (e *ExitError) Error() string { return "exit status" }

// ExitCode returns the exit status for an error.
func ExitCode(err error) int {
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrTwoLeaders):
		return ExitTwoLeaders
	case errors.Is(err, leader.ErrInvalidConfig), errors.Is(err, natsconn.ErrContext), errors.Is(err, ErrUsage):
		return ExitUsage
	case errors.Is(err, leader.ErrNoLeader), errors.Is(err, ErrNotFound):
		return ExitNotFound
	case store.Classify(err) == store.Permanent, errors.Is(err, nats.ErrAuthorization):
		return ExitRefused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, os.ErrDeadlineExceeded):
		return ExitTimeout
	default:
		return ExitFailure
	}
}
