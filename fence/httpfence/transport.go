package httpfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-ff2cb582/leader"
)

// ErrRedirected is the error for a request that was redirected to another host,
// which must not learn the token.
var ErrRedirected = errors.New("httpfence: redirected to another host")

// A Transport is an http.RoundTripper that sends the term of each request's
// context, which is the context of OnPromote or of Run's function, or a
// descendant:
//
//	client := &http.Client{Transport: &httpfence.Transport{Group: "reports"}}
//	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
//
// A request without a term is refused with ErrNoTerm, and one whose term is
// over with the cause of its context's end (leader.ErrNotLeader); neither is
// sent. The token goes to the host of the first request, and not where that
// redirects to. A Transport may be used concurrently.
type Transport struct {
	// Group is the group that the terms belong to. Required.
	Group string
	// Base sends the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	term, err := termOf(r)
	if err != nil {
		// A RoundTripper closes the body, whatever happens.
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	stamped := r.Clone(r.Context())
	Stamp(stamped.Header, t.Group, term)
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(stamped)
	if err != nil {
		return nil, err
	}
	resp.Request = answered(r, resp)
	return resp, nil
}

// answered sets the request that was answered, which a client needs to follow a
// redirect, whatever Base has made of it. Values that Base put into its context
// stay.
func answered(r *http.Request, resp *http.Response) *http.Request {
	if resp.Request == nil {
		return r
	}
	return r.WithContext(resp.Request.Context())
}

func termOf(r *http.Request) (leader.Term, error) {
	term, ok := leader.TermFromContext(r.Context())
	switch {
	case !ok || term.IsZero():
		return term, fmt.Errorf("%w in the context of the request to %s", ErrNoTerm, r.URL.Host)
	case r.Context().Err() != nil:
		return term, context.Cause(r.Context())
	case r.Response != nil && !sameHost(r):
		return term, fmt.Errorf("%w: %s", ErrRedirected, r.URL.Host)
	}
	return term, nil
}

// sameHost reports whether a redirected request stays where the first one of
// its chain went. If a caller's transport has broken the chain, that is
// unknown, and counts as another host.
func sameHost(r *http.Request) bool {
	first := r
	for first.Response != nil {
		if first = first.Response.Request; first == nil {
			return false
		}
	}
	return first.URL.Host == r.URL.Host && first.URL.Scheme == r.URL.Scheme
}
