package roles

import (
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// verdicts are on their way from the health checks to the manager's goroutine.
type verdicts struct {
	wake chan struct{} // holds one if something waits

	mu     sync.Mutex
	events []machine.Event
	notes  []engine.Note
}

func (v *verdicts) tell(ev machine.Event) { v.put(func() { v.events = append(v.events, ev) }) }

// panicked returns a function that reports a panic of what, by way of the
// manager's goroutine, since hooks are called from one.
func (v *verdicts) panicked(what string) func(value any, stack []byte) {
	return func(value any, stack []byte) {
		n := engine.Note{At: time.Now(), Kind: engine.NotePanic, Text: shield.Text(what, value, stack)}
		v.put(func() { v.notes = append(v.notes, n) })
	}
}

func (v *verdicts) put(change func()) {
	v.change(change)
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

func (v *verdicts) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

func (v *verdicts) take() (events []machine.Event, notes []engine.Note) {
	v.change(func() {
		events, notes = v.events, v.notes
		v.events, v.notes = nil, nil
	})
	return events, notes
}

// takeVerdicts passes on to all roles whether the instance is fit to lead.
func (m *Manager) takeVerdicts() {
	events, notes := m.verdicts.take()
	for _, n := range notes {
		m.report(n)
	}
	for _, ev := range events {
		m.diagnose(ev)
	}
}

// report has one election that runs report a note, so that the hooks of that
// election hear of it, and those of all roles hear of it once: what happened
// once is counted once. It is the first by name, which is the same each time.
func (m *Manager) report(n engine.Note) {
	reports := func(s *seat) bool { return s.c.Report(n) }
	if !slices.ContainsFunc(m.allSeats(), reports) {
		m.cfg.Note(n)
	}
}

// diagnose takes in a verdict about this instance's health.
func (m *Manager) diagnose(ev machine.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sick = nil
	if ev.Kind == machine.Bar {
		m.sick = &ev
	}
	for _, s := range m.seats {
		if !s.c.Over() { // nobody would read it
			s.c.Bar(ev)
		}
	}
}
