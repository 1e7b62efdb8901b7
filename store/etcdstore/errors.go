package etcdstore

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/store"
)

// class is the class of an answer by which etcd refuses a transaction before it
// is proposed, or when it is its turn, and for certain (server/etcdserver:
// v3_server.go, processInternalRaftRequestOnce; api/v3rpc/interceptor.go;
// apply/auth.go, apply/corrupt.go). It is nil for every other error. ErrNoSpace
// is no such answer: see [Store.outOfSpace].
func class(err error) error {
	answer := rpctypes.Error(err)
	is := func(known ...error) bool {
		for _, k := range known {
			if errors.Is(answer, k) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return nil
	case is(rpctypes.ErrRequestTooLarge):
		return store.ErrInvalid
	case is(rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrAuthFailed,
		rpctypes.ErrTooManyOps, rpctypes.ErrCorrupt):
		return store.ErrPermanent
	case is(rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrNoLeader, rpctypes.ErrTooManyRequests,
		rpctypes.ErrNotCapable, rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)):
		return store.ErrTransient
	default:
		return nil
	}
}

// refused reports whether etcd refused the transaction for certain.
func refused(err error) bool { return class(err) != nil }

// writeError classifies a failed write.
func (s *Store) writeError(ctx context.Context, w store.Write, failure *sendError) error {
	err := explained(ctx, failure.err)
	switch c := class(failure.err); {
	case !failure.sent && s.open() != nil:
		return fmt.Errorf("%w: key %q: %w", store.ErrClosed, w.Key, err)
	case !failure.sent:
		return fmt.Errorf("%w: key %q: not sent: %w", store.ErrTransient, w.Key, err)
	case failure.refused && c != nil:
		return fmt.Errorf("%w: key %q: %w%s", c, w.Key, err, s.advice(failure.err, w.Key))
	case failure.refused: // and what followed failed, such as a new login
		return fmt.Errorf("%w: key %q: %w", store.ErrTransient, w.Key, err)
	case errors.Is(rpctypes.Error(failure.err), rpctypes.ErrNoSpace):
		return s.outOfSpace(ctx, w, err)
	default:
		return fmt.Errorf("%w: key %q: %w", store.ErrUnknown, w.Key, err)
	}
}

// outOfSpace tells what became of a write that etcd answered with "database
// space exceeded". A server that is full says so before it proposes a
// transaction, and says so as well of one that it found full when that was
// applied, which it was (server/etcdserver/apply/quota.go). Both are final, so
// that the register tells: where it stands as the write expected, the write was
// refused for good.
func (s *Store) outOfSpace(ctx context.Context, w store.Write, err error) error {
	e, failure := s.get(ctx, w.Key)
	if failure != nil || e.Revision != w.Expected {
		return fmt.Errorf("%w: key %q: %w", store.ErrUnknown, w.Key, err)
	}
	return fmt.Errorf("%w: key %q: %w: compact and defragment etcd or raise its --quota-backend-bytes, then disarm the alarm (etcdctl alarm disarm)",
		store.ErrPermanent, w.Key, err)
}

// readError classifies a failed call that changes nothing.
func (s *Store) readError(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	c := class(err)
	switch {
	case s.open() != nil:
		c = store.ErrClosed
	case errors.Is(err, errSilent):
		c = store.ErrTransient
	case ctx.Err() != nil:
		c = store.ErrTransient
	case status.Code(err) == codes.Unimplemented, status.Code(err) == codes.InvalidArgument:
		c = store.ErrPermanent
	case c == nil:
		c = store.ErrTransient
	}
	return fmt.Errorf("%w: %s: %w", c, what, explained(ctx, err))
}

// advice says what a person can do about a refusal.
func (s *Store) advice(err error, key string) string {
	if !errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
		return ""
	}
	from, to := s.names.span(key)
	return fmt.Sprintf(": grant a role of the user readwrite on the keys from %q to %q", from, to)
}

// explained adds why the context ended, which gRPC's status does not tell.
func explained(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
