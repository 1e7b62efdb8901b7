package natslab

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy relays TCP connections between clients and a server, and can spoil
// them. It changes nothing but the time and the fate of the bytes, except where
// a test passes the answers on itself: see [NewProxyOf].
//
// It is the TCP relay of all tests and labs which may import it. cmd/leader is
// tagged and cannot require this module, so internal/devtest has a smaller one.
type Proxy struct {
	tb       testing.TB
	listener net.Listener
	answers  Answers // nil: they pass as they come

	mu     sync.Mutex
	target string             // host:port of the server
	moved  *sync.Cond         // the fields below changed
	flow   [2]gate            // by direction
	refuse bool               // new connections are closed at once
	conns  map[net.Conn]*lane // by the connection from which a lane is read
	closed bool
	wg     sync.WaitGroup
}

// Answers passes on what the server sends to one client. Its connection ends
// when it returns.
type Answers func(client io.Writer, server io.Reader)

// A lane is one direction of one connection.
type lane struct {
	Direction
	back  *lane // the other direction
	lost  bool  // nothing passes, whatever the gate says
	mute  bool  // nor does its end
	waits bool  // a piece that was read has not passed yet
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
	return NewProxyOf(tb, target, nil)
}

// NewProxyOf is [NewProxy] with a function that passes on the server's answers.
// It may read them, and end the connection where it likes. Hold, Delay, Abandon
// and Forget do not apply to them.
func NewProxyOf(tb testing.TB, target string, answers Answers) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("natslab: %v", err)
	}
	p := &Proxy{tb: tb, target: target, listener: l, answers: answers, conns: make(map[net.Conn]*lane)}
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
	for c, l := range p.conns {
		l.lost = true
		if tcp, ok := c.(*net.TCPConn); ok && l.Direction == ToServer {
			_ = tcp.CloseWrite() // it may be closed already
		}
	}
}

// Forget has nothing pass on the connections of now any more, and tells nobody,
// as a load balancer does that forgets them. New connections pass.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.conns {
		l.lost, l.mute = true, true
	}
}

// Swallow forgets the connections on which Hold keeps something, and closes the
// others, which a client would otherwise use next.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, l := range p.conns {
		if l.waits || l.back.waits {
			l.lost, l.mute = true, true
		} else {
			_ = c.Close()
		}
	}
	p.moved.Broadcast()
}

// Deliver has what is left of abandoned connections arrive at the server. They
// end with that.
func (p *Proxy) Deliver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.conns {
		l.lost = l.lost && l.Direction != ToServer
	}
	p.moved.Broadcast()
}

// Connections returns how many clients are connected, without those that
// Abandon, Forget or Swallow gave up.
func (p *Proxy) Connections() int { return p.count(func(l *lane) bool { return !l.lost }) }

// UnderWay reports whether something that clients have sent waits in the proxy.
func (p *Proxy) UnderWay() bool { return p.count(func(l *lane) bool { return l.waits }) > 0 }

// count counts lanes to the server.
func (p *Proxy) count(counts func(*lane) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.conns {
		if l.Direction == ToServer && counts(l) {
			n++
		}
	}
	return n
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
	up, down := &lane{Direction: ToServer}, &lane{Direction: ToClient}
	up.back, down.back = down, up
	p.mu.Lock()
	welcome := !p.refuse && !p.closed && target == p.target
	if welcome {
		p.conns[client], p.conns[server] = up, down
	}
	p.mu.Unlock()
	if !welcome {
		_, _ = client.Close(), server.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, up) })
	both.Go(func() { p.copy(client, server, down) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// copy moves bytes until either side is closed, and then closes both.
func (p *Proxy) copy(dst, src net.Conn, l *lane) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !l.mute || p.closed {
			_, _ = dst.Close(), src.Close()
		}
		p.moved.Broadcast()
	}()
	if l.Direction == ToClient && p.answers != nil {
		p.answers(dst, src)
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && (!p.pass(src, l) || write(dst, buf[:n]) != nil) || err != nil {
			return
		}
	}
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// pass waits until bytes may pass, and reports whether the proxy is still open.
func (p *Proxy) pass(src net.Conn, l *lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delay := p.flow[l.Direction].delay; delay > 0 {
		p.mu.Unlock()
		time.Sleep(delay) //nolint:forbidigo // this is the fault, not a wait for something
		p.mu.Lock()
	}
	l.waits = true
	for (l.lost || p.flow[l.Direction].held) && !p.closed && open(src) {
		p.moved.Wait()
	}
	l.waits = false
	return !p.closed
}

// open reports whether this side has not closed c.
func open(c net.Conn) bool { return c.SetReadDeadline(time.Time{}) == nil }
