package faults

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/process"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/results"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/round"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var candidateKinds = []kind{
	{at("pause", "the process is stopped (SIGSTOP) for 0.5 to 3 TTL"), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		p := s.Process()
		p.Signal(unix.SIGSTOP)
		r.Sleep(f.Length)
		p.Signal(unix.SIGCONT)
	})},
	{at("kill", "the process is killed (SIGKILL) and started again within a TTL"), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		s.Process().Kill()
		r.Sleep(f.Length / 3)
		s.Begin()
	})},
	{at("stop", "the process is ordered to stop, and started again"), atContender(func(r *round.Round, s *round.Contender, _ schedule.Fault) {
		r.Stop(s.Process())
		s.Begin()
	})},
	{at("resign", "the leader is ordered to resign"), atContender(func(_ *round.Round, s *round.Contender, _ schedule.Fault) {
		s.Process().Tell(candidate.Resign)
	})},
	{at("black hole", "nothing passes, in both directions; what was held arrives late"), hold(false, natslab.ToServer, natslab.ToClient)},
	{at("black hole to the server", "the same one way"), hold(false, natslab.ToServer)},
	{at("black hole to the client", "the same the other way: writes are applied, their answers late"), hold(false, natslab.ToClient)},
	{at("loss", "nothing passes, and what was held is lost with the connection (RST)"), hold(true, natslab.ToServer, natslab.ToClient)},
	{at("loss of answers", "writes are applied, their answers lost with the connection (RST)"), hold(true, natslab.ToClient)},
	{at("late answers before a black hole", "answers are late, but still in time for the call; and when they have arrived nothing passes"), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		s.Each(func(p *natslab.Relay) { p.Hold(natslab.ToClient) })
		r.Sleep(schedule.Between(f.RNG(), s.Settings.Timeout/2, s.Settings.Timeout))
		s.Each((*natslab.Relay).Resume)
		r.Sleep(r.Plan.TTL / 50)
		s.Each(func(p *natslab.Relay) { p.Hold(natslab.ToServer, natslab.ToClient) })
		r.Sleep(f.Length)
		s.Each((*natslab.Relay).Resume)
	})},
	{at("late writes among slow others", "nothing passes for longer than a lease; what was held arrives when some of the others hear of it late"), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		rng := f.RNG()
		s.Each(func(p *natslab.Relay) { p.Hold(natslab.ToServer, natslab.ToClient) })
		r.Sleep(schedule.Between(rng, 3*r.Plan.TTL/2, 2*r.Plan.TTL))
		for _, other := range r.Contenders {
			if rng.IntN(2) == 0 && other.Fault.TryLock() {
				defer other.Fault.Unlock()
				other.Each(func(p *natslab.Relay) { p.Delay(r.Plan.TTL/3, natslab.ToClient) })
				defer other.Each((*natslab.Relay).Resume)
			}
		}
		s.Each((*natslab.Relay).Resume)
		r.Sleep(r.Plan.TTL)
	})},
	{at("newcomers", fmt.Sprintf("nothing passes, and meanwhile %d others join, one after the other, who have heard of no record; what was held arrives late", newcomers)), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		rng := f.RNG()
		s.Each(func(p *natslab.Relay) { p.Hold(natslab.ToServer, natslab.ToClient) })
		joined := make([]*process.Process, newcomers)
		for i := range joined {
			r.Sleep(r.Plan.TTL / newcomers)
			joined[i] = r.Herd(1, drawnRate(r, rng))
		}
		s.Each((*natslab.Relay).Resume)
		for _, p := range joined {
			r.Stop(p)
		}
	})},
	{at("reset", "connections are reset (RST), again and again"), atContender(func(_ *round.Round, s *round.Contender, f schedule.Fault) {
		s.Again(f, 50*time.Millisecond, 500*time.Millisecond, func() { s.Each((*natslab.Relay).Reset) })
	})},
	{at("cut", "connections are closed and new ones refused"), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		s.Each((*natslab.Relay).Cut)
		r.Sleep(f.Length)
		s.Each((*natslab.Relay).Resume)
	})},
	{at("delay", "bytes are late by up to a third of the TTL, each time by another delay"), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		rng := f.RNG()
		s.Again(f, 20*time.Millisecond, 100*time.Millisecond, func() {
			d := schedule.Between(rng, 0, r.Plan.TTL/3)
			s.Each(func(p *natslab.Relay) { p.Delay(d, natslab.ToServer, natslab.ToClient) })
		})
		s.Each((*natslab.Relay).Resume)
	})},
	{at("flapping", "the connection is cut and comes back, again and again"), atContender(func(_ *round.Round, s *round.Contender, f schedule.Fault) {
		up := true
		s.Again(f, 20*time.Millisecond, 200*time.Millisecond, func() {
			if up = !up; up {
				s.Each((*natslab.Relay).Resume)
			} else {
				s.Each((*natslab.Relay).Cut)
			}
		})
		s.Each((*natslab.Relay).Resume)
	})},
}

// atContender does something to the candidate that the fault is for, or to another
// if something is being done to it already.
func atContender(do func(*round.Round, *round.Contender, schedule.Fault)) func(*round.Round, schedule.Fault) {
	return func(r *round.Round, f schedule.Fault) {
		l := r.Leader()
		s := take(r, f, l)
		defer s.Fault.Unlock()
		do(r, s, f)
		r.Count(func(c *results.Counts) {
			c.Did(f.Kind.Name)
			if s == l {
				c.DidAtLeader()
			}
		})
	}
}

// take returns a candidate to which nothing is being done, when there is one.
// Its fault is locked.
func take(r *round.Round, f schedule.Fault, leader *round.Contender) *round.Contender {
	if f.Leader && leader != nil && leader.Fault.TryLock() {
		return leader
	}
	for i := range r.Contenders {
		if s := r.Contenders[(f.Contender+i)%len(r.Contenders)]; s.Fault.TryLock() {
			return s
		}
	}
	s := r.Contenders[f.Contender]
	s.Fault.Lock()
	return s
}

// hold lets nothing pass in the directions, and loses what was held if lost.
func hold(lost bool, ds ...natslab.Direction) func(*round.Round, schedule.Fault) {
	return atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		s.Each(func(p *natslab.Relay) { p.Hold(ds...) })
		r.Sleep(f.Length)
		if lost {
			s.Each((*natslab.Relay).Reset)
		}
		s.Each((*natslab.Relay).Resume)
	})
}
