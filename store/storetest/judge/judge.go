// Package judge judges an implementation of package store fully, with one call:
//
//	func TestStore(t *testing.T) {
//		judge.Run(t, func(t testing.TB) storetest.Harness {
//			server := startServer(t) // registers that no other test uses
//			return storetest.Harness{
//				Open:      func(t testing.TB) store.Store { return mystore.Dial(t, server.Addr()) },
//				Delete:    server.Admin().Delete,
//				Interrupt: server.Restart,
//			}
//		}, judge.Options{Caps: storetest.Caps{
//			NoPut:   "the server has no unconditional write",
//			NoPurge: "deletion always leaves a tombstone",
//		}})
//	}
//
// The subtests are
//
//	Contract     each claim of package store, one by one (package storetest)
//	Histories    what many clients were told while they contended, without faults
//	             and across interruptions, and whether one order of their writes
//	             explains it (package histories, by porcupine)
//	Elections    elections over the store: handover, crash, priority, pause,
//	             fencing, observers, and never two leaders (package elections)
//
// It finds what a careful reading does not: a client that repeats a write by
// itself, a read and a write that are not one step, a revision that is given
// twice, an outcome that claims too much. It does not find what only a server's
// own faults show, such as an acknowledged write that is lost with its disk:
// [histories.Trial.WithFaults] takes faults of the test's own.
//
// The package is a module of its own, for porcupine's sake. A store that is to
// need nothing but package store has its tests in a module of their own, too,
// or calls storetest alone.
package judge

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
)

// Options say what a store cannot do, and how it may be asked. The zero value
// is a store that can do everything.
type Options struct {
	// Caps are those of the contract. Where there are no interruptions, none
	// meet the histories either.
	storetest.Caps

	// Histories is how many histories without faults are recorded. The default
	// is 300, which takes some seconds where a write takes a millisecond.
	Histories int
	// Seed decides the order of the histories' calls. Zero draws one; what was
	// drawn is logged.
	Seed uint64
	// StaleConflicts tells that a conflict may be decided by what the store
	// knew before the call, as by a server that does not know yet that others
	// have replaced it. Conflicts are then left out of the order of writes.
	StaleConflicts bool

	// Lease is the shortest lease of the elections. The default is 600 ms; a
	// store whose calls take long needs more.
	Lease time.Duration
	// CoolsDown tells that each promotion waits for a lease, since the store's
	// Check reports that it may forget.
	CoolsDown bool
}

// interruptions is how many of them a history meets.
const interruptions = 5

// Run examines the store as subtests of t. It calls newHarness once for each
// claim of the contract, and once for each of the other subtests.
func Run(t *testing.T, newHarness storetest.Factory, opts Options) {
	t.Helper()
	t.Run("Contract", func(t *testing.T) { storetest.Run(t, newHarness, opts.Caps) })
	t.Run("Histories", func(t *testing.T) { Histories(t, newHarness, opts) })
	t.Run("Elections", func(t *testing.T) {
		h := newHarness(t)
		elections.Run(t, elections.Harness{Open: h.Open, Delete: h.Delete, TTL: opts.Lease, CoolsDown: opts.CoolsDown})
	})
}

// Histories is that part of [Run].
func Histories(t *testing.T, newHarness storetest.Factory, opts Options) {
	t.Helper()
	trial := histories.Trial{
		Judge:    histories.Judge{CurrentConflicts: !opts.StaleConflicts},
		Seed:     opts.Seed,
		Patience: opts.Patience,
	}
	n := opts.Histories
	if n <= 0 {
		n = 300
	}
	t.Run("WithoutFaults", func(t *testing.T) {
		h := newHarness(t)
		var sides [][]store.Store
		for range 4 {
			sides = append(sides, clients(t, h, 3))
		}
		report(t)(trial.WithoutFaults(t.Context(), n, sides...))
	})
	t.Run("AcrossInterruptions", func(t *testing.T) {
		if opts.NoInterrupt != "" {
			t.Skip(opts.NoInterrupt)
		}
		h := newHarness(t)
		if h.Interrupt == nil {
			t.Fatal("Harness.Interrupt is nil: provide it, or say in Caps.NoInterrupt why the store has none")
		}
		report(t)(trial.WithFaults(t.Context(), histories.Faulted{
			Stores: clients(t, h, 4),
			Faults: []histories.Fault{{Name: "interruption", Happen: func(*rand.Rand) error { return h.Interrupt() }}},
			Rounds: interruptions,
		}))
	})
}

func clients(t *testing.T, h storetest.Harness, n int) []store.Store {
	t.Helper()
	cs := make([]store.Store, n)
	for i := range cs {
		cs[i] = h.Open(t)
	}
	return cs
}

// report logs what a trial consisted of, and what it found.
func report(t *testing.T) func(histories.Tally, error) {
	t.Helper()
	return func(tally histories.Tally, err error) {
		t.Helper()
		t.Log(tally)
		if err != nil {
			t.Error(err)
		}
	}
}
