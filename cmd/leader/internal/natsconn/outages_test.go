package natsconn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

func TestAnOutageIsNamedAtOnceAndThenEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		o := &outages{say: func(text string) { said = append(said, text) }}
		o.back("nats://a") // the first connection is not reported
		o.lost(nil, io.EOF)
		for range 121 {
			o.failed(nil, errors.New("connection refused"))
			o.failed(nil, nats.ErrNoServers) // which has no reason
			time.Sleep(time.Second)
		}
		o.back("nats://b")
		want := []string{
			"lost the connection: EOF", "cannot reach the server: connection refused", "cannot reach the server: connection refused",
			"cannot reach the server: connection refused", "connected to nats://b",
		}
		if !slices.Equal(said, want) {
			t.Errorf("it reports %q, want %q", said, want)
		}
	})
}

func TestRefusedLoginsBackOff(t *testing.T) {
	o := &outages{say: func(string) {}}
	o.failed(nil, io.EOF)
	if d := o.delay(); d > reconnectDelay+reconnectJitter {
		t.Errorf("a server that is away is tried again after %v", d)
	}
	var d time.Duration
	for range 100 {
		o.failed(nil, nats.ErrAuthorization)
		o.failed(nil, io.EOF) // another server
		d = o.delay()
	}
	if d < maxRefusedDelay {
		t.Errorf("after 100 refusals it tries again after %v", d)
	}
	o.back("nats://a")
	if d := o.delay(); d > reconnectDelay+reconnectJitter {
		t.Errorf("after a login it tries again after %v", d)
	}
}

// A cluster that is away as a whole fails by several errors in turn, and some
// of them name the port of the client.
func TestManyServersThatAreAwayAreEachNamedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		o := &outages{say: func(text string) { said = append(said, text) }}
		port := 40000
		for range 61 {
			for server := range 3 {
				port++
				o.failed(nil, &net.OpError{
					Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: server}, Err: os.NewSyscallError("read", syscall.ECONNRESET),
				})
			}
			time.Sleep(time.Second)
		}
		if len(said) != 6 || !strings.HasSuffix(said[0], "read tcp 127.0.0.1:0: read: connection reset by peer") {
			t.Errorf("%d lines: %q", len(said), said)
		}
	})
}

// nats.go has no handler for a server that fails after the dial.
func TestAServerThatFailsAfterTheDialIsNamed(t *testing.T) {
	for answer, want := range map[string]string{
		"":                                   "cannot reach the server: EOF",
		"-ERR 'Authorization Violation'\r\n": "the server refused the login: nats: authorization violation",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			var logins atomic.Int32
			go serve(ln, answer, &logins)
			said := make(chan string, 16)
			nc, err := Settings{URL: "nats://" + ln.Addr().String()}.Connect("test", Outages(func(text string) { said <- text })...)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			late := time.After(time.Minute)
			for got := ""; got != want; {
				select {
				case got = <-said:
				case <-late:
					t.Fatalf("it is not reported after %d logins", logins.Load())
				}
			}
		})
	}
}

// serve takes one login and ends its connection. It sends answer to all later
// logins, and ends them.
func serve(ln net.Listener, answer string, logins *atomic.Int32) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		first := logins.Add(1) == 1
		if first || answer != "" {
			fmt.Fprint(c, `INFO {"server_id":"x","version":"2.15.2","proto":1,"max_payload":1048576}`+"\r\n")
			for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != "PING"; {
			}
		}
		_, _ = io.WriteString(c, map[bool]string{true: "PONG\r\n", false: answer}[first])
		_ = c.Close()
	}
}
