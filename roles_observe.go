package leader

import (
	"context"
	"iter"
	"sync"
)

// A RoleStatus is what an instance knew of one role at one instant.
type RoleStatus struct {
	// Name is the role's.
	Name string
	// ElectionStatus is the instance's own part: its state, its term, its trust window, what keeps it from
	// campaigning. A role that was removed is told of a last time, with StateStopped.
	ElectionStatus
	// Leader is who leads the role, this instance included, or why nobody does.
	Leader LeaderInfo
}

// Roles returns what this instance knows of its roles, in the order of their names.
func (m *RoleManager) Roles() []RoleStatus {
	seats := m.allSeats()
	roles := make([]RoleStatus, len(seats))
	for i, s := range seats {
		roles[i] = s.status()
	}
	return roles
}

func (s *seat) status() RoleStatus {
	return RoleStatus{Name: s.name, ElectionStatus: s.e.Status(), Leader: s.e.leader()}
}

// Observe yields what this instance knows of its roles: the present state of each first, then each change of who leads or of
// its own part, until ctx is done or the manager has stopped. Roles that are added later are among them. A slow reader skips
// states, but hears of the last one of every role. Renewals are not yielded.
func (m *RoleManager) Observe(ctx context.Context) iter.Seq[RoleStatus] {
	return func(yield func(RoleStatus) bool) {
		in := m.subscribe()
		defer m.unsubscribe(in)
		for ended := false; !ended; {
			select {
			case <-in.wake:
			case <-ctx.Done():
				return
			case <-m.done:
				ended = true
			}
			for st, ok := in.take(); ok; st, ok = in.take() {
				if ctx.Err() != nil || !yield(st) {
					return
				}
			}
		}
	}
}

func (m *RoleManager) subscribe() *roleInbox {
	in := &roleInbox{wake: make(chan struct{}, 1), waiting: make(map[string]RoleStatus)}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sorted() {
		in.put(s.status())
	}
	m.readers[in] = struct{}{}
	return in
}

func (m *RoleManager) unsubscribe(in *roleInbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.readers, in)
}

// publish tells the readers of a role's new state. m.mu is held.
func (m *RoleManager) publish(s *seat) {
	if len(m.readers) == 0 {
		return
	}
	st := s.status()
	for in := range m.readers {
		in.put(st)
	}
}

// A roleInbox is what one reader has not taken yet: of each role the latest state, those first that began to
// wait first.
type roleInbox struct {
	wake chan struct{} // holds one if something waits

	mu      sync.Mutex
	waiting map[string]RoleStatus
	order   []string // the names of waiting
}

func (in *roleInbox) put(st RoleStatus) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, waits := in.waiting[st.Name]; !waits {
		in.order = append(in.order, st.Name)
	}
	in.waiting[st.Name] = st
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *roleInbox) take() (st RoleStatus, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.order) == 0 {
		return st, false
	}
	name := in.order[0]
	in.order = in.order[1:]
	st = in.waiting[name]
	delete(in.waiting, name)
	return st, true
}
