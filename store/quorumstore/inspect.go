package quorumstore

import (
	"context"
	"sync"
)

// A MemberState is what one member holds of a key, for people.
type MemberState struct {
	// Name is the member's.
	Name string
	// Err is why nothing is known of the member; the rest is zero then.
	Err error
	// Revision is the revision of the member's register, 0 if it has none.
	Revision uint64
	// Memory reports whether the member accepted a value, or "nothing". Without
	// memory it has no vote: the key was never written there, or the member
	// forgot it.
	Memory bool
	// Version is the version of the value that it accepted last, 0 for
	// "nothing". Whether that value is chosen depends on the other members.
	Version uint64
	// Lag is by how much the largest version among the members exceeds Version:
	// the number of writes that it missed, unless the key was deleted between. It
	// is 1 for a member without a version, since versions begin at the clock.
	Lag uint64
}

// Inspect returns what each member holds of a key, in the order of the members,
// for people. It asks them all and waits for their answers. Its error is
// [store.ErrInvalid] for an invalid key, or [store.ErrClosed].
func (s *Store) Inspect(ctx context.Context, key string) ([]MemberState, error) {
	if err := s.admit(ctx, key); err != nil {
		return nil, err
	}
	r := s.register(key)
	states := make([]MemberState, len(s.members))
	var all sync.WaitGroup
	for i, m := range s.members {
		all.Go(func() {
			states[i] = MemberState{Name: m.name}
			e, err := m.Get(ctx, key)
			if err != nil {
				states[i].Err = err
				return
			}
			a, err := r.ours(i, e)
			if err != nil {
				states[i].Err = err
				return
			}
			states[i].Revision, states[i].Memory, states[i].Version = e.Revision, a.Accepted(), a.Version
		})
	}
	all.Wait()
	newest := uint64(0)
	for i := range states {
		newest = max(newest, states[i].Version)
	}
	for i := range states {
		if states[i].Err == nil {
			states[i].Lag = newest - states[i].Version
			if states[i].Version == 0 {
				states[i].Lag = min(newest, 1)
			}
		}
	}
	return states, nil
}
