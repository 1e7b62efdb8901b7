package trial

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Relay passes bytes between clients and a server, and what the server sends
// by a function of the test, which may look into it and end the connection
// where it likes. What only spoils the way is [natslab.Proxy].
type Relay struct {
	listener net.Listener
	answers  func(client io.Writer, server io.Reader)
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// NewRelay starts a relay to host:port, which ends with the test. It calls
// answers for each connection, and closes that when it returns.
func NewRelay(tb testing.TB, target string, answers func(client io.Writer, server io.Reader)) *Relay {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{listener: l, answers: answers}
	r.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			r.join(client, target)
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

// Addr returns the relay's own host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

func (r *Relay) join(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, client, server)
	r.mu.Unlock()
	r.wg.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	r.wg.Go(func() { r.answers(client, server); _ = client.Close() })
}
