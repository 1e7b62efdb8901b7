package probe

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// Refuse answers a request as one that no handler has seen: 503 with
// Retry-After. It is for a handler behind [Redirect] that has done nothing, and
// finds that its term is over. Clients of package leaderhttp send the request
// again. w and r are the handler's, or made of them by a middleware. Without
// Redirect the answer is a 503 without a mark. Nothing must have been written to
// w before.
func Refuse(w http.ResponseWriter, r *http.Request) {
	const why = "this instance does not lead"
	g, ok := r.Context().Value(guardedKey{}).(*guarded)
	if !ok {
		unavailable(w, why)
		return
	}
	g.refuses.Store(true)
	g.h.unavailable(w, present(r.Context(), g.h.e).Group, RefusalNoLeader, why)
}

type guardedKey struct{}

// guard calls the handler.
func (h *redirect) guard(w http.ResponseWriter, r *http.Request) {
	g := &guarded{ResponseWriter: w, h: h}
	defer g.begin() // for an answer without a body, or one after a panic
	h.next.ServeHTTP(g, r.WithContext(context.WithValue(r.Context(), guardedKey{}, g)))
}

// guarded is a handler's answer. It carries no refusal, unless the handler has
// called Refuse: the handler has run, and may pass on a refusal that it got from
// another server.
type guarded struct {
	http.ResponseWriter

	h       *redirect
	refuses atomic.Bool // a middleware may answer in a separate goroutine
	begun   bool
}

// begin takes a refusal out of the headers, before they are sent.
func (g *guarded) begin() {
	if !g.begun {
		g.begun = true
		g.strip()
	}
}

// strip reports whether there was a refusal that the handler passes on.
func (g *guarded) strip() (passed bool) {
	if g.refuses.Load() {
		return false
	}
	for name := range g.Header() {
		if strings.EqualFold(name, RefusalHeader) { // a map takes it in any case
			delete(g.Header(), name)
			passed = true
		}
	}
	return passed
}

// WriteHeader implements http.ResponseWriter.
func (g *guarded) WriteHeader(status int) {
	if !g.begun {
		g.begun = status >= http.StatusOK || status == http.StatusSwitchingProtocols // else it is a hint
		if g.strip() && status == http.StatusTemporaryRedirect {
			// The redirect was meant for the handler, which has run. The handler's
			// client would send the request again, here or to a host that it does
			// not know.
			g.Header().Del("Location")
			status = http.StatusServiceUnavailable
		}
	}
	g.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (g *guarded) Write(b []byte) (int, error) {
	g.begin()
	return g.ResponseWriter.Write(b)
}

// ReadFrom implements io.ReaderFrom, so that files are still sent by the
// operating system.
func (g *guarded) ReadFrom(src io.Reader) (int64, error) {
	g.begin()
	return io.Copy(g.ResponseWriter, src)
}

// FlushError is what http.ResponseController calls.
func (g *guarded) FlushError() error {
	g.begin()
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (g *guarded) Flush() { _ = g.FlushError() }

// Hijack implements http.Hijacker, where the server does.
func (g *guarded) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(g.ResponseWriter).Hijack()
}

// Unwrap has http.ResponseController find what else the writer can do.
func (g *guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }
