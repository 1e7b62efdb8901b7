package telemetry

import (
	"slices"
	"strings"
	"sync"

	"github.com/seed-ff2cb582/leader"
)

// An Identity distinguishes the measurements of one election from another's.
// Its fields are the values of the [Labels].
type Identity struct {
	// Group and InstanceID are the candidate's.
	Group, InstanceID string
	// Bucket is empty with stores that have none.
	Bucket string
}

// IdentityOf returns the identity of an election. Every field is valid UTF-8:
// a library that refuses one label may refuse the whole scrape with it.
func IdentityOf(cfg leader.ElectionConfig) Identity {
	return Identity{printable(cfg.Group), printable(cfg.InstanceID), printable(cfg.Bucket)}
}

func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Values returns the values of all labels of a metric: first the common ones of
// [Labels], then own, the values of the labels that the metric's [Definition]
// names.
func (id Identity) Values(own []string) []string {
	return slices.Concat([]string{id.Group, id.InstanceID, id.Bucket}, own)
}

// A Roster holds what an adapter shows of each election that runs. The zero
// Roster is empty and ready for use. Its methods may be called concurrently.
type Roster[T comparable] struct {
	mu   sync.RWMutex
	runs map[Identity][]T // in the order of their starts; the last is shown
}

// Show adds what an adapter shows of an election, until it has stopped. The
// election must be given the returned hooks, which take it out again. Of two
// elections of one identity the later is shown while both run, since a program
// may start an election before its predecessor has stopped.
func (r *Roster[T]) Show(id Identity, what T) leader.Hooks {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs == nil {
		r.runs = make(map[Identity][]T)
	}
	r.runs[id] = append(r.runs[id], what)
	return leader.Hooks{Transition: func(t leader.Transition) {
		if t.To == leader.StateStopped {
			r.hide(id, what)
		}
	}}
}

func (r *Roster[T]) hide(id Identity, what T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[id] = slices.DeleteFunc(r.runs[id], func(other T) bool { return other == what })
	if len(r.runs[id]) == 0 {
		delete(r.runs, id)
	}
}

// All returns what is shown, in no order.
func (r *Roster[T]) All() []T {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]T, 0, len(r.runs))
	for _, of := range r.runs {
		all = append(all, of[len(of)-1])
	}
	return all
}
