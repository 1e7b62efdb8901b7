package httpfence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
)

// An Enter lets the work of a term begin. The method of fence.Gate is one, and
// states the contract.
type Enter func(ctx context.Context, t leader.Term) (work context.Context, leave func(), err error)

// Require returns middleware that lets a request through only if it states a
// term of the group that enters the gate:
//
//	gate := fence.NewGate(restored)
//	http.Handle("/reports/", httpfence.Require("reports", gate.Enter)(reports))
//
// The handler's context is the work context of enter: it ends when a newer term
// arrives, which then waits for the handler to return. It carries the term
// (fence.FromContext), and the handler's request has no header with the token.
// The answers to all other requests are in the package documentation; the
// handler sees none of them, of whatever method. Mount it on the routes that
// change something. A handler that finds out only in its own transaction that
// the term is stale answers with [Refuse].
//
// A service whose state is in a database fences there (package sqlfence), in
// the transaction of the request, with the term of the handler's context; enter
// may then be [Unguarded].
func Require(group string, enter Enter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			term, err := statedTerm(r, group)
			if err != nil {
				Refuse(w, err)
				return
			}
			work, leave, err := enter(r.Context(), term)
			if err != nil {
				Refuse(w, err)
				return
			}
			defer leave()
			next.ServeHTTP(w, admitted(work, r, term))
		})
	}
}

// admitted returns a request as its handler sees it. A handler that forwards
// the request must not forward the token.
func admitted(work context.Context, r *http.Request, t leader.Term) *http.Request {
	r = r.WithContext(fence.NewContext(work, t))
	r.Header = r.Header.Clone()
	r.Header.Del(HeaderToken)
	return r
}

// Unguarded is an Enter that lets every term in: the resource behind the
// handler is what refuses.
func Unguarded(ctx context.Context, _ leader.Term) (work context.Context, leave func(), err error) {
	return ctx, func() {}, nil
}

func statedTerm(r *http.Request, group string) (leader.Term, error) {
	stated, term, err := Read(r.Header)
	if err == nil && stated != group {
		err = fmt.Errorf("%w: %s is not the group that is needed here", fence.ErrInvalid, HeaderGroup)
	}
	return term, err
}

// A problem is the body of a refusal (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Term is the number of the newest term, if a newer one was here.
	Term uint64 `json:"term,omitempty"`
}

// Refuse answers a request that err turned away: with 412, 428, 403 or 400 as
// documented for the package, and with 503 for an error of another kind, whose
// text is not shown. Nothing must have been written to w before.
func Refuse(w http.ResponseWriter, err error) {
	p := problemOf(err)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // a client that left needs no answer
}

func problemOf(err error) problem {
	var stale *fence.StaleError
	switch {
	case errors.As(err, &stale):
		return problem{
			Title: "Stale term", Status: http.StatusPreconditionFailed, Term: stale.Last.Term,
			Detail: fmt.Sprintf("Term %d does not supersede term %d, which was here before.", stale.Refused.Term, stale.Last.Term),
		}
	case errors.Is(err, fence.ErrStale):
		return problem{Title: "Stale term", Status: http.StatusPreconditionFailed}
	case errors.Is(err, fence.ErrRefused):
		return problem{Title: "Term refused", Status: http.StatusForbidden}
	case errors.Is(err, ErrNoTerm):
		return problem{
			Title: "A leader's term is required", Status: http.StatusPreconditionRequired,
			Detail: fmt.Sprintf("State it in %s, %s and %s.", HeaderGroup, HeaderTerm, HeaderToken),
		}
	case errors.Is(err, fence.ErrInvalid):
		return problem{Title: "Malformed term", Status: http.StatusBadRequest, Detail: err.Error()}
	default:
		return problem{Title: "The term could not be admitted", Status: http.StatusServiceUnavailable}
	}
}
