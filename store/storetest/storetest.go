// Package storetest judges implementations of package store. An implementer
// calls [Run] from one test, and the store may carry an election if every
// subtest passes:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) storetest.Harness {
//			server := startServer(t) // registers that no other test uses
//			return storetest.Harness{
//				Open:      func(t testing.TB) store.Store { return mystore.Dial(t, server.Addr()) },
//				Delete:    server.Admin().Delete,
//				Interrupt: server.Restart,
//			}
//		}, storetest.Caps{
//			NoPut:   "the server has no unconditional write",
//			NoPurge: "deletion always leaves a tombstone",
//		})
//	}
//
// The name of a subtest is the claim that it examines. A claim that a store
// cannot be asked about is skipped, and the output contains the reason: one of
// [Caps], or that the store does not implement an optional interface
// (store.ConnReporter, store.PatternWatcher, store.AsyncWriter). There is no
// other way to leave one out.
//
// A call that fails with store.ErrTransient is tried again, as an election
// does. The suite waits for events, each up to [Caps.Patience], and never for a
// time to pass, but for the few claims that something does not happen. Run it
// with the race detector: it calls the store from many goroutines.
package storetest

import "testing"

// Run examines every claim of the contract as a subtest of t.
func Run(t *testing.T, newHarness Factory, caps Caps) {
	t.Helper()
	caps = caps.withDefaults()
	for _, group := range [][]claim{
		getClaims, casClaims, keyClaims, valueClaims, raceClaims, contextClaims, watchClaims, interruptClaims, patternClaims,
	} {
		for _, c := range group {
			c.run(t, newHarness, caps)
		}
	}
	runAsync(t, newHarness, caps)
}

// run examines the claim as a subtest of t.
func (c claim) run(t *testing.T, newHarness Factory, caps Caps) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		skipUnable(t, caps, c.needs)
		x := &exam{TB: t, caps: caps, h: newHarness(t)}
		x.demandHooks(c.needs)
		x.examineAlone(c)
	})
}
