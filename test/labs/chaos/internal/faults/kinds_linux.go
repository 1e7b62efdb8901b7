package faults

import (
	"fmt"
	"slices"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/round"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// A kind is a kind of fault.
type kind struct {
	schedule.Kind
	// do does it, and returns when it is over.
	do func(*round.Round, schedule.Fault)
}

// all are all of them. Their order decides what a seed draws.
var all = slices.Concat(candidateKinds, starvingKinds, serverKinds, partitionKinds, linkKinds)

// at is a kind of fault that is done to one candidate.
func at(name, does string) schedule.Kind {
	return schedule.Kind{Name: name, Does: does, Suits: schedule.Everywhere}
}

// hiding is a kind of fault that takes the record away, or makes it unreadable.
func hiding(k schedule.Kind) schedule.Kind {
	k.Hides = true
	return k
}

// replicated is a kind of fault of one candidate that needs three servers.
func replicated(k schedule.Kind) schedule.Kind {
	k.Suits = schedule.Replicated
	return k
}

// atServers is a kind of fault that is done to the servers or to what they
// store.
func atServers(name, does string, suits func(schedule.Shape) bool) schedule.Kind {
	return schedule.Kind{Name: name, Does: does, AtServers: true, Suits: suits}
}

// Kinds returns all kinds of faults.
func Kinds() []schedule.Kind {
	kinds := make([]schedule.Kind, len(all))
	for i, k := range all {
		kinds[i] = k.Kind
	}
	return kinds
}

// Do does a fault to a round, and returns when it is over.
func Do(r *round.Round, f schedule.Fault) {
	i := slices.IndexFunc(all, func(k kind) bool { return k.Name == f.Kind.Name })
	all[i].do(r, f)
}

// Known returns an error if there is no fault of one of the names.
func Known(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(k kind) bool { return k.Name == name }) {
			return fmt.Errorf("there is no fault %q; they are listed in docs/evidence/chaos.md", name)
		}
	}
	return nil
}
