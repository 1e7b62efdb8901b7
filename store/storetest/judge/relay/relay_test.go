package relay_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
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

// A caller connects to a server by a relay, and knows what the server hears.
type caller struct {
	*testing.T
	*relay.Relay

	lines <-chan string
}

func newCaller(t *testing.T) caller {
	t.Helper()
	server, lines := listen(t)
	return caller{t, relay.New(t, server), lines}
}

func (c caller) connect() net.Conn {
	c.Helper()
	conn, err := net.Dial("tcp", c.Addr())
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = conn.Close() })
	return conn
}

// hear waits for the next line that the server hears.
func (c caller) hear(want string) {
	c.Helper()
	select {
	case got := <-c.lines:
		if got != want {
			c.Fatalf("it hears %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		c.Fatalf("it never hears %q", want)
	}
}

// come waits until so many bytes have come to the relay.
func (c caller) come(bytes int64) {
	c.Helper()
	for end := time.Now().Add(time.Minute); c.Bytes() != bytes; runtime.Gosched() {
		if time.Now().After(end) {
			c.Fatalf("%d bytes have come, want %d", c.Bytes(), bytes)
		}
	}
}

// keep waits until the relay keeps something on its way to the server.
func (c caller) keep() {
	c.Helper()
	for end := time.Now().Add(time.Minute); !c.UnderWay(); runtime.Gosched() {
		if time.Now().After(end) {
			c.Fatal("nothing is under way")
		}
	}
}

// ended waits until the relay closes a connection.
func (c caller) ended(conn net.Conn) {
	c.Helper()
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || n != 0 {
		c.Fatalf("the client is told %v", err)
	}
}

// A connection breaks on the client's side, and what it carried is still on its
// way when the client has come again.
func TestAbandonedConnectionDeliversLate(t *testing.T) {
	t.Parallel()
	p := newCaller(t)
	first := p.connect()
	fmt.Fprintln(first, "a")
	p.hear("a")
	p.Hold(relay.ToServer, relay.ToClient)
	fmt.Fprintln(first, "b")
	fmt.Fprintln(first, "c")
	p.keep()
	p.Abandon()
	p.Resume()
	p.ended(first)
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
	_ = first.Close()
	second := p.connect()
	fmt.Fprintln(second, "d")
	p.hear("d")
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want the second", n)
	}
	p.Deliver()
	p.hear("b")
	p.hear("c")
	if p.UnderWay() {
		t.Error("something is under way still")
	}
	fmt.Fprintln(second, "e")
	p.hear("e")
}

func TestAForgottenConnectionCarriesNothingAndANewOneDoes(t *testing.T) {
	t.Parallel()
	p := newCaller(t)
	first := p.connect()
	fmt.Fprintln(first, "a")
	p.hear("a")
	p.Forget()
	fmt.Fprintln(first, "lost")
	p.keep()
	fmt.Fprintln(p.connect(), "b")
	p.hear("b")
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want the second", n)
	}
}

func TestASwallowedRequestIsLostAndIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	p := newCaller(t)
	idle, asking := p.connect(), p.connect()
	for _, c := range []net.Conn{idle, asking} {
		fmt.Fprintln(c, "a")
		p.hear("a")
	}
	p.Hold(relay.ToServer, relay.ToClient)
	fmt.Fprintln(asking, "lost")
	p.keep()
	p.Swallow()
	p.ended(idle)
	p.Resume()
	fmt.Fprintln(p.connect(), "b")
	p.hear("b")
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want the last", n)
	}
}

// A piece that comes while an earlier one waits is not later for that, unless
// the machine stalls each time.
func TestDelaysOfPiecesDoNotAddUp(t *testing.T) {
	t.Parallel()
	const delay, pieces = 200 * time.Millisecond, 4
	p := newCaller(t)
	conn := p.connect()
	p.Delay(delay, relay.ToServer)
	least := time.Duration(math.MaxInt64)
	for try := range 5 {
		began := time.Now()
		for n := range pieces {
			fmt.Fprintln(conn, "a")
			p.come(int64(len("a\n") * (try*pieces + n + 1))) // or two of them would be one piece
		}
		for range pieces {
			p.hear("a")
		}
		took := time.Since(began)
		if took < delay {
			t.Errorf("all have passed after %v", took)
		}
		least = min(least, took)
	}
	if least >= 2*delay {
		t.Errorf("%d pieces take %v, each of which is to be %v late", pieces, least, delay)
	}
}

func TestAnswersAreCutWhereTheTestReturns(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("answer"))
		}
	}()
	p := relay.NewOf(t, l.Addr().String(), func(client io.Writer, server io.Reader) {
		_, _ = io.CopyN(client, server, 3)
	})
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if got, err := io.ReadAll(c); string(got) != "ans" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if n := p.Bytes(); n != 3 {
		t.Errorf("%d bytes were read", n)
	}
}
