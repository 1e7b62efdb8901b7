// Package relay forwards between clients and a server, and spoils what they
// send to each other: a connection ends, bytes wait, answers are lost. The
// cases of package judge use it, and so may other tests.
package relay

import (
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Relay passes TCP connections between clients and a server, and can spoil
// them. It changes nothing but the time and the fate of the bytes, except where
// a test passes the answers on itself: see [NewOf].
//
// It is the TCP relay of all tests and labs which may import it. cmd/leader is
// tagged and cannot require this module, so internal/devtest has a smaller one.
type Relay struct {
	tb      testing.TB
	addr    string
	answers Answers      // nil: they pass as they come
	bytes   atomic.Int64 // that have come from both sides

	mu       sync.Mutex
	listener net.Listener       // nil after Leave
	target   string             // host:port of the server
	moved    *sync.Cond         // the fields below changed
	flow     [2]gate            // by direction
	refuse   bool               // new connections are closed at once
	conns    map[net.Conn]*lane // by the connection from which a lane is read
	closed   bool
	wg       sync.WaitGroup
}

// Answers passes on what the server sends to one client. Its connection ends
// when it returns.
type Answers func(client io.Writer, server io.Reader)

// A lane is one direction of one connection.
type lane struct {
	Direction
	back  *lane // the other direction
	lost  bool  // nothing passes, whatever the gate allows
	mute  bool  // nor does its end
	waits bool  // a piece that was read has not passed yet
}

// A Direction is the way that bytes take through a Relay.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// A piece has come by a lane, and may pass when it is due.
type piece struct {
	bytes []byte
	due   time.Time
}

// queue is how many pieces of a lane wait in the relay. The other pieces wait
// where they come from, as they do without a relay.
const queue = 8

type gate struct {
	held  bool          // nothing passes
	delay time.Duration // each piece passes so much later
}

// New starts a relay to host:port, and stops it when the test ends.
func New(tb testing.TB, target string) *Relay {
	tb.Helper()
	return NewOf(tb, target, nil)
}

// NewOf is [New] with a function that passes on the server's answers.
// It may read them, and end the connection where it likes. Hold, Delay, Abandon
// and Forget do not apply to them.
func NewOf(tb testing.TB, target string, answers Answers) *Relay {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("relay: %v", err)
	}
	r := &Relay{tb: tb, addr: l.Addr().String(), target: target, listener: l, answers: answers, conns: make(map[net.Conn]*lane)}
	r.moved = sync.NewCond(&r.mu)
	r.wg.Go(func() { r.accept(l) })
	tb.Cleanup(r.close)
	return r
}

// Addr returns the relay's own host:port.
func (r *Relay) Addr() string { return r.addr }

// Hold lets nothing pass in the given directions: a black hole, in which bytes
// wait and connections stay open.
func (r *Relay) Hold(ds ...Direction) { r.set(func(g *gate) { g.held = true }, ds) }

// Resume ends Hold and Delay in both directions, Cut, and Leave. Held data passes
// now.
func (r *Relay) Resume() {
	r.tb.Helper()
	r.set(func(g *gate) { *g = gate{} }, []Direction{ToServer, ToClient})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = false
	if r.listener != nil {
		return
	}
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		r.tb.Errorf("relay: %v", err)
		return
	}
	r.listener = l
	r.wg.Go(func() { r.accept(l) })
}

// Delay lets bytes pass in the given directions so much later than they came,
// in however many pieces.
func (r *Relay) Delay(d time.Duration, ds ...Direction) { r.set(func(g *gate) { g.delay = d }, ds) }

func (r *Relay) set(change func(*gate), ds []Direction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range ds {
		change(&r.flow[d])
	}
	r.moved.Broadcast()
}

// Drop closes all connections; what was held is lost. New ones are welcome.
func (r *Relay) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked()
}

func (r *Relay) dropLocked() {
	for c := range r.conns {
		_ = c.Close() // ends the copying, which cleans up
	}
	r.moved.Broadcast()
}

// Reset ends all connections as a peer does that has lost them (RST), in the
// middle of whatever is under way. New ones are welcome.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it may be closed already
		}
	}
	r.dropLocked()
}

// Abandon ends all connections for their clients alone, in order, so that they
// come again at once. Data that is under way to the server, as while Hold keeps
// it, stays so until Deliver, whatever new connections carry meanwhile.
func (r *Relay) Abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, l := range r.conns {
		l.lost = true
		if tcp, ok := c.(*net.TCPConn); ok && l.Direction == ToServer {
			_ = tcp.CloseWrite() // it may be closed already
		}
	}
}

// Forget lets nothing pass on the current connections any more, without notice,
// as a load balancer does that forgets them. New connections pass.
func (r *Relay) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.conns {
		l.lost, l.mute = true, true
	}
}

// Swallow forgets the connections on which Hold keeps something, and closes the
// others, which a client would otherwise use next.
func (r *Relay) Swallow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, l := range r.conns {
		l.lost = true
		if l.waits || l.back.waits {
			l.mute = true
		} else {
			_ = c.Close()
		}
	}
	r.moved.Broadcast()
}

// Deliver has what is left of abandoned connections arrive at the server. They
// end with that.
func (r *Relay) Deliver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.conns {
		l.lost = l.lost && l.Direction != ToServer
	}
	r.moved.Broadcast()
}

// Connections returns how many clients are connected, without those that
// Abandon, Forget or Swallow gave up.
func (r *Relay) Connections() int { return r.count(func(l *lane) bool { return !l.lost }) }

// Bytes returns how many bytes clients and server have sent so far.
func (r *Relay) Bytes() int64 { return r.bytes.Load() }

// UnderWay reports whether something that clients have sent waits in the relay.
func (r *Relay) UnderWay() bool { return r.count(func(l *lane) bool { return l.waits }) > 0 }

// count counts lanes to the server.
func (r *Relay) count(counts func(*lane) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.conns {
		if l.Direction == ToServer && counts(l) {
			n++
		}
	}
	return n
}

// Leave closes all connections, and listens no more until Resume.
func (r *Relay) Leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.listener.Close()
	r.listener = nil
	r.dropLocked()
}

// Cut closes all connections, and new ones as soon as they are accepted, until
// Resume. A client may have sent by then.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = true
	r.dropLocked()
}

// Redirect sends new connections to another server, and ends the old server's,
// as a load balancer before a pair of servers does after a failover.
func (r *Relay) Redirect(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	r.dropLocked()
}

func (r *Relay) close() {
	r.mu.Lock()
	if r.listener != nil {
		_ = r.listener.Close()
	}
	r.closed = true
	r.dropLocked()
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *Relay) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed
		}
		r.mu.Lock()
		refuse := r.refuse || r.closed
		r.mu.Unlock()
		if refuse {
			_ = client.Close()
			continue
		}
		r.wg.Go(func() { r.join(client) })
	}
}

func (r *Relay) join(client net.Conn) {
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	up, down := &lane{Direction: ToServer}, &lane{Direction: ToClient}
	up.back, down.back = down, up
	r.mu.Lock()
	welcome := !r.refuse && !r.closed && target == r.target
	if welcome {
		r.conns[client], r.conns[server] = up, down
	}
	r.mu.Unlock()
	if !welcome {
		_, _ = client.Close(), server.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, client, up) })
	both.Go(func() { r.copy(client, server, down) })
	both.Wait()
	r.mu.Lock()
	delete(r.conns, client)
	delete(r.conns, server)
	r.mu.Unlock()
}

// copy moves bytes until either side is closed, and then closes both.
func (r *Relay) copy(dst, src net.Conn, l *lane) {
	var reading sync.WaitGroup
	defer reading.Wait()
	ended := make(chan struct{})
	defer func() {
		close(ended)
		r.mu.Lock()
		defer r.mu.Unlock()
		if !l.mute || r.closed {
			_, _ = dst.Close(), src.Close()
		}
		r.moved.Broadcast()
	}()
	from := counted{src, &r.bytes}
	if l.Direction == ToClient && r.answers != nil {
		r.answers(dst, from)
		return
	}
	pieces := make(chan piece, queue)
	reading.Go(func() { r.read(from, l.Direction, pieces, ended) })
	for p := range pieces {
		if !r.pass(src, l, p.due) || write(dst, p.bytes) != nil {
			return
		}
	}
}

// read passes on what comes as pieces, until nothing comes any more or the lane
// has ended.
func (r *Relay) read(from io.Reader, d Direction, pieces chan<- piece, ended <-chan struct{}) {
	defer close(pieces)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case pieces <- piece{slices.Clone(buf[:n]), r.due(d)}:
			case <-ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// due returns when a piece that comes now may pass.
func (r *Relay) due(d Direction) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.flow[d].delay)
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader

	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// pass waits until bytes may pass, and reports whether the relay is still open.
func (r *Relay) pass(src net.Conn, l *lane, due time.Time) bool {
	time.Sleep(time.Until(due)) //nolint:forbidigo // this is the fault, not a wait for something
	r.mu.Lock()
	defer r.mu.Unlock()
	l.waits = true
	for (l.lost || r.flow[l.Direction].held) && !r.closed && open(src) {
		r.moved.Wait()
	}
	l.waits = false
	return !r.closed
}

// open reports whether this side has not closed c.
func open(c net.Conn) bool { return c.SetReadDeadline(time.Time{}) == nil }
