// Package quorumlab measures elections over quorums of stores for
// docs/guides/quorum.md.
package quorumlab

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Renewals returns the times of n writes of a record, each over the one before,
// with a pause before it.
func Renewals(tb testing.TB, st store.Store, n int, pause time.Duration) (took []time.Duration) {
	tb.Helper()
	e, err := st.Get(natslab.Within(tb), "renewed")
	if err != nil {
		tb.Fatal(err)
	}
	rev := e.Revision
	for i := range n + 1 {
		if pause > 0 {
			<-time.After(pause)
		}
		began := time.Now()
		next, err := st.CompareAndSwap(natslab.Within(tb), store.Write{Key: "renewed", Expected: rev, Value: make([]byte, 300)})
		if err != nil {
			tb.Fatal(err)
		}
		if rev = next; i > 0 {
			took = append(took, time.Since(began))
		}
	}
	return took
}

// Handovers measures handovers among elections. Call Add for each before its
// Start.
type Handovers struct {
	promoted chan leader.Election
	leading  leader.Election
}

// NewHandovers returns Handovers among no elections.
func NewHandovers() *Handovers { return &Handovers{promoted: make(chan leader.Election, 1024)} }

// Add adds an election that has not started.
func (h *Handovers) Add(e leader.Election) {
	e.OnPromote(func(context.Context, string) { h.promoted <- e })
}

// Measure has the leader resign, and returns the time until another candidate's
// OnPromote is called. It waits without computing: whatever polls IsLeader in a
// loop keeps the Go scheduler from the network for up to 10 ms at a time.
func (h *Handovers) Measure(tb testing.TB) time.Duration {
	tb.Helper()
	limit := natslab.Within(tb)
	await := func() {
		select {
		case h.leading = <-h.promoted:
		case <-limit.Done():
			tb.Fatal("nobody leads")
		}
	}
	for h.leading == nil || len(h.promoted) > 0 {
		await()
	}
	began := time.Now()
	if err := h.leading.Resign(limit); err != nil {
		tb.Fatal(err)
	}
	await()
	return time.Since(began)
}

// Spread describes the median, the 90th percentile and the largest of the
// times.
func Spread(took []time.Duration) string {
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("median %v, p90 %v, largest %v, of %d", at(0.5), at(0.9), at(1), len(took))
}
