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

// Answers is [relay.Answers].
type Answers = relay.Answers

// NewProxy starts a proxy to host:port, and stops it when the test ends.
func NewProxy(tb testing.TB, target string) *Proxy { return NewProxyOf(tb, target, nil) }

// NewProxyOf is [NewProxy] with a function that passes on the server's answers:
// see [relay.NewOf].
func NewProxyOf(tb testing.TB, target string, answers Answers) *Proxy {
	tb.Helper()
	return &Proxy{relay.NewOf(tb, target, answers)}
}

// URL returns the URL by which clients reach the server through the proxy.
func (p *Proxy) URL() string { return "nats://" + p.Addr() }
