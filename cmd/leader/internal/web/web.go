// Package web serves HTTP for a command, until it is interrupted.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// bodyTimeout is how long a body may take, and what of it no handler has
	// read.
	bodyTimeout = 5 * time.Second
	// farewell is how long requests under way have at the end. Streams end with
	// their context.
	farewell = 2 * time.Second
)

// A Server serves one handler on one address.
type Server struct {
	ln  *crowd
	srv *http.Server
}

// Listen begins to listen on the address that a flag names. The contexts of
// requests descend from ctx.
func Listen(ctx context.Context, flag, address string, h http.Handler) (*Server, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, address, err)
	}
	return On(ctx, ln, h), nil
}

// On returns a server on a listener, which is then the server's to close. The
// contexts of requests descend from ctx.
func On(ctx context.Context, ln net.Listener, h http.Handler) *Server {
	places := newCrowd(ln)
	return &Server{ln: places, srv: &http.Server{
		Handler: prompt(h), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 16 << 10, ConnState: places.changed,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}}
}

// Limit sets how many connections there are at a time, 1024 without it. At the
// limit, a new one replaces one that is idle, before its first request or after
// one. If none is idle, the new one is closed, and full is called. Limit comes
// before Serve.
func (s *Server) Limit(most int, full func()) { s.ln.most, s.ln.full = most, full }

// prompt bounds how long a body takes. net/http reads what is left of a body
// before it sends an answer, and after the handler, however slowly that comes.
// A refused client could hold a connection that way forever. A handler that
// works on after it has read a body takes the deadline back, for it would end
// the request's context.
func prompt(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			within := func() {
				// It fails only on a connection that was taken over.
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
			}
			within()
			defer within()
		}
		h.ServeHTTP(w, r)
	})
}

// URL is where the server is reached from this machine.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.ln.Addr().String())
	if err != nil {
		return "http://" + s.ln.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Serve serves until ctx is done, and then as long as the requests that are
// under way take, up to a while.
func (s *Server) Serve(ctx context.Context) error {
	gone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(gone)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if s.srv.Shutdown(ctx) != nil {
			_ = s.srv.Close() // remaining connections are cut off
		}
	})
	err := s.srv.Serve(s.ln)
	if !stop() {
		<-gone // http.Server.Serve returns as soon as Shutdown begins
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends a server that does not serve.
func (s *Server) Close() { _ = s.ln.Close() }

// CheckAddress returns what is wrong with the address of a listener.
func CheckAddress(flag, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("%s %q: must be HOST:PORT, such as 127.0.0.1:9464, or :9464 for every address of the machine", flag, address)
	}
	return nil
}

// Loopback reports whether an address, of a listener or of a request's Host
// header, is this machine's own alone.
func Loopback(address string) bool {
	host := hostOf(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
