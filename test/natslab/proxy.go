package natslab

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
)

// A Proxy is a relay that clients of NATS reach by a URL.
type Proxy struct{ *relay.Relay }

// A Direction is one of a [relay.Relay].
type Direction = relay.Direction

// The directions.
const (
	ToServer = relay.ToServer
	ToClient = relay.ToClient
)

// NewProxy starts a proxy to host:port, and stops it when the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return &Proxy{relay.New(tb, target)}
}

// URL returns the URL by which clients reach the server through the proxy.
func (p *Proxy) URL() string { return "nats://" + p.Addr() }
