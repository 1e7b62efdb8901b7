package proxy

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// The kernel's own default is two hours, and Go's two and a half minutes.
func TestAVanishedPeerIsNoticedWithinAMinute(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // a fixture
	r := newTestRoute(t, 0)
	a := led("a", 1, time.Hour)
	a.Address = ln.Addr().String()
	r.lead(a)
	s := &server{Proxy: r.Proxy, route: r, ln: at{&net.UnixAddr{}}}
	out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.Address)
	if err != nil {
		t.Fatal(err)
	}
	client, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.serve(t.Context(), client)
	}()
	leader, err := ln.Accept() // what the proxy has connected to
	if err != nil {
		t.Fatal(err)
	}
	// Arriving data shows that the connections are joined.
	if _, err := leader.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	for l := range r.now.links {
		for side, c := range map[string]net.Conn{"client": l.client, "leader": l.leader} {
			if took := noticed(t, c); took > time.Minute {
				t.Errorf("the absence of the %s is noticed after %v", side, took)
			}
		}
	}
	if len(r.now.links) != 1 {
		t.Errorf("%d links", len(r.now.links))
	}
	r.mu.Unlock()
	_, _ = out.Close(), leader.Close()
	<-served
}

// noticed is how long a connection is silent before the kernel gives it up.
func noticed(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		t.Fatalf("a %T", c)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var seconds int
	err = raw.Control(func(fd uintptr) {
		get := func(level, option int) int {
			n, err := syscall.GetsockoptInt(int(fd), level, option)
			if err != nil {
				t.Error(err)
			}
			return n
		}
		if get(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) == 0 {
			t.Error("nobody asks")
		}
		seconds = get(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE) + get(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)*get(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds) * time.Second
}
