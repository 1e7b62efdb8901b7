package faults

import (
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/round"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// linkKinds are about a candidate that goes on by another way than the one that
// its earlier writes took, and about one that is not well.
var linkKinds = []kind{
	{replicated(at("cut from one server", "connections to the server of three that it is connected to are closed and new ones refused; it goes on by another")),
		moves((*natslab.Relay).Cut)},
	{replicated(at("black hole to one server", "nothing passes to that server or from it; what was held arrives when it has long gone on by another")),
		moves(func(p *natslab.Relay) { p.Hold(natslab.ToServer, natslab.ToClient) })},
	{at("late writes of an old connection", "its connection ends, and what that carried arrives up to two TTL later, after writes of the next one"), atContender(overtake)},
	{at("sick", "its health check fails"), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		s.Process().Tell(candidate.Sicken)
		r.Sleep(f.Length)
		s.Process().Tell(candidate.Heal)
	})},
}

// moves spoils the link that a candidate has, until it has another and some
// time has passed since.
func moves(spoil func(*natslab.Relay)) func(*round.Round, schedule.Fault) {
	return atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		link := connected(r, s)
		spoil(link)
		if !r.Poll(round.Healing, func() bool { return s.Link(link) != nil }) {
			r.Fatalf("%s never went on by another server", s.ID)
		}
		r.Sleep(schedule.Between(f.RNG(), 0, f.Length))
		link.Resume()
	})
}

// overtake has what a connection carries stay under way while the candidate
// goes on by the next one. It waits until something is under way: of a leader a
// renewal is, within a heartbeat.
func overtake(r *round.Round, s *round.Contender, f schedule.Fault) {
	rng := f.RNG()
	link := caught(r, s)
	r.Sleep(schedule.Between(rng, 0, s.Settings.TTL/4))
	link.Abandon()
	link.Resume()
	r.Sleep(schedule.Between(rng, 0, 2*r.Plan.TTL))
	link.Deliver()
}

// caught holds what a candidate sends, and returns the link when something is
// under way on it.
func caught(r *round.Round, s *round.Contender) *natslab.Relay {
	for {
		link := connected(r, s)
		// Hold one direction only, so that a connection that another fault opens
		// meanwhile can still send something.
		link.Hold(natslab.ToServer)
		moved := false
		if !r.Poll(round.Healing, func() bool {
			// Another fault may end the link before anything is under way.
			moved = !link.UnderWay() && s.Link(link) != nil
			return moved || link.UnderWay()
		}) {
			r.Fatalf("%s sends nothing", s.ID)
		}
		if !moved {
			return link
		}
		link.Resume()
	}
}

// connected returns the link of a candidate, when it has one.
func connected(r *round.Round, s *round.Contender) (link *natslab.Relay) {
	if !r.Poll(round.Healing, func() bool { link = s.Link(nil); return link != nil }) {
		r.Fatalf("%s is not connected", s.ID)
	}
	return link
}
