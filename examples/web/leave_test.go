package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A line brings one connection, in virtual time.
type line struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *line) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *line) Close() error {
	close(l.closed)
	return nil
}

func (*line) Addr() net.Addr { return &net.TCPAddr{} }

// An asker asks by one connection.
type asker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (a asker) count(wantStatus int) (refusal string) {
	a.t.Helper()
	if _, err := io.WriteString(a.conn, "POST /count HTTP/1.1\r\nHost: web\r\nContent-Length: 0\r\n\r\n"); err != nil {
		a.t.Fatal(err)
	}
	resp, err := http.ReadResponse(a.in, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != wantStatus {
		a.t.Errorf("%s: %s, %v; want status %d", resp.Status, text, err, wantStatus)
	}
	return resp.Header.Get(probe.RefusalHeader)
}

func TestACopyThatLeavesAnswersByConnectionsThatAreIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
			Group: group, InstanceID: "a", Address: "web.example:80", TTL: time.Minute, HeartbeatInterval: time.Second, DeleteOnStop: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		s := &service{id: "a", e: e, out: io.Discard}
		e.OnPromote(func(ctx context.Context, _ string) { s.begin(ctx) })
		e.OnDemote(s.end)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		l := &line{make(chan net.Conn), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- serve(ctx, e, &http.Server{Handler: handler(e, s)}, l) }()
		for info := range e.Observe(ctx) {
			if info.ID == "a" {
				break
			}
		}
		synctest.Wait()
		near, far := net.Pipe()
		l.conns <- far
		client := asker{t, near, bufio.NewReader(near)}
		client.count(http.StatusOK)
		leave()
		<-e.Done()
		synctest.Wait() // all is done that is done at once
		if refusal := client.count(http.StatusServiceUnavailable); refusal != probe.RefusalNoLeader {
			t.Errorf("the refusal is %q", refusal)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// Its lease is long, so nobody leads since it has run out.
func TestACopyThatLeavesHandsOverBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		election := func(id string) leader.Election {
			e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
				Group: group, InstanceID: id, Address: id + ".example:80", TTL: time.Minute, HeartbeatInterval: time.Second, DeleteOnStop: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e, next := election("a"), election("b")
		s := &service{id: "a", e: e, out: io.Discard}
		e.OnPromote(func(ctx context.Context, _ string) { s.begin(ctx) })
		e.OnDemote(s.end)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		l := &line{make(chan net.Conn), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- serve(ctx, e, &http.Server{Handler: handler(e, s)}, l) }()
		for info := range e.Observe(ctx) {
			if info.ID == "a" {
				break
			}
		}
		if err := next.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer next.Stop() //nolint:errcheck // a fixture
		synctest.Wait()
		near, far := net.Pipe()
		l.conns <- far
		client := asker{t, near, bufio.NewReader(near)}
		client.count(http.StatusOK)
		leave()
		<-e.Done()
		synctest.Wait() // all is done that is done at once
		select {
		case err := <-served:
			t.Fatalf("it has ended, with %v", err)
		default:
		}
		if !next.IsLeader() {
			t.Error("nobody else leads before it ends")
		}
		client.count(http.StatusTemporaryRedirect)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A copy may be asked before its term has started for the service: the election
// leads a moment earlier.
func TestUncountedRequestMayBeRepeated(t *testing.T) {
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: group, InstanceID: "a", TTL: time.Minute, HeartbeatInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop() //nolint:errcheck // the test is over
	for info := range e.Observe(t.Context()) {
		if info.ID != "" {
			break
		}
	}
	w := httptest.NewRecorder()
	handler(e, &service{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/count", http.NoBody))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get(probe.RefusalHeader) == "" {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
}
