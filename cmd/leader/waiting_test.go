package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A load balancer without backends accepts connections and closes them.
func TestCandidatesWaitForAServerBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	stderr := new(text)
	c := begin(t, stderr, nil, "campaign", "jobs", "--server", "nats://"+ln.Addr().String())
	for until := time.Now().Add(patience); !strings.Contains(stderr.String(), "leader: waiting for nats://"+ln.Addr().String()+": "); time.Sleep(10 * time.Millisecond) {
		select {
		case <-c.ended:
			t.Fatalf("it ended with %d: %s", c.code, stderr)
		default:
		}
		if time.Now().After(until) {
			t.Fatalf("it says %s", stderr)
		}
	}
	c.signal(syscall.SIGINT)
	if code := c.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
