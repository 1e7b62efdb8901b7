package k8sstore

import (
	"context"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/seed-ff2cb582/leader/store"
)

// Swap implements [base.System] by one POST or PUT, which is sent at most once.
func (s source) Swap(ctx context.Context, w store.Write) (uint64, error) {
	previous, err := s.replaced(ctx, w)
	if err != nil {
		return 0, err
	}
	body := put(s.names.lease(w.Key), s.names, w, previous, time.Now())
	l, failure := s.send(ctx, body, previous == nil)
	if failure == nil {
		seen, err := s.known.see(w.Key, l, false)
		if err != nil {
			return 0, fmt.Errorf("%w: key %q: %w", store.ErrUnknown, w.Key, err)
		}
		return seen.rev, nil
	}
	err = s.writeError(ctx, w, failure)
	if store.Classify(err) == store.Conflict {
		return s.refused(ctx, w, body, err)
	}
	return 0, err
}

// replaced is the Lease that w is to replace, or nil if it is to be made. Where
// the store has not seen the expected revision, it reads it.
func (s source) replaced(ctx context.Context, w store.Write) (*lease, error) {
	if w.Expected == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	if l := s.known.last(w.Key); l != nil && l.rev == w.Expected {
		return l, nil
	}
	l, err := s.get(ctx, w.Key)
	if err != nil {
		return nil, s.readError(ctx, fmt.Sprintf("key %q: nothing was written", w.Key), err)
	}
	if l == nil || l.rev != w.Expected {
		return nil, conflict(w, l)
	}
	return l, nil
}

func conflict(w store.Write, found *lease) error {
	var rev uint64
	if found != nil {
		rev = found.rev
	}
	return fmt.Errorf("%w: key %q: expected revision %d, found %d", store.ErrConflict, w.Key, w.Expected, rev)
}

// send sends a write. A PUT identifies the object by its uid: with a
// resourceVersion alone it would recreate a deleted Lease.
func (s source) send(ctx context.Context, body *coordinationv1.Lease, create bool) (*coordinationv1.Lease, *sendError) {
	request := s.request(http.MethodPost)
	if !create {
		request = s.request(http.MethodPut).Name(body.Name)
	}
	if ctx.Err() != nil {
		return nil, &sendError{unsent: true, err: context.Cause(ctx)}
	}
	var a attempt
	l := new(coordinationv1.Lease)
	result := request.Body(body).Do(a.watch(quiet(ctx)))
	if err := result.Error(); err != nil {
		return nil, &sendError{unsent: a.unsent(), err: err}
	}
	if err := result.Into(l); err != nil {
		return nil, &sendError{err: err}
	}
	return l, nil
}

// refused looks whether a conflict is one with ourselves. Something on the way
// that sends a request again, such as a gateway or a service mesh, gets a
// second answer that is a conflict with the first.
func (s source) refused(ctx context.Context, w store.Write, body *coordinationv1.Lease, refusal error) (uint64, error) {
	l, err := s.get(ctx, w.Key)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: key %q: whether the refusal is of a repetition could not be read (%w): %v", store.ErrUnknown, w.Key, err, refusal) //nolint:errorlint // it is certainly not a conflict
	case l != nil && l.Annotations[writtenAnnotation] == body.Annotations[writtenAnnotation]:
		return l.rev, nil
	case l != nil && l.rev == w.Expected, l == nil && w.Expected == 0:
		// The Lease is as expected: the write was refused for another reason,
		// such as a deletion that waits for finalizers, or a state that has
		// passed.
		return 0, fmt.Errorf("%w: key %q: %v", store.ErrTransient, w.Key, refusal) //nolint:errorlint // not a conflict for the caller
	}
	return 0, refusal
}
