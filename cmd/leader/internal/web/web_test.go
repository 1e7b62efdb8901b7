package web_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

// A pipe is a listener whose connections are in memory, in virtual time.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (*pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A client must not hold a connection, and what answers it, by a body that
// never comes.
func TestABodyThatNobodyReadsHoldsNoConnection(t *testing.T) {
	for name, refuse := range map[string]http.HandlerFunc{
		"at the end":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"before a stream":  func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
		"in a long answer": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<10)) },
	} {
		t.Run(name, func(t *testing.T) { holdsNone(t, refuse) })
	}
}

func holdsNone(t *testing.T, refuse http.Handler) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ln := &pipe{make(chan net.Conn), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- web.On(ctx, ln, refuse).Serve(ctx) }()
		ours, theirs := net.Pipe()
		ln.conns <- theirs
		go func() { _, _ = ours.Write([]byte("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")) }()
		_ = ours.SetReadDeadline(time.Now().Add(time.Hour))
		begun := time.Now()
		in := bufio.NewReader(ours)
		for {
			if _, err := in.ReadByte(); err != nil {
				if nerr := net.Error(nil); errors.As(err, &nerr) && nerr.Timeout() {
					t.Errorf("the connection is held for %v", time.Since(begun))
				}
				break
			}
		}
		_ = ours.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A program ends when Serve returns, and with it what is still being answered.
func TestServeWaitsForTheRequestsThatAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ln := &pipe{make(chan net.Conn), make(chan struct{})}
		served, answer := make(chan error, 1), make(chan struct{})
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			cancel()
			<-answer
			w.WriteHeader(http.StatusTeapot)
		})
		go func() { served <- web.On(ctx, ln, h).Serve(ctx) }()
		ours, theirs := net.Pipe()
		ln.conns <- theirs
		go func() { _, _ = ours.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")) }()
		synctest.Wait()
		select {
		case err := <-served:
			t.Fatalf("Serve has returned %v while a request is under way", err)
		default:
		}
		close(answer)
		resp, err := http.ReadResponse(bufio.NewReader(ours), nil)
		if err != nil || resp.StatusCode != http.StatusTeapot {
			t.Errorf("%v, %v", resp, err)
		} else {
			_ = resp.Body.Close()
		}
		_ = ours.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
