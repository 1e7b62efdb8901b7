// Package quorumlab measures elections over quorums of stores for
// docs/guides/quorum.md.
package quorumlab

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Renewals returns the times of n writes of a record, each over the one before.
func Renewals(tb testing.TB, st store.Store, n int) (took []time.Duration) {
	tb.Helper()
	e, err := st.Get(natslab.Within(tb), "renewed")
	if err != nil {
		tb.Fatal(err)
	}
	rev := e.Revision
	for i := range n + 1 {
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

// Handover has the leader resign, and returns the time until another candidate
// leads.
func Handover[E leader.Election](tb testing.TB, all ...E) time.Duration {
	tb.Helper()
	var l E
	led := func(other bool) bool {
		for _, e := range all {
			if e.IsLeader() && !(other && leader.Election(e) == leader.Election(l)) {
				l = e
				return true
			}
		}
		return false
	}
	limit := natslab.Within(tb)
	await := func(other bool) {
		for !led(other) {
			if limit.Err() != nil {
				tb.Fatal("nobody leads")
			}
			runtime.Gosched()
		}
	}
	await(false)
	began := time.Now()
	if err := l.Resign(limit); err != nil {
		tb.Fatal(err)
	}
	await(true)
	return time.Since(began)
}

// Spread describes the median, the 90th percentile and the largest of the
// times.
func Spread(took []time.Duration) string {
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("median %v, p90 %v, largest %v, of %d", at(0.5), at(0.9), at(1), len(took))
}
