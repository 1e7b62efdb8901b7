//go:build unix

package figures_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
)

// lag delays answers while round trips are counted: a renewal of two round
// trips takes at least twice as long, and a renewal of one does not, unless the
// machine stalls each time.
const lag = 200 * time.Millisecond

// trips counts the round trips of a renewal, and its bytes both ways.
func trips(t *testing.T, p place) (trips, bytes int) {
	t.Helper()
	way := relay.New(t, p.addr)
	w := newWriter(t, p.at(way.Addr()), "trips")
	w.swap(t)
	w.swap(t) // by a connection that is there
	const swaps = 5
	way.Delay(lag, relay.ToClient)
	before := way.Bytes()
	least := time.Duration(1<<63 - 1)
	for range swaps {
		begun := time.Now()
		w.swap(t)
		least = min(least, time.Since(begun))
	}
	bytes = int(way.Bytes()-before) / swaps
	_ = w.st.Close() // what is measured afterwards is without it
	return int(least / lag), bytes
}
