package natslab

import "testing"

// atOnce is how many clusters of a test process run at one time. More of them
// on two cores hold each other up until their servers doubt that the others
// live, and gain nothing.
const atOnce = 3

var clusters = make(chan struct{}, atOnce)

// takeSlot waits until few enough clusters run, for as long as it takes, and
// keeps the slot until the test has ended. A test that runs in parallel with
// others starts one cluster, since two that each hold one and wait for a second
// would wait for ever.
func takeSlot(tb testing.TB, servers int) {
	tb.Helper()
	_, parallel := tb.(interface{ Parallel() })
	if servers < 2 || !parallel {
		return
	}
	clusters <- struct{}{}
	tb.Cleanup(func() { <-clusters })
}
