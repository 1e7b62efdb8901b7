package devtest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Direction is the way that bytes take through a Proxy.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// A Proxy stands between clients and a server, and can cut them off. It changes
// nothing but the time at which bytes arrive, and whether they do. It is what
// this module needs of the Proxy in test/natslab, which a tagged module cannot
// require.
type Proxy struct {
	target   string
	listener net.Listener
	copying  sync.WaitGroup

	mu     sync.Mutex
	moved  *sync.Cond // the fields below have changed
	held   [2]bool    // by direction
	refuse bool
	closed bool
	conns  map[net.Conn]struct{}
}

// NewProxy starts a proxy to HOST:PORT, and stops it when the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, conns: make(map[net.Conn]struct{})}
	p.moved = sync.NewCond(&p.mu)
	p.copying.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		p.set(func() { p.closed = true; p.drop() })
		p.copying.Wait()
	})
	return p
}

// URL is where clients reach the server through the proxy.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Hold lets nothing pass in these directions. Bytes wait, and connections stay
// open.
func (p *Proxy) Hold(directions ...Direction) {
	p.set(func() {
		for _, d := range directions {
			p.held[d] = true
		}
	})
}

// Cut closes all connections and refuses new ones.
func (p *Proxy) Cut() { p.set(func() { p.refuse = true; p.drop() }) }

// Resume ends Hold and Cut. What was held passes now.
func (p *Proxy) Resume() { p.set(func() { p.held, p.refuse = [2]bool{}, false }) }

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.moved.Broadcast()
}

// drop closes all connections, which ends their copying. p.mu is held.
func (p *Proxy) drop() {
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.copying.Go(func() { p.join(client) })
	}
}

// join copies between a client and the server until either of them ends.
func (p *Proxy) join(client net.Conn) {
	defer client.Close()                     //nolint:errcheck // it may be closed already
	server, err := net.Dial("tcp", p.target) //nolint:noctx // on the loopback interface
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // as above
	p.mu.Lock()
	refuse := p.refuse || p.closed
	if !refuse {
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	}
	p.mu.Unlock()
	if refuse {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, ToServer) })
	both.Go(func() { p.copy(client, server, ToClient) })
	both.Wait()
	p.set(func() { delete(p.conns, client); delete(p.conns, server) })
}

// copy moves bytes until either connection is closed, and closes both.
func (p *Proxy) copy(to, from net.Conn, d Direction) {
	defer func() {
		_, _ = to.Close(), from.Close()
		p.set(func() {}) // the other direction may be held
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.pass(from, d) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while bytes are held, and reports whether they may pass.
func (p *Proxy) pass(from net.Conn, d Direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held[d] && !p.closed && open(from) {
		p.moved.Wait()
	}
	return !p.closed
}

// open reports whether this side has not closed c.
func open(c net.Conn) bool { return c.SetReadDeadline(time.Time{}) == nil }
