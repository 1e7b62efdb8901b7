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

// sample asks every candidate all the time what it believes. It has its own
// thread, which the kernel wakes. If the runtime woke it, a process that
// continues after SIGSTOP would catch up on missed events before the sampler
// could see what it had believed until then.
func (p *process) sample() {
	runtime.LockOSThread()
	pause := unix.NsecToTimespec(int64(sampleEvery))
	for !p.over.Load() {
		for _, s := range p.contenders {
			before := overlap.Now()
			a := s.ask()
			p.record.add(s.who, a, history.Sample{T0: before, T1: overlap.Now()})
		}
		_ = unix.Nanosleep(&pause, nil) // a signal ends it early, which does no harm
	}
}

// ask asks once. The order changes from time to time: who is asked first may
// find out for the others that the term is over.
func (s *contender) ask() history.Answer {
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

// askLeader asks IsLeader separately, since it makes its own promise. A
// candidate that claims to lead but names no term leads in the term that it led
// in before.
func (s *contender) askLeader() uint64 {
	term := s.e.Term().Number
	led := s.ledBefore
	s.ledBefore = 0
	if s.e.IsLeader() {
		s.ledBefore = cmp.Or(term, led, s.e.Term().Number, history.Unknown)
	}
	return s.ledBefore
}

func (s *contender) askContext() uint64 {
	if c := s.ctx.Load(); c != nil && c.Err() == nil {
		return c.term.Number
	}
	return 0
}
