package k8sstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// answered is the API server's own answer, if err is one: something on the way,
// such as a load balancer, answers with its own pages.
func answered(err error) (metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return metav1.Status{}, false
	}
	return status.Status(), true
}

// absent reports whether the answer means that there is no such Lease, and not
// that something else does not exist.
func absent(err error) bool {
	status, ok := answered(err)
	return ok && status.Reason == metav1.StatusReasonNotFound && status.Details != nil && status.Details.Kind == "leases"
}

// class is the class of an answer by which the API server refuses a request for
// certain, before it does anything. It is nil for every other error, also for a
// timeout and an internal error, which leave open what etcd has done.
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
func (c *client) writeError(ctx context.Context, w store.Write, failure *sendError) error {
	err := base.Because(ctx, failure.err)
	if failure.unsent {
		return fmt.Errorf("%w: key %q: not sent: %w", store.ErrTransient, w.Key, err)
	}
	kind := class(failure.err)
	if kind == nil {
		kind = store.ErrUnknown
	}
	return fmt.Errorf("%w: key %q: %w%s", kind, w.Key, err, c.advice(failure.err, w.Key))
}

// readError classifies a failed call that changes nothing.
func (c *client) readError(ctx context.Context, what string, err error) error {
	if store.Classify(err) == store.Permanent {
		return fmt.Errorf("%s: %w", what, err)
	}
	kind := class(err)
	if kind == nil || ctx.Err() != nil || errors.Is(kind, store.ErrConflict) {
		kind = store.ErrTransient
	}
	return fmt.Errorf("%w: %s: %w%s", kind, what, base.Because(ctx, err), c.advice(err, ""))
}

// advice returns the remedy for a refusal.
func (c *client) advice(err error, key string) string {
	status, ok := answered(err)
	switch {
	case !ok:
		return ""
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return fmt.Sprintf(": the namespace %q is being deleted", c.opts.Namespace)
	case status.Code == http.StatusForbidden:
		name := ""
		if key != "" {
			name = fmt.Sprintf(" (this one is %q)", c.names.lease(key))
		}
		return fmt.Sprintf(": a Role in the namespace %q has to allow get, create, update and watch of leases in coordination.k8s.io%s",
			c.opts.Namespace, name)
	case status.Code == http.StatusNotFound && status.Details != nil && status.Details.Kind == "namespaces":
		return fmt.Sprintf(": make it: kubectl create namespace %s", c.opts.Namespace)
	default:
		return ""
	}
}
