package natsconn

import (
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectWithin is Connect with a bound for all servers of the URL together,
// where nats.Timeout bounds each server. The bound ends when the connection is
// established.
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

// A dialer gives up at until. When over is set, it dials with timeout.
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

// A conn limits its deadlines to the dialer's. The client waits for the
// server's greeting with a deadline.
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
