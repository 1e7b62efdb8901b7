package telemetry

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/seed-ff2cb582/leader"
)

// An Identity is what tells the measurements of one election from those of another: the values of the [Labels].
type Identity [3]string

// IdentityOf returns the identity of an election. It is valid UTF-8 whatever the configuration holds: an election has
// no other names, but one that cannot be shown could cost the adapter all the rest.
func IdentityOf(cfg leader.ElectionConfig) Identity {
	id := Identity{cfg.Group, cfg.InstanceID, cfg.Bucket}
	for i := range id {
		id[i] = strings.ToValidUTF8(id[i], "\uFFFD")
	}
	return id
}

// Values returns the values of all labels of a metric, of which labels are those that it has besides.
func (id Identity) Values(labels []string) []string { return slices.Concat(id[:], labels) }

// A Roster holds what an adapter shows of each election that runs. The zero Roster is empty. Its methods may be
// called concurrently.
type Roster[T comparable] struct {
	mu    sync.RWMutex
	shown map[Identity]T
}

// Show adds an election until it has stopped, which the returned hooks take care of. Of two elections of one
// identity the later is shown: a program may start an election before its predecessor has stopped.
func (r *Roster[T]) Show(id Identity, what T) leader.Hooks {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown == nil {
		r.shown = make(map[Identity]T)
	}
	r.shown[id] = what
	return leader.Hooks{Transition: func(t leader.Transition) {
		if t.To == leader.StateStopped {
			r.hide(id, what)
		}
	}}
}

func (r *Roster[T]) hide(id Identity, what T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown[id] == what {
		delete(r.shown, id)
	}
}

// All returns what is shown, in no order.
func (r *Roster[T]) All() []T {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.shown))
}
