package k8sstore

import (
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// A memory holds the Leases that the store saw last: a write needs the whole
// object, its uid above all. Not to know one costs a read before the write.
type memory struct {
	mu     sync.Mutex
	leases map[string]*lease
}

// most is how many Leases are remembered. A program that has to do with more
// forgets all of them now and then.
const most = 10_000

// last returns the Lease that was seen last of a key, or nil. It must not be
// modified.
func (m *memory) last(key string) *lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leases[key]
}

// see takes a Lease as the server sent it, and remembers it: news, which may be
// old, only in place of an older one.
func (m *memory) see(key string, sent *coordinationv1.Lease, news bool) (*lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	previous := m.leases[key]
	l, err := newLease(key, sent, previous)
	if err != nil {
		return nil, err
	}
	if m.leases == nil || len(m.leases) >= most {
		m.leases = make(map[string]*lease)
	}
	if previous == nil || !news || previous.rev < l.rev {
		m.leases[key] = l
	}
	return l, nil
}

// forget forgets a Lease that is gone.
func (m *memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, key)
}
