package lab

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A kind is a kind of fault.
type kind struct {
	name string
	does string // for the table
	// atServers: it is done to the servers or to what they store, and not to
	// one candidate.
	atServers bool
	suits     func(shape) bool
	// run does it, and returns when it is over.
	run func(*round, fault)
}

func everywhere(shape) bool { return true }

// kinds are all of them.
var kinds = slices.Concat(candidateKinds, starvingKinds, serverKinds, partitionKinds)

var candidateKinds = []kind{
	{"pause", "the process is stopped (SIGSTOP) for 0.5 to 3 TTL", false, everywhere, atSeat(func(r *round, s *seat, f fault) {
		p := s.process()
		p.signal(unix.SIGSTOP)
		r.sleep(f.length)
		p.signal(unix.SIGCONT)
	})},
	{"kill", "the process is killed (SIGKILL) and started again within a TTL", false, everywhere, atSeat(func(r *round, s *seat, f fault) {
		s.process().kill()
		r.sleep(f.length / 3)
		s.begin()
	})},
	{"stop", "the process is told to stop, and started again", false, everywhere, atSeat(func(r *round, s *seat, _ fault) {
		r.stop(s.process())
		s.begin()
	})},
	{"resign", "the leader is told to resign", false, everywhere, atSeat(func(_ *round, s *seat, _ fault) {
		s.process().tell(candidate.Resign)
	})},
	{"black hole", "nothing passes, in both directions; what was held arrives late", false, everywhere, hold(false, natslab.ToServer, natslab.ToClient)},
	{"black hole to the server", "the same one way", false, everywhere, hold(false, natslab.ToServer)},
	{"black hole to the client", "the same the other way: writes are applied, their answers late", false, everywhere, hold(false, natslab.ToClient)},
	{"loss", "nothing passes, and what was held is lost with the connection (RST)", false, everywhere, hold(true, natslab.ToServer, natslab.ToClient)},
	{"loss of answers", "writes are applied, their answers lost with the connection (RST)", false, everywhere, hold(true, natslab.ToClient)},
	{"late answers before a black hole", "answers are late, but still in time for the call; and when they have arrived nothing passes", false, everywhere, atSeat(func(r *round, s *seat, f fault) {
		s.each(func(p *natslab.Proxy) { p.Hold(natslab.ToClient) })
		r.sleep(between(f.rng(), r.plan.timeout/2, r.plan.timeout))
		s.each((*natslab.Proxy).Resume)
		r.sleep(r.ttl / 50)
		s.each(func(p *natslab.Proxy) { p.Hold(natslab.ToServer, natslab.ToClient) })
		r.sleep(f.length)
		s.each((*natslab.Proxy).Resume)
	})},
	{"late writes among slow others", "nothing passes for longer than a lease; what was held arrives when some of the others hear of it late", false, everywhere, atSeat(func(r *round, s *seat, f fault) {
		rng := f.rng()
		s.each(func(p *natslab.Proxy) { p.Hold(natslab.ToServer, natslab.ToClient) })
		r.sleep(between(rng, 3*r.ttl/2, 2*r.ttl))
		for _, other := range r.seats {
			if rng.IntN(2) == 0 && other.fault.TryLock() {
				defer other.fault.Unlock()
				other.each(func(p *natslab.Proxy) { p.Delay(r.ttl/3, natslab.ToClient) })
				defer other.each((*natslab.Proxy).Resume)
			}
		}
		s.each((*natslab.Proxy).Resume)
		r.sleep(r.ttl)
	})},
	{"reset", "connections are reset (RST), again and again", false, everywhere, atSeat(func(_ *round, s *seat, f fault) {
		s.again(f, 50*time.Millisecond, 500*time.Millisecond, func() { s.each((*natslab.Proxy).Reset) })
	})},
	{"cut", "connections are closed and new ones refused", false, everywhere, atSeat(func(r *round, s *seat, f fault) {
		s.each((*natslab.Proxy).Cut)
		r.sleep(f.length)
		s.each((*natslab.Proxy).Resume)
	})},
	{"delay", "bytes are late by up to a third of the TTL, each time by another delay", false, everywhere, atSeat(func(r *round, s *seat, f fault) {
		rng := f.rng()
		s.again(f, 20*time.Millisecond, 100*time.Millisecond, func() {
			d := between(rng, 0, r.ttl/3)
			s.each(func(p *natslab.Proxy) { p.Delay(d, natslab.ToServer, natslab.ToClient) })
		})
		s.each((*natslab.Proxy).Resume)
	})},
	{"flapping", "the connection is cut and comes back, again and again", false, everywhere, atSeat(func(_ *round, s *seat, f fault) {
		up := true
		s.again(f, 20*time.Millisecond, 200*time.Millisecond, func() {
			if up = !up; up {
				s.each((*natslab.Proxy).Resume)
			} else {
				s.each((*natslab.Proxy).Cut)
			}
		})
		s.each((*natslab.Proxy).Resume)
	})},
}

// atSeat does something to the candidate that the fault is for, or to another
// if something is being done to it already.
func atSeat(do func(*round, *seat, fault)) func(*round, fault) {
	return func(r *round, f fault) {
		l := r.leader()
		s := r.take(f, l)
		defer s.fault.Unlock()
		do(r, s, f)
		r.count(func(c *counts) {
			c.faults[f.kind.name]++
			if s == l {
				c.atLeader++
			}
		})
	}
}

// take returns a candidate to which nothing is being done, when there is one.
// Its fault is locked.
func (r *round) take(f fault, leader *seat) *seat {
	if f.leader && leader != nil && leader.fault.TryLock() {
		return leader
	}
	for i := range r.seats {
		if s := r.seats[(f.seat+i)%len(r.seats)]; s.fault.TryLock() {
			return s
		}
	}
	s := r.seats[f.seat]
	s.fault.Lock()
	return s
}

// hold lets nothing pass in the directions, and loses what was held if lost.
func hold(lost bool, ds ...natslab.Direction) func(*round, fault) {
	return atSeat(func(r *round, s *seat, f fault) {
		s.each(func(p *natslab.Proxy) { p.Hold(ds...) })
		r.sleep(f.length)
		if lost {
			s.each((*natslab.Proxy).Reset)
		}
		s.each((*natslab.Proxy).Resume)
	})
}

func (s *seat) each(f func(*natslab.Proxy)) {
	for _, p := range s.proxies {
		f(p)
	}
}

// again does something again and again, with random pauses, for as long as the
// fault lasts.
func (s *seat) again(f fault, low, high time.Duration, do func()) {
	rng := f.rng()
	for end := time.Now().Add(f.length); time.Now().Before(end) && s.r.ctx.Err() == nil; {
		do()
		s.r.sleep(between(rng, low, high))
	}
}
