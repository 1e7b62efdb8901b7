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
	{at("pause", "the process is stopped (SIGSTOP) for 0.5 to 3 TTL"), atSeat(func(r *round.Round, s *round.Seat, f schedule.Fault) {
		p := s.Process()
		p.Signal(unix.SIGSTOP)
		r.Sleep(f.Length)
		p.Signal(unix.SIGCONT)
	})},
	{at("kill", "the process is killed (SIGKILL) and started again within a TTL"), atSeat(func(r *round.Round, s *round.Seat, f schedule.Fault) {
		s.Process().Kill()
		r.Sleep(f.Length / 3)
		s.Begin()
	})},
	{at("stop", "the process is told to stop, and started again"), atSeat(func(r *round.Round, s *round.Seat, _ schedule.Fault) {
		r.Stop(s.Process())
		s.Begin()
	})},
	{at("resign", "the leader is told to resign"), atSeat(func(_ *round.Round, s *round.Seat, _ schedule.Fault) {
		s.Process().Tell(candidate.Resign)
	})},
	{at("black hole", "nothing passes, in both directions; what was held arrives late"), hold(false, natslab.ToServer, natslab.ToClient)},
	{at("black hole to the server", "the same one way"), hold(false, natslab.ToServer)},
	{at("black hole to the client", "the same the other way: writes are applied, their answers late"), hold(false, natslab.ToClient)},
	{at("loss", "nothing passes, and what was held is lost with the connection (RST)"), hold(true, natslab.ToServer, natslab.ToClient)},
	{at("loss of answers", "writes are applied, their answers lost with the connection (RST)"), hold(true, natslab.ToClient)},
	{at("late answers before a black hole", "answers are late, but still in time for the call; and when they have arrived nothing passes"), atSeat(func(r *round.Round, s *round.Seat, f schedule.Fault) {
		s.Each(func(p *natslab.Proxy) { p.Hold(natslab.ToClient) })
		r.Sleep(schedule.Between(f.RNG(), s.Settings.Timeout/2, s.Settings.Timeout))
		s.Each((*natslab.Proxy).Resume)
		r.Sleep(r.Plan.TTL / 50)
		s.Each(func(p *natslab.Proxy) { p.Hold(natslab.ToServer, natslab.ToClient) })
		r.Sleep(f.Length)
		s.Each((*natslab.Proxy).Resume)
	})},
	{at("late writes among slow others", "nothing passes for longer than a lease; what was held arrives when some of the others hear of it late"), atSeat(func(r *round.Round, s *round.Seat, f schedule.Fault) {
		rng := f.RNG()
		s.Each(func(p *natslab.Proxy) { p.Hold(natslab.ToServer, natslab.ToClient) })
		r.Sleep(schedule.Between(rng, 3*r.Plan.TTL/2, 2*r.Plan.TTL))
		for _, other := range r.Seats {
			if rng.IntN(2) == 0 && other.Fault.TryLock() {
				defer other.Fault.Unlock()
				other.Each(func(p *natslab.Proxy) { p.Delay(r.Plan.TTL/3, natslab.ToClient) })
				defer other.Each((*natslab.Proxy).Resume)
			}
		}
		s.Each((*natslab.Proxy).Resume)
		r.Sleep(r.Plan.TTL)
	})},
	{at("newcomers", fmt.Sprintf("nothing passes, and meanwhile %d others join, one after the other, who have heard of no record; what was held arrives late", newcomers)), atSeat(func(r *round.Round, s *round.Seat, f schedule.Fault) {
		rng := f.RNG()
		s.Each(func(p *natslab.Proxy) { p.Hold(natslab.ToServer, natslab.ToClient) })
		joined := make([]*process.Process, newcomers)
		for i := range joined {
			r.Sleep(r.Plan.TTL / newcomers)
			joined[i] = r.Herd(1, drawnRate(r, rng))
		}
		s.Each((*natslab.Proxy).Resume)
		for _, p := range joined {
			r.Stop(p)
		}
	})},
	{at("reset", "connections are reset (RST), again and again"), atSeat(func(_ *round.Round, s *round.Seat, f schedule.Fault) {
		s.Again(f, 50*time.Millisecond, 500*time.Millisecond, func() { s.Each((*natslab.Proxy).Reset) })
	})},
	{at("cut", "connections are closed and new ones refused"), atSeat(func(r *round.Round, s *round.Seat, f schedule.Fault) {
		s.Each((*natslab.Proxy).Cut)
		r.Sleep(f.Length)
		s.Each((*natslab.Proxy).Resume)
	})},
	{at("delay", "bytes are late by up to a third of the TTL, each time by another delay"), atSeat(func(r *round.Round, s *round.Seat, f schedule.Fault) {
		rng := f.RNG()
		s.Again(f, 20*time.Millisecond, 100*time.Millisecond, func() {
			d := schedule.Between(rng, 0, r.Plan.TTL/3)
			s.Each(func(p *natslab.Proxy) { p.Delay(d, natslab.ToServer, natslab.ToClient) })
		})
		s.Each((*natslab.Proxy).Resume)
	})},
	{at("flapping", "the connection is cut and comes back, again and again"), atSeat(func(_ *round.Round, s *round.Seat, f schedule.Fault) {
		up := true
		s.Again(f, 20*time.Millisecond, 200*time.Millisecond, func() {
			if up = !up; up {
				s.Each((*natslab.Proxy).Resume)
			} else {
				s.Each((*natslab.Proxy).Cut)
			}
		})
		s.Each((*natslab.Proxy).Resume)
	})},
}

// atSeat does something to the candidate that the fault is for, or to another
// if something is being done to it already.
func atSeat(do func(*round.Round, *round.Seat, schedule.Fault)) func(*round.Round, schedule.Fault) {
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
func take(r *round.Round, f schedule.Fault, leader *round.Seat) *round.Seat {
	if f.Leader && leader != nil && leader.Fault.TryLock() {
		return leader
	}
	for i := range r.Seats {
		if s := r.Seats[(f.Seat+i)%len(r.Seats)]; s.Fault.TryLock() {
			return s
		}
	}
	s := r.Seats[f.Seat]
	s.Fault.Lock()
	return s
}

// hold lets nothing pass in the directions, and loses what was held if lost.
func hold(lost bool, ds ...natslab.Direction) func(*round.Round, schedule.Fault) {
	return atSeat(func(r *round.Round, s *round.Seat, f schedule.Fault) {
		s.Each(func(p *natslab.Proxy) { p.Hold(ds...) })
		r.Sleep(f.Length)
		if lost {
			s.Each((*natslab.Proxy).Reset)
		}
		s.Each((*natslab.Proxy).Resume)
	})
}
