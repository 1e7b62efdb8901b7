package etcdstore

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// class is the class of an answer by which etcd refuses a transaction before it
// is proposed, or when it is its turn, and for certain (server/etcdserver:
// v3_server.go, processInternalRaftRequestOnce; api/v3rpc/interceptor.go;
// apply/auth.go, apply/corrupt.go). It is nil for every other error, also for
// ErrNoSpace: see outOfSpace.
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
func (c *client) writeError(ctx context.Context, w store.Write, failure *sendError) error {
	err := base.Because(ctx, failure.err)
	switch kind := class(failure.err); {
	case !failure.sent && c.closed():
		return fmt.Errorf("%w: key %q: %w", store.ErrClosed, w.Key, err)
	case !failure.sent:
		return fmt.Errorf("%w: key %q: not sent: %w", store.ErrTransient, w.Key, err)
	case failure.refused && kind != nil:
		return fmt.Errorf("%w: key %q: %w%s", kind, w.Key, err, c.advice(failure.err, w.Key))
	case failure.refused: // and what followed failed, such as a new login
		return fmt.Errorf("%w: key %q: %w", store.ErrTransient, w.Key, err)
	case errors.Is(rpctypes.Error(failure.err), rpctypes.ErrNoSpace):
		return c.outOfSpace(ctx, w, err)
	default:
		return fmt.Errorf("%w: key %q: %w", store.ErrUnknown, w.Key, err)
	}
}

// outOfSpace returns the outcome of a write that etcd answered with "database
// space exceeded". A full server gives this answer before it proposes a
// transaction, and also for a transaction that it applied but found full while
// doing so (server/etcdserver/apply/quota.go). Both are final, so that the
// register decides: if it is as the write expected, the write was permanently
// refused.
func (c *client) outOfSpace(ctx context.Context, w store.Write, err error) error {
	e, failure := c.get(ctx, w.Key)
	if failure != nil || e.Revision != w.Expected {
		return fmt.Errorf("%w: key %q: %w", store.ErrUnknown, w.Key, err)
	}
	return fmt.Errorf("%w: key %q: %w: compact and defragment etcd or raise its --quota-backend-bytes, then disarm the alarm (etcdctl alarm disarm)",
		store.ErrPermanent, w.Key, err)
}

// readError classifies a failed call that changes nothing.
func (c *client) readError(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	kind := class(err)
	switch {
	case c.closed():
		kind = store.ErrClosed
	case errors.Is(err, errSilent):
		kind = store.ErrTransient
	case ctx.Err() != nil:
		kind = store.ErrTransient
	case status.Code(err) == codes.Unimplemented, status.Code(err) == codes.InvalidArgument:
		kind = store.ErrPermanent
	case kind == nil:
		kind = store.ErrTransient
	}
	return fmt.Errorf("%w: %s: %w", kind, what, base.Because(ctx, err))
}

// advice returns the remedy for a refusal.
func (c *client) advice(err error, key string) string {
	if !errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
		return ""
	}
	from, to := c.names.span(key)
	return fmt.Sprintf(": grant a role of the user readwrite on the keys from %q to %q", from, to)
}
