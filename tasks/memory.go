package tasks

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// Memory is a store of one program: for tests, and for tasks that may be lost
// when it ends. Make one with [NewMemory].
type Memory struct {
	mu      sync.Mutex
	rev     uint64
	entries map[string]Entry
	watches map[*Watch]struct{}
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{entries: map[string]Entry{}, watches: map[*Watch]struct{}{}}
}

// Write implements [Store]. It calls done before it returns.
func (m *Memory) Write(w Write, done func(uint64, error)) { done(m.write(w)) }

func (m *Memory) write(w Write) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[w.ID].Revision != w.Expected {
		return 0, ErrConflict
	}
	m.rev++
	e := Entry{ID: w.ID, Revision: m.rev, Record: w.Record}
	m.entries[w.ID] = e
	for watch := range m.watches {
		if w.Record.Term != 0 && w.Record.Term == watch.Term {
			watch.Deliver(Entry{Revision: m.rev})
		} else {
			watch.Deliver(e)
		}
	}
	return m.rev, nil
}

// Read implements [Store].
func (m *Memory) Read(_ context.Context, id string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[id]
	if !ok {
		return Entry{}, ErrNotFound
	}
	return e, nil
}

// Watch implements [Store].
func (m *Memory) Watch(ctx context.Context, w Watch) error {
	m.begin(&w)
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watches, &w)
	}()
	<-ctx.Done()
	return nil
}

func (m *Memory) begin(w *Watch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []Entry
	for _, e := range m.entries {
		if !e.Record.State.Finished() {
			open = append(open, e)
		}
	}
	slices.SortFunc(open, func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, e := range open {
		w.Deliver(e)
	}
	w.Deliver(Entry{Revision: m.rev})
	w.Present()
	m.watches[w] = struct{}{}
}

// Checkpoint implements [Store]. There is nothing to do.
func (m *Memory) Checkpoint(context.Context, uint64) error { return nil }

// Forget removes the records of finished tasks, and returns how many.
func (m *Memory) Forget() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, e := range m.entries {
		if e.Record.State.Finished() {
			delete(m.entries, id)
			n++
		}
	}
	return n
}

// A Local is a transport within one program. The zero Local is ready.
type Local struct {
	mu      sync.Mutex
	leaders map[*localEnd]func(wire.FromWorker)
	workers map[*localEnd]func(wire.ToWorker)
}

var (
	_ Hub  = (*Local)(nil)
	_ Link = (*Local)(nil)
)

// A localEnd is a leader or a worker that hears.
type localEnd struct {
	l           *Local
	group, name string
}

// Open implements [Hub].
func (l *Local) Open(_ context.Context, group string, hear func(wire.FromWorker)) (Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaders == nil {
		l.leaders = map[*localEnd]func(wire.FromWorker){}
	}
	end := &localEnd{l: l, group: group}
	l.leaders[end] = hear
	return end, nil
}

// Send implements [Conn].
func (e *localEnd) Send(worker string, m wire.ToWorker) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for w, hear := range e.l.workers {
		if w.group == e.group && (worker == "" || w.name == worker) {
			hear(m)
		}
	}
}

// Close implements [Conn].
func (e *localEnd) Close() {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	delete(e.l.leaders, e)
}

// Join implements [Link].
func (l *Local) Join(_ context.Context, group, worker string, hear func(wire.ToWorker)) (Seat, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers == nil {
		l.workers = map[*localEnd]func(wire.ToWorker){}
	}
	end := &localEnd{l: l, group: group, name: worker}
	l.workers[end] = hear
	return localSeat{end}, nil
}

type localSeat struct{ *localEnd }

// Say implements [Seat].
func (s localSeat) Say(m wire.FromWorker) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	for end, hear := range s.l.leaders {
		if end.group == s.group {
			hear(m)
		}
	}
}

// Close implements [Seat].
func (s localSeat) Close() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	delete(s.l.workers, s.localEnd)
}
