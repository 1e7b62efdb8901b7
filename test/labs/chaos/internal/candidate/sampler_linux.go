package candidate

import (
	"cmp"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
)

const sampleEvery = time.Millisecond

// sample asks every candidate all the time what it believes. It has a thread of
// its own, which the kernel wakes: where the runtime did, a process that was
// stopped would look at all that it has missed before the sampler could see
// what it believes until then.
func (p *process) sample() {
	runtime.LockOSThread()
	pause := unix.NsecToTimespec(int64(sampleEvery))
	for !p.over.Load() {
		for _, s := range p.seats {
			before := overlap.Now()
			a := s.ask()
			p.record.add(s.who, a, history.Sample{T0: before, T1: overlap.Now()})
		}
		_ = unix.Nanosleep(&pause, nil) // a signal ends it early, which does no harm
	}
}

// ask asks once. The order changes from time to time: who is asked first may
// find out for the others that the term is over.
func (s *seat) ask() history.Answer {
	a := history.Answer{Work: s.term.Load()}
	s.asked++
	if s.asked%2 == 0 {
		a.Ctx = s.askContext()
		a.Leader = s.askLeader()
	} else {
		a.Leader = s.askLeader()
		a.Ctx = s.askContext()
	}
	return a
}

// askLeader asks IsLeader for itself, since it is a promise of its own: one
// that says that it leads, and in no term, leads in the one that it led in
// before.
func (s *seat) askLeader() uint64 {
	term := s.e.Term().Number
	led := s.ledBefore
	s.ledBefore = 0
	if s.e.IsLeader() {
		s.ledBefore = cmp.Or(term, led, s.e.Term().Number, history.Unknown)
	}
	return s.ledBefore
}

func (s *seat) askContext() uint64 {
	if c := s.ctx.Load(); c != nil && c.Err() == nil {
		return c.term.Number
	}
	return 0
}
