package proxy_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/proxy"
)

// A leader whose machine is dead answers nothing for as long as its lease runs.
func TestClientThatGoesDuringADialFreesItsSlot(t *testing.T) {
	l := newLab(t, time.Hour)
	l.serve(proxy.Options{Wait: time.Hour, DialTimeout: time.Hour, Drain: -1})
	l.stand("a", unanswered(t))
	l.until("the leader is known", func(s proxy.Stats) bool { return s.Leader.ID == "a" })
	c := l.dial()
	l.until("a client waits", func(s proxy.Stats) bool { return s.Waiting == 1 })
	_ = c.Close()
	l.until("its slot is free", func(s proxy.Stats) bool { return s.Open == 0 })
}

// unanswered returns the address of a listener whose backlog is full: Linux
// drops further requests to connect.
func unanswered(t *testing.T) string {
	t.Helper()
	ln := listen(t)
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		t.Fatalf("a listener of type %T", ln)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var limited error
	if err := raw.Control(func(fd uintptr) { limited = syscall.Listen(int(fd), 0) }); err != nil || limited != nil {
		t.Fatal(err, limited)
	}
	for {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", ln.Addr().String())
		var full net.Error
		switch {
		case err == nil:
			t.Cleanup(func() { _ = c.Close() })
		case errors.As(err, &full) && full.Timeout():
			return ln.Addr().String()
		default:
			t.Fatal(err)
		}
	}
}
