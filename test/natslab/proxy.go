package natslab

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy stands between clients and a server and can spoil their connections.
// It changes nothing but the time and the fate of the bytes.
type Proxy struct {
	tb       testing.TB
	listener net.Listener

	mu     sync.Mutex
	target string                 // host:port of the server
	moved  *sync.Cond             // the fields below changed
	flow   [2]gate                // by direction
	refuse bool                   // new connections are closed at once
	conns  map[net.Conn]Direction // which way goes what is read from them
	lost   map[net.Conn]struct{}  // those of them that Abandon ended for their clients
	under  int                    // pieces that wait to go to the server
	closed bool
	wg     sync.WaitGroup
}

// A Direction is the way that bytes take through a Proxy.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

type gate struct {
	held  bool          // nothing passes
	delay time.Duration // each piece passes so much later
}

// NewProxy starts a proxy to host:port, and stops it when the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("natslab: %v", err)
	}
	p := &Proxy{tb: tb, target: target, listener: l, conns: make(map[net.Conn]Direction), lost: make(map[net.Conn]struct{})}
	p.moved = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// URL returns the URL by which clients reach the server through the proxy.
func (p *Proxy) URL() string { return "nats://" + p.Addr() }

// Addr returns the proxy's own host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Hold lets nothing pass in the given directions: a black hole, in which bytes
// wait and connections stay open.
func (p *Proxy) Hold(ds ...Direction) { p.set(func(g *gate) { g.held = true }, ds) }

// Resume ends Hold and Delay in both directions, and Cut. What was held passes
// now.
func (p *Proxy) Resume() {
	p.set(func(g *gate) { *g = gate{} }, []Direction{ToServer, ToClient})
	p.mu.Lock()
	p.refuse = false
	p.mu.Unlock()
}

// Delay lets bytes pass in the given directions so much later.
func (p *Proxy) Delay(d time.Duration, ds ...Direction) { p.set(func(g *gate) { g.delay = d }, ds) }

func (p *Proxy) set(change func(*gate), ds []Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range ds {
		change(&p.flow[d])
	}
	p.moved.Broadcast()
}

// Drop closes all connections; what was held is lost. New ones are welcome.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked()
}

func (p *Proxy) dropLocked() {
	for c := range p.conns {
		_ = c.Close() // ends the copying, which cleans up
	}
	p.moved.Broadcast()
}

// Reset ends all connections as a peer does that has lost them (RST), in the
// middle of whatever is under way. New ones are welcome.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it may be closed already
		}
	}
	p.dropLocked()
}

// Abandon ends all connections for their clients alone, in order, so that they
// come again at once. What is under way to the server, as it is while Hold
// keeps it, stays so until Deliver, whatever new connections carry meanwhile.
func (p *Proxy) Abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, d := range p.conns {
		p.lost[c] = struct{}{}
		if tcp, ok := c.(*net.TCPConn); ok && d == ToServer {
			_ = tcp.CloseWrite() // it may be closed already
		}
	}
}

// Deliver has what is left of abandoned connections arrive at the server. They
// end with that.
func (p *Proxy) Deliver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.lost {
		if p.conns[c] == ToServer {
			delete(p.lost, c)
		}
	}
	p.moved.Broadcast()
}

// Connections returns how many clients are connected, without those that
// Abandon gave up.
func (p *Proxy) Connections() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, d := range p.conns {
		if _, lost := p.lost[c]; d == ToServer && !lost {
			n++
		}
	}
	return n
}

// UnderWay reports whether something that clients have sent waits in the proxy.
func (p *Proxy) UnderWay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.under > 0
}

// Cut closes all connections and refuses new ones until Resume.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = true
	p.dropLocked()
}

// Redirect has new connections go to another server, and ends those to the one
// of before, as what stands before a pair of servers does after a failover.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.dropLocked()
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.dropLocked()
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		refuse := p.refuse || p.closed
		p.mu.Unlock()
		if refuse {
			_ = client.Close()
			continue
		}
		p.wg.Go(func() { p.join(client) })
	}
}

func (p *Proxy) join(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.track(target, client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, ToServer) })
	both.Go(func() { p.copy(client, server, ToClient) })
	both.Wait()
	p.mu.Lock()
	for _, c := range []net.Conn{client, server} {
		delete(p.conns, c)
		delete(p.lost, c)
	}
	p.mu.Unlock()
}

// track keeps the connections of a client and of the server that it reached,
// and reports whether they may still be.
func (p *Proxy) track(target string, client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.closed || target != p.target {
		_, _ = client.Close(), server.Close()
		return false
	}
	p.conns[client], p.conns[server] = ToServer, ToClient
	return true
}

// copy moves bytes until either side is closed, and then closes both.
func (p *Proxy) copy(dst, src net.Conn, d Direction) {
	defer func() {
		_ = dst.Close()
		_ = src.Close()
		p.moved.Broadcast()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && (!p.pass(src, d) || write(dst, buf[:n]) != nil) || err != nil {
			return
		}
	}
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// pass waits until bytes may pass, and reports whether the proxy is still open.
func (p *Proxy) pass(src net.Conn, d Direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delay := p.flow[d].delay; delay > 0 {
		p.mu.Unlock()
		time.Sleep(delay) //nolint:forbidigo // this is the fault, not a wait for something
		p.mu.Lock()
	}
	if d == ToServer {
		p.under++
		defer func() { p.under-- }()
	}
	for p.waits(src, d) && !p.closed && open(src) {
		p.moved.Wait()
	}
	return !p.closed
}

// waits reports whether what was read from a connection does not pass now. p.mu
// is held.
func (p *Proxy) waits(src net.Conn, d Direction) bool {
	_, lost := p.lost[src]
	return lost || p.flow[d].held
}

// open reports whether this side has not closed c.
func open(c net.Conn) bool { return c.SetReadDeadline(time.Time{}) == nil }
