package candidate

import (
	"cmp"
	"runtime"
	"time"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/history"
)

const sampleEvery = time.Millisecond

// sample asks every candidate all the time what it believes.
func (p *process) sample() {
	runtime.LockOSThread() // as far from the scheduling of the library's own goroutines as can be
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for !p.over.Load() {
		for _, s := range p.seats {
			before := Now()
			a := s.ask()
			p.record.add(s.who, a, history.Sample{T0: before, T1: Now()})
		}
		<-tick.C
	}
}

// ask asks once.
func (s *seat) ask() history.Answer {
	var a history.Answer
	// IsLeader is asked for itself, since it is a promise of its own: one that says that it leads, and in no term, leads in the one
	// that it led in before.
	term := s.e.Term().Number
	if s.e.IsLeader() {
		a.Leader = cmp.Or(term, s.ledBefore, s.e.Term().Number, history.Unknown)
	}
	s.ledBefore = a.Leader
	if c := s.ctx.Load(); c != nil && c.Err() == nil {
		a.Ctx = c.term.Number
	}
	a.Work = s.term.Load()
	return a
}
