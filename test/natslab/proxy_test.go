package natslab_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// listen returns the address of a server, and what it is sent, by lines.
func listen(t *testing.T) (addr string, lines <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	said := make(chan string, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewScanner(c); in.Scan(); {
					said <- in.Text()
				}
			}()
		}
	}()
	return l.Addr().String(), said
}

// A connection breaks on the client's side, and what it carried is still on its
// way when the client has come again.
func TestWhatAnAbandonedConnectionCarriedArrivesLate(t *testing.T) {
	t.Parallel()
	server, lines := listen(t)
	p := natslab.NewProxy(t, server)
	connect := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	hear := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != want {
				t.Fatalf("it hears %q, want %q", got, want)
			}
		case <-natslab.Within(t).Done():
			t.Fatalf("it never hears %q", want)
		}
	}
	first := connect()
	fmt.Fprintln(first, "a")
	hear("a")
	p.Hold(natslab.ToServer, natslab.ToClient)
	fmt.Fprintln(first, "b")
	fmt.Fprintln(first, "c")
	for end := natslab.Within(t); !p.UnderWay(); runtime.Gosched() {
		if end.Err() != nil {
			t.Fatal("nothing is under way")
		}
	}
	p.Abandon()
	p.Resume()
	if n, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || n != 0 {
		t.Fatalf("the client is told %v", err)
	}
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
	_ = first.Close()
	second := connect()
	fmt.Fprintln(second, "d")
	hear("d")
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want the second", n)
	}
	p.Deliver()
	hear("b")
	hear("c")
	if p.UnderWay() {
		t.Error("something is under way still")
	}
	fmt.Fprintln(second, "e")
	hear("e")
}
