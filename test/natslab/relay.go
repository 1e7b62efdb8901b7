package natslab

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
)

// A Relay is a relay that clients of NATS reach by a URL.
type Relay struct{ *relay.Relay }

// A Direction is one of a [relay.Relay].
type Direction = relay.Direction

// The directions.
const (
	ToServer = relay.ToServer
	ToClient = relay.ToClient
)

// NewRelay starts a relay to host:port, and stops it when the test ends.
func NewRelay(tb testing.TB, target string) *Relay {
	tb.Helper()
	return &Relay{relay.New(tb, target)}
}

// URL returns the URL by which clients reach the server through the relay.
func (p *Relay) URL() string { return "nats://" + p.Addr() }
