package k8sstore

import (
	"context"
	"net/http/httptrace"
	"sync"
)

// An attempt watches one request on its way out. What the HTTP client had no
// connection for has never left: it says that it looks for one, and then that
// it has one, before anything is written (net/http/httptrace). Of a client that
// says nothing, nothing is known.
type attempt struct {
	mu          sync.Mutex
	looked, got bool
}

func (a *attempt) watch(ctx context.Context) context.Context {
	note := func(what *bool) {
		a.mu.Lock()
		*what = true
		a.mu.Unlock()
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { note(&a.looked) },
		GotConn: func(httptrace.GotConnInfo) { note(&a.got) },
	})
}

// unsent reports whether the request has never left, for certain.
func (a *attempt) unsent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.looked && !a.got
}

// A sendError tells how a write failed.
type sendError struct {
	unsent bool // it never left
	err    error
}
