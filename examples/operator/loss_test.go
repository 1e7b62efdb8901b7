//go:build unix

package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestAnOperatorThatLosesItsLead(t *testing.T) {
	s := newStage(t)
	orders, copies, first := s.two()
	var leads, next *copied
	t.Run("CutOff", func(t *testing.T) { next = cutOff(t, s, copies, first) })
	if next == nil {
		return
	}
	_, second := s.shows("one", func(term uint64) bool { return term > first })
	leads, next = next, s.operator("operator-3")
	t.Run("Frozen", func(t *testing.T) { frozen(t, s, orders, leads, next, second) })
}

// cutOff takes NATS from the operator that leads, and returns its successor.
// The connections stay open, and nothing comes: it has to end by its own clock.
func cutOff(t *testing.T, s *stage, copies map[string]*copied, first uint64) *copied {
	leads := s.leads(copies, first)
	delete(copies, leads.name)
	var next *copied
	for _, next = range copies {
	}
	stalls := watchStalls(t)
	cut := time.Now()
	leads.nats.Hold(natslab.ToServer, natslab.ToClient)
	leads.ends(t, 1)
	takeover := next.api.await(t, "the other writes", 0, func(w write) bool { return w.term > first })
	report := fmt.Sprintf("it ended %v after it was cut off, with a lease of %v, and its successor wrote after %v; no stall was longer than %v",
		leads.at.Sub(cut).Round(time.Millisecond), lease, takeover.arrived.Sub(cut).Round(time.Millisecond), stalls.longest())
	t.Log(report)
	// The trust window ends a tenth of a lease and more before another may
	// lead. If the operator looks later than that, the machine stalled.
	if leads.at.After(takeover.arrived) && stalls.longest() < lease/50 {
		t.Error(report)
	}
	for _, w := range leads.api.all() {
		if w.arrived.After(takeover.arrived) && w.accepted() {
			t.Errorf("the API server took a write of term %d after one of term %d", w.term, takeover.term)
		}
	}
	return next
}

// frozen stops the operator that leads while a write of its is under way, until
// another has written (a lease later at the least), and then lets both go on.
func frozen(t *testing.T, s *stage, orders leader.Election, leads, next *copied, term uint64) {
	leads.api.Close()
	before := len(leads.api.all())
	if err := orders.Stop(); err != nil {
		t.Fatal(err)
	}
	leads.api.await(t, "a write is under way", before, func(w write) bool { return w.term == term })
	leads.signal(t, syscall.SIGSTOP)
	s.lead("two")
	_, later := s.shows("two", func(now uint64) bool { return now > term })

	leads.api.Open()
	late := leads.api.await(t, "the late write is answered", before, func(w write) bool { return w.status != 0 })
	if late.accepted() || !strings.Contains(late.answer, fmt.Sprintf("written in term %d", term)) {
		t.Errorf("a write of term %d after one of term %d was answered with %d: %s", term, later, late.status, late.answer)
	}
	leads.signal(t, syscall.SIGCONT)
	leads.ends(t, 1)
	for _, w := range leads.api.all()[before:] {
		if w.accepted() {
			t.Errorf("the API server took a write of term %d after one of term %d", w.term, later)
		}
	}
	s.shows("two", func(now uint64) bool { return now == later })
	select {
	case <-next.ended:
		t.Errorf("%s has ended, too: %v", next.name, next.cmd.ProcessState)
	default:
	}
}

// Stalls are the times for which this process wanted to run and did not.
type stalls struct{ worst atomic.Int64 }

func watchStalls(t *testing.T) *stalls {
	t.Helper()
	const pause = 10 * time.Millisecond
	s := &stalls{}
	ticks := time.NewTicker(pause)
	done := make(chan struct{})
	go func() {
		last := time.Now()
		for {
			select {
			case <-ticks.C:
				now := time.Now()
				s.worst.Store(max(s.worst.Load(), int64(now.Sub(last)-pause)))
				last = now
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { ticks.Stop(); close(done) })
	return s
}

func (s *stalls) longest() time.Duration {
	return time.Duration(s.worst.Load()).Round(time.Millisecond)
}
