package natsconn

import (
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectWithin is Connect within a time, however many servers there are to
// try: nats.Timeout is for each of them. What the connection does once it has
// been made is not bounded.
func (s Settings) ConnectWithin(d time.Duration, name string, opts ...nats.Option) (*nats.Conn, error) {
	given := nats.GetDefaultOptions()
	for _, opt := range append(slices.Clone(s.Options), opts...) {
		if err := opt(&given); err != nil {
			return nil, err
		}
	}
	b := &dialer{through: given.CustomDialer, timeout: given.Timeout, until: time.Now().Add(d)}
	defer b.over.Store(true)
	return s.Connect(name, append(slices.Clone(opts), nats.SetCustomDialer(b))...)
}

// A dialer ends what it does at a time, before it is over.
type dialer struct {
	through nats.CustomDialer // a proxy's, nil for none
	timeout time.Duration     // of each dial that follows
	until   time.Time
	over    atomic.Bool
}

// Dial implements [nats.CustomDialer].
func (b *dialer) Dial(network, address string) (net.Conn, error) {
	own := net.Dialer{Timeout: b.timeout}
	if !b.over.Load() {
		own = net.Dialer{Deadline: b.until}
	}
	dial := own.Dial
	if b.through != nil {
		dial = b.through.Dial
	}
	c, err := dial(network, address)
	if err != nil {
		return nil, err
	}
	return &conn{c, b}, nil
}

// A conn has no deadline after the dialer's: the client sets that of the
// server's greeting by it.
type conn struct {
	net.Conn

	of *dialer
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetDeadline(c.of.bounded(t)) }

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.of.bounded(t)) }

func (b *dialer) bounded(t time.Time) time.Time {
	if b.over.Load() || t.IsZero() || t.Before(b.until) {
		return t
	}
	return b.until
}
