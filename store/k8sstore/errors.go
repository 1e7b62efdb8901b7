package k8sstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-ff2cb582/leader/store"
)

// answered is the API server's own answer, if err is one: something on the way,
// such as a load balancer, answers with pages of its own.
func answered(err error) (metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return metav1.Status{}, false
	}
	return status.Status(), true
}

// absent reports whether the answer says that there is no such Lease, and not
// that something else does not exist.
func absent(err error) bool {
	status, ok := answered(err)
	return ok && status.Reason == metav1.StatusReasonNotFound && status.Details != nil && status.Details.Kind == "leases"
}

// class is the class of an answer by which the API server refuses a request for
// certain, before it does anything. It is nil for every other error. A timeout
// and an internal error say nothing of what etcd has done, and are none.
func class(err error) error {
	if apierrors.IsTooManyRequests(err) {
		return store.ErrTransient // also as a page: API priority and fairness answers so
	}
	status, ok := answered(err)
	if !ok {
		return nil
	}
	switch status.Code {
	case http.StatusConflict:
		return store.ErrConflict
	case http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return store.ErrInvalid
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return store.ErrPermanent
	default:
		return nil
	}
}

// writeError classifies a failed write.
func (s *Store) writeError(ctx context.Context, w store.Write, failure *sendError) error {
	err := explained(ctx, failure.err)
	if failure.unsent {
		return fmt.Errorf("%w: key %q: not sent: %w", store.ErrTransient, w.Key, err)
	}
	c := class(failure.err)
	if c == nil {
		c = store.ErrUnknown
	}
	return fmt.Errorf("%w: key %q: %w%s", c, w.Key, err, s.advice(failure.err, w.Key))
}

// readError classifies a failed call that changes nothing.
func (s *Store) readError(ctx context.Context, what string, err error) error {
	if store.Classify(err) == store.Permanent {
		return fmt.Errorf("%s: %w", what, err)
	}
	c := class(err)
	switch {
	case s.open() != nil:
		c = store.ErrClosed
	case c == nil, ctx.Err() != nil, errors.Is(c, store.ErrConflict):
		c = store.ErrTransient
	}
	return fmt.Errorf("%w: %s: %w%s", c, what, explained(ctx, err), s.advice(err, ""))
}

// advice says what a person can do about a refusal.
func (s *Store) advice(err error, key string) string {
	status, ok := answered(err)
	switch {
	case !ok:
		return ""
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return fmt.Sprintf(": the namespace %q is being deleted", s.opts.Namespace)
	case status.Code == http.StatusForbidden:
		name := ""
		if key != "" {
			name = fmt.Sprintf(" (this one is %q)", s.names.lease(key))
		}
		return fmt.Sprintf(": a Role in the namespace %q has to allow get, create, update and watch of leases in coordination.k8s.io%s",
			s.opts.Namespace, name)
	case status.Code == http.StatusNotFound && status.Details != nil && status.Details.Kind == "namespaces":
		return fmt.Sprintf(": make it: kubectl create namespace %s", s.opts.Namespace)
	default:
		return ""
	}
}

// explained adds why the context ended, which the client may not tell.
func explained(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
