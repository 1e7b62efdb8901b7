package roles

import (
	"context"
	"iter"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/latest"
	"github.com/seed-ff2cb582/leader/internal/leadership"
)

// A Status is what an instance knew of one role: its own part, and then who
// leads.
type Status struct {
	Name   string
	Own    engine.Status
	Leader leadership.Info
}

// A reader has not taken yet, of each role, its latest status.
type reader = latest.Queue[string, Status]

func (s *candidacy) status() Status {
	return Status{Name: s.name, Own: s.c.Status(), Leader: s.c.Leader()}
}

// Roles returns what this instance knows of its roles, in the order of their
// names.
func (m *Manager) Roles() []Status {
	candidacies := m.allCandidacies()
	all := make([]Status, len(candidacies))
	for i, s := range candidacies {
		all[i] = s.status()
	}
	return all
}

// Observe yields what this instance knows of its roles: the current state of
// each, then each change, until ctx is done or the manager has ended.
func (m *Manager) Observe(ctx context.Context) iter.Seq[Status] {
	return func(yield func(Status) bool) {
		in := m.subscribe()
		defer m.unsubscribe(in)
		for ended := false; !ended; {
			select {
			case <-in.Wake():
			case <-ctx.Done():
				return
			case <-m.done:
				ended = true
			}
			for st, ok := in.Take(); ok; st, ok = in.Take() {
				if ctx.Err() != nil || !yield(st) {
					return
				}
			}
		}
	}
}

func (m *Manager) subscribe() *reader {
	in := latest.New[string, Status]()
	m.step(func() {
		for _, s := range m.sorted() {
			in.Put(s.name, s.status())
		}
		m.readers[in] = struct{}{}
	})
	return in
}

func (m *Manager) unsubscribe(in *reader) {
	m.step(func() { delete(m.readers, in) })
}

// publish notifies the readers of a role's new state. m.mu is held.
func (m *Manager) publish(s *candidacy) {
	if len(m.readers) == 0 {
		return
	}
	st := s.status()
	for in := range m.readers {
		in.Put(s.name, st)
	}
}
