// Package memstore keeps an election's registers in the memory of one process:
// for tests, simulations, and programs that elect among their own goroutines or
// run on a single machine.
//
//	s := memstore.New()
//	a, err := leader.NewElectionWithStore(s, cfgA)
//	b, err := leader.NewElectionWithStore(s, cfgB)
//
// # What it guarantees
//
// All four promises of package store, in their strongest form: compare-and-swap
// is linearizable over all keys, Get is never stale, and one counter numbers
// the writes of all keys, as the stream of a NATS bucket does, so revisions
// strictly increase across keys too. A watch delivers without delay and blocks
// no writer: of a register that changes faster than its watcher listens it
// delivers the latest state. No call ever ends unknown.
//
// A Store starts goroutines only to deliver, and each ends when it has
// delivered. So a Store works inside a bubble of testing/synctest, if it is
// used there alone, and an idle one costs nothing but memory.
//
// # What it does not guarantee
//
// Nothing survives the process. That never makes two leaders, because the
// candidates of a Store die with it, all of them: none is left that trusts a
// lease which the next process does not know. For that reason [Store.Check]
// does not call it forgetful, and elections on it need no cool-down. But the
// next process counts revisions, and with them terms, from
// [Options.FirstRevision] again: a fenced resource that outlives the process
// refuses them until they pass the old ones. Where there is such a resource,
// set FirstRevision to the current time in microseconds.
package memstore
