package natsconn

import (
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectWithin is Connect that dials no server of the URL after d. nats.Timeout
// alone bounds each server, and so multiplies with their number. The bound ends
// when the connection is established.
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

// A dialer makes no connection after until. When over is set, it dials with
// timeout.
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
	return dial(network, address)
}
