package k8sstore

import (
	"context"
	"net/http/httptrace"
	"sync"
)

// An attempt watches one request on its way out. A request without a connection
// has never left: the HTTP client reports that it looks for a connection, and
// then that it has one, before anything is written (net/http/httptrace). If a
// client reports nothing, it is unknown whether the request left.
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

// A sendError describes how a write failed.
type sendError struct {
	unsent bool // it never left
	err    error
}
