package trial

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Ways are those of clients to a pair of servers, of which one serves. Whatever
// stands between a program and a pair in operation does as much: an address
// that moves, DNS, a proxy.
type Ways []*natslab.Proxy

// NewWays returns n ways to a server.
func NewWays(tb testing.TB, n int, addr string) (ws Ways) {
	tb.Helper()
	for range n {
		ws = append(ws, natslab.NewProxy(tb, addr))
	}
	return ws
}

// Stores opens a store by each way.
func (ws Ways) Stores(open func(addr string) store.Store) (stores []store.Store) {
	for _, w := range ws {
		stores = append(stores, open(w.Addr()))
	}
	return stores
}

// Lead has all ways lead to a server.
func (ws Ways) Lead(addr string) {
	for _, w := range ws {
		w.Redirect(addr)
	}
}

// Part has nothing pass between a primary and what may take its place, for a
// while, in which clients write on: a failover that follows loses what was
// acknowledged without the other.
func Part(r *rand.Rand, link *natslab.Proxy) {
	link.Hold(natslab.ToServer, natslab.ToClient)
	<-time.After(200 * time.Millisecond)
	Last(r, 300)
}

// Rejoin has a link that was parted lead to another primary. What was held is
// lost.
func Rejoin(link *natslab.Proxy, addr string) {
	link.Redirect(addr)
	link.Resume()
}
