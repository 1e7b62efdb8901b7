package roles

import (
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// verdicts are on their way from the health checks to the manager's goroutine,
// since hooks are called from one.
type verdicts struct {
	events []machine.Event
	notes  []engine.Note
}

func (m *Manager) verdict(ev machine.Event) {
	m.step(func() {
		m.verdicts.events = append(m.verdicts.events, ev)
		m.nudge()
	})
}

// checkPanicked returns a function that reports a panic of a health check.
func (m *Manager) checkPanicked(what string) func(value any, stack []byte) {
	return func(value any, stack []byte) {
		n := engine.Note{At: time.Now(), Kind: engine.NotePanic, Text: shield.Text(what, value, stack)}
		m.step(func() {
			m.verdicts.notes = append(m.verdicts.notes, n)
			m.nudge()
		})
	}
}

// takeVerdicts passes on to all roles whether the instance is fit to lead.
func (m *Manager) takeVerdicts() {
	var v verdicts
	m.step(func() { v, m.verdicts = m.verdicts, verdicts{} })
	for _, n := range v.notes {
		m.report(n)
	}
	for _, ev := range v.events {
		m.diagnose(ev)
	}
}

// report makes one running election report a note: that election's hooks hear
// of it, and the hooks of all roles hear of it once, so that what happened once
// is counted once. It is always the first election by name.
func (m *Manager) report(n engine.Note) {
	reports := func(s *candidacy) bool { return s.c.Report(n) }
	if !slices.ContainsFunc(m.allCandidacies(), reports) {
		m.cfg.Note(n)
	}
}

// diagnose takes in a verdict about this instance's health.
func (m *Manager) diagnose(ev machine.Event) {
	m.step(func() {
		m.sick = nil
		if ev.Kind == machine.Bar {
			m.sick = &ev
		}
		for _, s := range m.candidacies {
			if !s.c.Over() { // nobody would read it
				s.c.Bar(ev)
			}
		}
	})
}
