package demo

import (
	"context"
	"net"
	"sync"
	"time"
)

// A network dials connections that can be cut: then nothing passes in either
// direction, and no error reports it, until they are healed. Data that was sent
// meanwhile arrives late, as after a partition between machines. It is a
// nats.CustomDialer.
type network struct {
	// through, optional, dials instead of the net package.
	through interface {
		Dial(network, address string) (net.Conn, error)
	}
	timeout time.Duration

	mu     sync.Mutex
	healed chan struct{} // closed while the network is whole
	conns  map[*link]struct{}
	waits  map[*delivery]struct{} // of what comes from a store
}

func newNetwork(timeout time.Duration) *network {
	n := &network{timeout: timeout, healed: make(chan struct{}), conns: map[*link]struct{}{}, waits: map[*delivery]struct{}{}}
	close(n.healed)
	return n
}

// Dial waits while the network is cut, as a dialer that gets no answer does. A
// refusal would be news of the server, which somebody who is cut off does not
// get.
func (n *network) Dial(proto, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
	defer cancel()
	select {
	case <-n.whole():
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: proto, Err: ctx.Err()}
	}
	conn, err := n.dial(ctx, proto, address)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: conn, net: n, closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[l] = struct{}{}
	return l, nil
}

// dial dials, with no regard to whether the network is cut.
func (n *network) dial(ctx context.Context, proto, address string) (net.Conn, error) {
	if n.through != nil {
		return n.through.Dial(proto, address)
	}
	return (&net.Dialer{}).DialContext(ctx, proto, address)
}

// whole returns a channel that is closed while the network is not cut.
func (n *network) whole() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.healed
}

// cut has nothing pass until heal. It may be called again.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if isClosed(n.healed) {
		n.healed = make(chan struct{})
	}
}

// heal lets pass what was held back, in order. It is sent under the lock,
// before the network counts as whole: else a write that comes now would
// overtake it. Deliveries look at the network themselves, which takes the lock
// again, and so get goroutines of their own.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if isClosed(n.healed) {
		return
	}
	for l := range n.conns {
		l.flush()
	}
	close(n.healed)
	for d := range n.waits {
		go d.flush()
	}
}

// isClosed reports whether a channel that carries nothing is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A link is one connection of a network.
type link struct {
	net.Conn
	net    *network
	once   sync.Once
	closed chan struct{}
	held   []byte // written while cut; guarded by net.mu
}

// Read holds back what arrives while the network is cut. It reads first and
// waits then: bytes that came before the cut, and were not taken, are late as
// well, which does no harm.
func (l *link) Read(b []byte) (int, error) {
	count, err := l.Conn.Read(b)
	select {
	case <-l.net.whole():
		return count, err
	case <-l.closed:
		return 0, net.ErrClosed
	}
}

// Write succeeds at once while the network is cut, as it does as long as the
// system has room to buffer what it cannot deliver.
func (l *link) Write(b []byte) (int, error) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if !isClosed(l.net.healed) {
		l.held = append(l.held, b...)
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// flush sends what was held back. An error shows at the next read.
func (l *link) flush() {
	_, _ = l.Conn.Write(l.held)
	l.held = nil
}

// Close closes the connection, also while it is cut. Data that was held back is
// lost.
func (l *link) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.net.mu.Lock()
	delete(l.net.conns, l)
	l.net.mu.Unlock()
	return l.Conn.Close()
}
