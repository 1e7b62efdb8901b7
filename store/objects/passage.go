package objects

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// A Passage watches one request of an HTTP client on its way out. Its zero
// value is ready.
type Passage struct {
	asked atomic.Bool // for a connection
	given atomic.Bool
}

// Watch returns a context for the request, through which the client reports its
// connections (package httptrace).
func (p *Passage) Watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { p.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { p.given.Store(true) },
	})
}

// Stayed reports whether the request has provably never left, and never will:
// the client, which has returned, asked for a connection and got none. A client
// without such reports is not believed.
func (p *Passage) Stayed() bool { return p.asked.Load() && !p.given.Load() }
