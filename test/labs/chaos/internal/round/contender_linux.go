package round

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/arena"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/process"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Contender is a candidate of the round, whichever process it runs in at present.
type Contender struct {
	ID       string
	Settings schedule.Settings
	// Fault is held while something is done to the candidate: one fault at a
	// time.
	Fault sync.Mutex

	r       *Round
	rate    int // of its clocks, in thousandths
	proxies []*natslab.Relay

	mu      sync.Mutex // guards what follows
	current *process.Process
	begun   int
}

// Begin starts the candidate's process, if it does not run.
func (s *Contender) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.current.Alive() {
		return
	}
	s.begun++
	s.current = s.r.begin(s.r.spec(fmt.Sprintf("%s-%d", s.ID, s.begun), s.ID, []string{s.ID}, arena.URLs(s.proxies), s.rate, s.Settings))
}

// Process returns the process in which the candidate runs, or ran last.
func (s *Contender) Process() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Each does something with the proxies between the candidate and each server.
func (s *Contender) Each(f func(*natslab.Relay)) {
	for _, p := range s.proxies {
		f(p)
	}
}

// Link returns the proxy by which the candidate is connected, nil for none. Of
// more than one, as for the moment of a change, it is any but the given one.
func (s *Contender) Link(but *natslab.Relay) *natslab.Relay {
	for _, p := range s.proxies {
		if p != but && p.Connections() > 0 {
			return p
		}
	}
	return nil
}

// Again does something again and again, with random pauses, for as long as the
// fault lasts.
func (s *Contender) Again(f schedule.Fault, low, high time.Duration, do func()) {
	rng := f.RNG()
	for end := time.Now().Add(f.Length); time.Now().Before(end) && !s.r.Done(); {
		do()
		s.r.Sleep(schedule.Between(rng, low, high))
	}
}
