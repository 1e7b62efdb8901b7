package mongostore

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// Codes by which MongoDB permanently refuses a command before it executes it
// (src/mongo/base/error_codes.yml; the last two are for expressions that a
// server does not know). Every other error of a write is taken for an unknown
// outcome: none of them was seen here.
const (
	duplicateKey      = 11000
	badValue          = 2
	failedToParse     = 9
	unauthorized      = 13
	authentication    = 18
	commandNotFound   = 59
	invalidPipeline   = 168
	undefinedVariable = 17276
	unknownExpression = 31325
)

// unsent reports whether a command never left: the client found no server, or
// no connection.
func unsent(err error) bool {
	if _, is := errors.AsType[topology.ServerSelectionError](err); is {
		return true
	}
	if _, is := errors.AsType[topology.WaitQueueTimeoutError](err); is {
		return true
	}
	return errors.Is(err, mongo.ErrClientDisconnected)
}

// refused reports whether the server refused the command permanently.
func refused(err error) bool {
	answer, ok := errors.AsType[mongo.CommandError](err)
	if !ok {
		return false
	}
	switch answer.Code {
	case badValue, failedToParse, unauthorized, authentication, commandNotFound, invalidPipeline, undefinedVariable, unknownExpression:
		return true
	default:
		return false
	}
}

// writeError classifies a failed write.
func writeError(ctx context.Context, w store.Write, err error) error {
	answer, _ := errors.AsType[mongo.CommandError](err)
	var c error
	switch {
	case errors.Is(err, mongo.ErrClientDisconnected):
		c = store.ErrClosed
	case unsent(err):
		c = store.ErrTransient
	case answer.Code == duplicateKey && w.Expected == 0:
		c = store.ErrConflict
	case refused(err):
		c = store.ErrPermanent
	default:
		c = store.ErrUnknown
	}
	return fmt.Errorf("%w: key %q: %w", c, w.Key, base.Because(ctx, err))
}

// readError classifies a failed call that changes nothing.
func readError(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	c := store.ErrTransient
	switch {
	case errors.Is(err, mongo.ErrClientDisconnected):
		c = store.ErrClosed
	case refused(err):
		c = store.ErrPermanent
	}
	return fmt.Errorf("%w: %s: %w", c, what, base.Because(ctx, err))
}
