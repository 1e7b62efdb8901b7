package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leadertest"
	"github.com/seed-ff2cb582/leader/proxy"
)

// patience bounds what has to come. No test that passes takes so long.
const patience = time.Minute

// A backend runs beside a candidate: it sends its name to each client, and then
// sends back what it gets.
type backend struct {
	name    string
	ln      net.Listener
	clients atomic.Int64
	got     atomic.Int64
	ended   chan error // how each connection ended
}

func newBackend(t *testing.T, name string) *backend {
	t.Helper()
	b := &backend{name: name, ln: listen(t), ended: make(chan error, 100)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := b.ln.Accept()
			if err != nil {
				return
			}
			b.clients.Add(1)
			all.Go(func() { b.ended <- b.serve(c) })
		}
	})
	t.Cleanup(func() { _ = b.ln.Close(); all.Wait() })
	return b
}

func (b *backend) serve(c net.Conn) error {
	defer c.Close() //nolint:errcheck // a fixture
	if _, err := c.Write([]byte(b.name + "\n")); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		b.got.Add(int64(n))
		if err == nil {
			_, err = c.Write(buf[:n])
		}
		switch {
		case errors.Is(err, io.EOF):
			_, err = c.Write([]byte("bye\n"))
			return err
		case err != nil:
			return err
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// A lab is a group, and a proxy to its leader.
type lab struct {
	t      *testing.T
	g      *leadertest.Group
	p      *proxy.Proxy
	ln     net.Listener
	stop   context.CancelFunc
	served chan error
}

func newLab(t *testing.T, ttl time.Duration) *lab {
	t.Helper()
	return &lab{t: t, g: leadertest.NewGroup(t, leader.ElectionConfig{Group: "g", TTL: ttl, AcquireGrace: leader.GraceOff}), served: make(chan error, 1)}
}

// serve starts the proxy.
func (l *lab) serve(opts proxy.Options) {
	l.t.Helper()
	l.serveOn(listen(l.t), opts)
}

func (l *lab) serveOn(ln net.Listener, opts proxy.Options) {
	l.t.Helper()
	p, err := proxy.NewWithStore(l.g.Store("proxy"), "g", opts)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(l.t.Context())
	l.p, l.stop, l.ln = p, stop, ln
	go func() { l.served <- p.Serve(ctx, l.ln) }()
	l.t.Cleanup(func() { stop(); l.end() })
}

// end waits for the end of Serve, after which it leaves no goroutine.
func (l *lab) end() {
	l.t.Helper()
	select {
	case err, ok := <-l.served:
		if ok {
			close(l.served)
			if err != nil {
				l.t.Error(err)
			}
		}
	case <-time.After(patience):
		l.t.Fatal("Serve does not return")
	}
	// A goroutine that has done its last act is still seen for a moment.
	stacks := ""
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(patience / 6); time.Now().Before(end); <-pause.C {
		buf := make([]byte, 1<<20)
		if stacks = string(buf[:runtime.Stack(buf, true)]); !strings.Contains(stacks, "leader/proxy.(") {
			return
		}
	}
	l.t.Errorf("Serve left goroutines behind:\n%s", stacks)
}

// stand starts a candidate, and returns it when it leads or follows.
func (l *lab) stand(id, address string) leader.Election {
	l.t.Helper()
	cfg := l.g.Config(id)
	cfg.Address = address
	e, err := leader.NewElectionWithStore(l.g.Store(id), cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := e.Start(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { l.g.Store(id).Reconnect(); _ = e.Stop() })
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for info := range e.Observe(ctx) {
		if info.ID != "" {
			return e
		}
	}
	l.t.Fatal("nobody leads")
	return nil
}

// A client is a connection through the proxy.
type client struct {
	*net.TCPConn
	t *testing.T
	r *bufio.Reader
}

func (l *lab) dial() *client {
	l.t.Helper()
	c, err := (&net.Dialer{}).DialContext(l.t.Context(), "tcp", l.ln.Addr().String())
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		l.t.Fatalf("a %T", c)
	}
	return &client{tcp, l.t, bufio.NewReader(c)}
}

// says waits for a line.
func (c *client) says(want string) *client {
	c.t.Helper()
	if got, err := c.r.ReadString('\n'); got != want+"\n" {
		c.t.Fatalf("got %q, %v, want %q", got, err, want)
	}
	return c
}

func (c *client) send(line string) *client {
	c.t.Helper()
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// isReset waits for the connection's end, which must not look like an orderly
// one.
func (c *client) isReset() {
	c.t.Helper()
	if n, err := io.Copy(io.Discard, c.r); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("%d bytes, then %v, want a reset", n, err)
	}
}

// refused connects, and waits to be reset.
func (l *lab) refused() {
	l.t.Helper()
	c, err := (&net.Dialer{}).DialContext(l.t.Context(), "tcp", l.ln.Addr().String())
	if err == nil {
		defer c.Close() //nolint:errcheck // a fixture
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err = io.Copy(io.Discard, c)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		l.t.Errorf("%v, want a reset", err)
	}
}

// until waits for the proxy's own report.
func (l *lab) until(what string, ok func(proxy.Stats) bool) {
	l.t.Helper()
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(patience); !ok(l.p.Stats()); <-pause.C {
		if time.Now().After(end) {
			l.t.Fatalf("never: %s; %+v", what, l.p.Stats())
		}
	}
}

func (b *backend) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-b.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("a connection to %s does not end", b.name)
		return nil
	}
}

func TestConnectionsFollowTheLeader(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a, b := newBackend(t, "a"), newBackend(t, "b")
	l.serve(proxy.Options{})
	first := l.stand("a", a.ln.Addr().String())
	l.stand("b", b.ln.Addr().String())
	old := l.dial().says("a").send("x").says("x")
	if err := first.Transfer(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	old.isReset()
	if err := a.end(t); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the former leader's connection ended with %v, want a reset", err)
	}
	l.dial().says("b").send("y").says("y")
	// The proxy counts a connection as closed after its client has seen the
	// end.
	l.until("one connection to b, and one that was cut", func(s proxy.Stats) bool {
		return s.Cut == 1 && s.Carried == 2 && s.Accepted == 2 && s.Open == 1 && s.Leader.ID == "b" && s.Sent == 2 && s.Received == 4
	})
}

// The end that TLS itself announces would read like a whole answer.
func TestCutUnderTLSIsAnError(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	server := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	server.Close()
	l.serveOn(tls.NewListener(listen(t), &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS13}), proxy.Options{})
	e := l.stand("a", a.ln.Addr().String())
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13}}).DialContext(t.Context(), "tcp", l.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // a fixture
	_ = c.SetDeadline(time.Now().Add(patience))
	if got, err := bufio.NewReader(c).ReadString('\n'); got != "a\n" {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v, want a reset", rest, err)
	}
}

func TestTheGraceLetsConnectionsGoOnAndNewOnesGoToTheNewLeader(t *testing.T) {
	const grace = 1500 * time.Millisecond
	l := newLab(t, 20*time.Second)
	a, b := newBackend(t, "a"), newBackend(t, "b")
	l.serve(proxy.Options{Grace: grace})
	first := l.stand("a", a.ln.Addr().String())
	l.stand("b", b.ln.Addr().String())
	old := l.dial().says("a")
	began := time.Now()
	if err := first.Transfer(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	l.until("the proxy knows of the new leader", func(s proxy.Stats) bool { return s.Leader.ID == "b" })
	l.dial().says("b")
	_, err := old.Write([]byte("x\n"))
	written := time.Since(began)
	if written < grace && err != nil {
		t.Errorf("within the grace: %v", err)
	}
	old.isReset()
	if took := time.Since(began); took < grace {
		t.Errorf("cut %v after the change, want %v or more", took, grace)
	}
	// The last write may still be on its way.
	if got := a.got.Load(); got != 2 && written < grace/3 {
		t.Errorf("%d bytes reached the former leader within its grace, want 2", got)
	}
}

func TestALeaderThatFallsSilentIsCutWhenItsLeaseHasRunOut(t *testing.T) {
	const ttl = 3 * time.Second
	l := newLab(t, ttl)
	a := newBackend(t, "a")
	l.serve(proxy.Options{Wait: -1})
	l.stand("a", a.ln.Addr().String())
	l.until("the leader is known", func(s proxy.Stats) bool { return s.Leader.ID == "a" })
	old := l.dial().says("a")
	l.g.Store("a").CutOff() // to others the same as its death
	began := time.Now()
	old.isReset()
	if took := time.Since(began); took < ttl/4 { // the last renewal may have been late
		t.Errorf("cut after %v: the lease was not over", took)
	}
	_ = a.end(t) // by a reset, or at its end
	before := a.clients.Load()
	l.refused()
	if a.clients.Load() != before {
		t.Error("a connection was made to one whose lease has run out")
	}
}

func TestARecordThatIsFoundCountsFromItsNextRenewal(t *testing.T) {
	l := newLab(t, 30*time.Second)
	a := newBackend(t, "a")
	l.stand("a", a.ln.Addr().String())
	l.g.Store("a").CutOff()
	l.serve(proxy.Options{Wait: 300 * time.Millisecond})
	l.refused()
	if a.clients.Load() != 0 {
		t.Error("a connection was made on the word of a record that may be old")
	}
	l.until("one without a leader", func(s proxy.Stats) bool { return s.NoLeader == 1 && s.Leader.ID == "" })
}

func TestARecordThatIsRenewedIsFollowed(t *testing.T) {
	l := newLab(t, 3*time.Second)
	a := newBackend(t, "a")
	l.stand("a", a.ln.Addr().String())
	l.serve(proxy.Options{})
	l.dial().says("a")
}

func TestConnectionsWaitForALeader(t *testing.T) {
	l := newLab(t, 20*time.Second)
	l.serve(proxy.Options{Wait: patience})
	c := l.dial().send("early")
	l.until("a connection waits", func(s proxy.Stats) bool { return s.Waiting == 1 })
	// The leader leads before its server listens.
	ln := listen(t)
	address := ln.Addr().String()
	_ = ln.Close()
	l.stand("a", address)
	l.until("a failed try", func(s proxy.Stats) bool { return s.DialFailures > 0 })
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Skip("another program took the port: ", err)
	}
	b := &backend{name: "a", ln: ln, ended: make(chan error, 1)}
	go func() {
		if conn, err := ln.Accept(); err == nil {
			b.ended <- b.serve(conn)
		}
	}()
	c.says("a").says("early")
	l.until("it waits no more", func(s proxy.Stats) bool { return s.Waiting == 0 && s.Waited > 0 && s.Carried == 1 })
	_ = c.CloseWrite()
	c.says("bye")
	_ = b.end(t)
	_ = ln.Close()
}

func TestWithoutALeaderConnectionsAreResetAfterTheWait(t *testing.T) {
	for name, wait := range map[string]time.Duration{"at once": -1, "in time": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 20*time.Second)
			l.serve(proxy.Options{Wait: wait})
			began := time.Now()
			l.refused()
			if took := time.Since(began); took < wait {
				t.Errorf("reset after %v, want %v or more", took, wait)
			}
			l.until("it is counted", func(s proxy.Stats) bool { return s.NoLeader == 1 && s.Open == 0 })
		})
	}
}

func TestEitherSideMayEndItsHalf(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	l.serve(proxy.Options{})
	l.stand("a", a.ln.Addr().String())
	c := l.dial().says("a")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.says("bye")
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the leader's end arrives as %v", err)
	}
	if err := a.end(t); err != nil {
		t.Error(err)
	}
	l.until("it is over", func(s proxy.Stats) bool { return s.Open == 0 })
}

func TestTheEndOfAnAnswerLetsTheClientGoOn(t *testing.T) {
	l := newLab(t, 20*time.Second)
	ln := listen(t)
	got := make(chan string, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close() //nolint:errcheck // a fixture
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		all, _ := io.ReadAll(c)
		got <- string(all)
	}()
	l.serve(proxy.Options{})
	l.stand("a", ln.Addr().String())
	c := l.dial()
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Fatalf("the leader's end arrives as %v", err)
	}
	c.send("still here")
	_ = c.Close()
	select {
	case s := <-got:
		if s != "still here\n" {
			t.Errorf("%q", s)
		}
	case <-time.After(patience):
		t.Fatal("nothing arrives")
	}
}

func TestAResetIsPassedOn(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	l.serve(proxy.Options{})
	l.stand("a", a.ln.Addr().String())
	c := l.dial().says("a")
	_ = c.SetLinger(0)
	_ = c.Close()
	if err := a.end(t); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the leader sees %v, want a reset", err)
	}
}

func TestBytesArriveUnchanged(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	l.serve(proxy.Options{})
	l.stand("a", a.ln.Addr().String())
	data := make([]byte, 3<<20+17)
	_, _ = rand.Read(data)
	var all sync.WaitGroup
	for range 4 {
		c := l.dial().says("a")
		all.Go(func() {
			_, _ = c.Write(data)
			_ = c.CloseWrite()
		})
		all.Go(func() {
			got, err := io.ReadAll(c.r)
			if err != nil || !bytes.Equal(got, append(bytes.Clone(data), "bye\n"...)) {
				t.Errorf("%d bytes came back of %d, %v", len(got), len(data), err)
			}
		})
	}
	all.Wait()
}

func TestTooManyConnectionsAreReset(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	l.serve(proxy.Options{MaxConns: 1})
	l.stand("a", a.ln.Addr().String())
	c := l.dial().says("a")
	l.refused()
	_ = c.Close()
	l.until("there is room", func(s proxy.Stats) bool { return s.Open == 0 && s.Full == 1 })
	l.dial().says("a")
}

func TestAProxyRefusesToConnectToItself(t *testing.T) {
	l := newLab(t, 20*time.Second)
	l.serve(proxy.Options{})
	l.stand("a", l.ln.Addr().String())
	l.refused()
	l.until("it is counted", func(s proxy.Stats) bool { return s.Loop == 1 && s.Accepted == 1 })
}

func TestThePortMayBeAnotherThanTheRecords(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	_, text, _ := net.SplitHostPort(a.ln.Addr().String())
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	l.serve(proxy.Options{Port: port})
	l.stand("a", "127.0.0.1:1")
	l.dial().says("a")
}

func TestServeDrains(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	l.serve(proxy.Options{Drain: patience})
	l.stand("a", a.ln.Addr().String())
	c := l.dial().says("a")
	l.stop()
	var err error
	for ended := time.Now().Add(patience); err == nil && time.Now().Before(ended); {
		var late net.Conn
		if late, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", l.ln.Addr().String()); err == nil {
			_ = late.Close()
		}
	}
	if err == nil {
		t.Error("it still accepts")
	}
	c.send("x").says("x")
	select {
	case err := <-l.served:
		t.Fatalf("Serve returns before its connections: %v", err)
	default:
	}
	_ = c.Close()
	l.end()
	if s := l.p.Stats(); s.Drained != 0 || s.Open != 0 {
		t.Errorf("%+v", s)
	}
}

func TestConnectionsAreCutAfterTheDrain(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	l.serve(proxy.Options{Drain: 50 * time.Millisecond})
	l.stand("a", a.ln.Addr().String())
	c := l.dial().says("a")
	l.stop()
	c.isReset()
	l.end()
	if s := l.p.Stats(); s.Drained != 1 || s.Cut != 0 || s.Open != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAConnectionThatWaitsIsResetAtTheEnd(t *testing.T) {
	l := newLab(t, 20*time.Second)
	l.serve(proxy.Options{Wait: time.Hour, Drain: time.Hour})
	c := l.dial()
	l.until("a connection waits", func(s proxy.Stats) bool { return s.Waiting == 1 })
	l.stop()
	c.isReset()
	l.end()
	if s := l.p.Stats(); s.NoLeader != 1 || s.Waiting != 0 || s.Open != 0 {
		t.Errorf("%+v", s)
	}
}

func TestALeaderThatIsDeposedDuringTheDrainIsCut(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	l.serve(proxy.Options{Drain: patience})
	first := l.stand("a", a.ln.Addr().String())
	c := l.dial().says("a")
	l.stop()
	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.isReset()
	l.end()
}

func TestEveryRuleOfTheOptionsIsNamed(t *testing.T) {
	g := leadertest.NewGroup(t, leader.ElectionConfig{})
	_, err := proxy.NewWithStore(g.Store("p"), "a..b", proxy.Options{Port: 70000, Grace: -1, DialTimeout: -1, MaxConns: -1})
	for _, field := range []string{`Group "a..b"`, "Port 70000", "Grace -1ns", "DialTimeout -1ns", "MaxConns -1"} {
		if err == nil || !errors.Is(err, leader.ErrInvalidConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if _, err := proxy.NewWithStore(nil, "g", proxy.Options{}); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Error(err)
	}
	if _, err := proxy.New(nil, "b", "g", proxy.Options{}); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Error(err)
	}
}
