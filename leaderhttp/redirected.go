package leaderhttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// ErrRedirected is the error for a request that the leader's answer redirects to
// another host, or from https to http. The request is not for the leader, and
// its credentials are not for that host. ErrRedirected is also the error for a
// redirect by a follower (probe.Redirect) of another group, or of a version that
// does not name its group. A handler of the leader may have run, and passed that
// redirect on.
var ErrRedirected = errors.New("leaderhttp: redirected away from the group")

type askedKey struct{}

// asked is in the context of each request that is sent.
type asked struct {
	name   string   // of the group, for the caller
	by     *url.URL // of the caller's request
	leader string   // the host that was asked
}

// nameOf returns the caller's name of the group: the host in the URL of the
// first request, also for a request that follows redirects. They may name that
// host, or the leader's.
func nameOf(r *http.Request) (string, error) {
	if r.Response == nil {
		return r.URL.Host, nil
	}
	if r.Response.Request == nil { // a transport above this one has removed it
		return "", fmt.Errorf("%w, as far as is known: the response does not contain the origin of the redirect to %s", ErrRedirected, r.URL.Host)
	}
	before, ok := r.Response.Request.Context().Value(askedKey{}).(asked)
	if !ok { // another server redirects to the group
		return r.URL.Host, nil
	}
	within := r.URL.Host == before.name || r.URL.Host == before.by.Host || r.URL.Host == before.leader
	if !within || inTheClear(&http.Request{URL: before.by}, r.URL) {
		return "", fmt.Errorf("%w: to %s://%s", ErrRedirected, r.URL.Scheme, r.URL.Host)
	}
	return before.name, nil
}

// answered returns an answer with the request that was answered, from which
// nameOf reads, even if the transport below does not set it.
func (a *attempt) answered(resp *http.Response) *http.Response {
	if resp == nil {
		return nil
	}
	if resp.Request == nil || resp.Request.Context().Value(askedKey{}) == nil {
		resp.Request = a.out
	}
	return resp
}
