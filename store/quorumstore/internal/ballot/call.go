package ballot

import "github.com/seed-ff2cb582/leader/store"

// begin begins a call. A process with the lead needs no promises.
func (s *step) begin() {
	v := s.v
	*s.c = Call{Stage: Surveying, Expected: s.ev.Expected, Own: s.ev.Own}
	if v.Shown.Version > s.c.Expected {
		return // progress ends it, and the lead stays
	}
	lead := v.Lead
	v.Lead = Ballot{} // a ballot carries one proposal
	if lead != (Ballot{}) && v.Led.Version == s.c.Expected && s.wiped() == 0 {
		s.c.Ballot = lead
		s.propose(&v.Led)
	}
}

// wiped returns the members that were seen without memory.
func (s *step) wiped() (m Mask) {
	for i := range s.members() {
		if p := &s.v.Members[i]; p.Fresh && !p.remembers() {
			m |= 1 << i
		}
	}
	return m
}

// Bare returns the members that showed, when they were last seen, that they
// have no memory of what others remember. A member that was never seen is not
// among them.
func (g *Group) Bare(v *View) (m Mask) {
	some := false
	for i := range v.Members[:g.Members] {
		if p := &v.Members[i]; p.remembers() {
			some = true
		} else if p.Known {
			m |= 1 << i
		}
	}
	if !some {
		return 0
	}
	return m
}

// Undecided returns the members that were last seen with a newer value than the
// newest that was seen to be chosen.
func (g *Group) Undecided(v *View) (m Mask) {
	for i := range v.Members[:g.Members] {
		if p := &v.Members[i]; p.remembers() && !p.Founding && p.Version > v.Shown.Version {
			m |= 1 << i
		}
	}
	return m
}

// Opening returns the largest ballot of the processes that are seen to write the
// first value. It is zero if there are none, or the key has a value.
func (g *Group) Opening(v *View) (b Ballot) {
	if v.Shown.Version != 0 {
		return Ballot{}
	}
	for i := range v.Members[:g.Members] {
		if m := &v.Members[i]; b.Less(m.Promised) && (m.Ballot != m.Promised || m.Version != 0) {
			b = m.Promised
		}
	}
	return b
}

// attempt begins with a higher ballot. Members without memory are seen again
// before it is drawn: others may have moved them during the delay, and a ballot
// heals only what it was drawn after. Otherwise many processes that found a key
// would keep each other from it for ever.
func (s *step) attempt() {
	c := s.c
	for i := range s.members() {
		if m := &s.v.Members[i]; !m.remembers() {
			m.Fresh = false
		}
	}
	*c = Call{Stage: Surveying, Expected: c.Expected, Own: c.Own, Loose: c.Loose}
}

// draw draws a ballot above all that is known. If a member is seen without
// memory, the ballot may heal it, and leaps above all that the member can have
// forgotten. Processes that write in turn leap differently far, since each
// leaps over what it saw before the last ballot of the other.
func (s *step) draw() {
	s.c.Stage, s.c.Heal = Preparing, s.wiped()
	by := uint64(1)
	if s.c.Heal != 0 {
		by = s.Leap * (1 + s.ev.Random%4)
	}
	s.c.Ballot = s.after(s.v.Counter, by)
}

func (s *step) after(counter, by uint64) Ballot {
	s.v.Counter = max(s.v.Counter, counter+by)
	return Ballot{counter + by, s.ev.Random}
}

// progress sends what can be sent. It ends the call that cannot succeed, and
// the attempt that cannot.
func (s *step) progress() {
	c := s.c
	if c.Stage == Ended {
		*c = Call{}
		return
	}
	if o, ok := c.settled(&s.v.Shown); ok {
		s.end(o)
		return
	}
	if c.Stage == Waiting {
		s.mayRefuse()
		return
	}
	busy := s.pursueAll()
	if c.Stage == Surveying && s.surveyed(busy) {
		s.draw()
		busy = s.pursueAll()
	}
	if s.mayFinish(busy) {
		return
	}
	if !s.mayRefuse() {
		s.wait()
	}
}

// mayRefuse ends the call if a majority refused it permanently, and nothing of it
// may be applied.
func (s *step) mayRefuse() bool {
	refused := s.c.Loose == 0 && s.c.Denied.Count() >= s.quorum
	if refused {
		s.end(store.Permanent)
	}
	return refused
}

func (s *step) wait() {
	s.c.Stage = Waiting
	s.out = append(s.out, Action{Kind: Wait})
}

// pursueAll pursues each member, and returns those that are busy.
func (s *step) pursueAll() (busy Mask) {
	for i := range s.members() {
		s.pursue(i)
		if s.v.Members[i].Doing != Idle {
			busy |= 1 << i
		}
	}
	return busy
}

// surveyed reports whether enough is known to draw a ballot: a majority has
// memory of a value, or all that answer were seen, so that the ballot may heal
// them.
func (s *step) surveyed(busy Mask) bool {
	fresh, remember := 0, 0
	for i := range s.members() {
		if m := &s.v.Members[i]; m.Fresh {
			fresh++
			if m.remembers() && !m.Founding {
				remember++
			}
		}
	}
	return remember >= s.quorum || busy == 0 && fresh >= s.quorum
}

// mayFinish reports whether the stage can end by the answers of those that are
// busy.
func (s *step) mayFinish(busy Mask) bool {
	c := s.c
	switch c.Stage {
	case Surveying:
		return busy != 0
	case Preparing:
		return busy != 0 && ((c.Remember|busy).Count() >= s.quorum || (c.Reports|busy).Count() == s.all)
	case Founding:
		return (c.Votes | busy).Count() >= s.all
	default:
		return (c.Votes | busy).Count() >= s.quorum
	}
}

// pursue sends to member i what the stage asks for, if the member can give it.
func (s *step) pursue(i int) {
	c, m := s.c, &s.v.Members[i]
	switch {
	case m.Doing != Idle || c.Failed.Has(i):
	case !m.Fresh:
		m.Doing = Looking
		s.out = append(s.out, Action{Kind: Look, Member: i})
	case c.Stage == Preparing:
		if m.Promised.Less(c.Ballot) && (m.remembers() || s.fewRemember()) {
			a := Acceptor{Promised: c.Ballot, Marked: m.Marked || m.Accepted()}
			if m.remembers() {
				a = m.Acceptor
				a.Promised = c.Ballot
			}
			s.send(i, Promising, &a)
		}
	case c.Stage == Founding:
		// Over its own promise alone, which the member then has not forgotten.
		if c.Reports.Has(i) && !c.Votes.Has(i) && m.Promised == c.Ballot {
			s.send(i, Accepting, s.proposal())
		}
	case c.Stage == Proposing:
		if m.remembers() && !c.Votes.Has(i) && !c.Ballot.Less(m.Promised) {
			s.send(i, Accepting, s.proposal())
		}
	}
}

func (s *step) proposal() *Acceptor {
	return &Acceptor{
		Promised: s.c.Next, Ballot: s.c.Ballot, Founding: s.c.Stage == Founding, Value: s.c.Proposal,
	}
}

// fewRemember reports whether the promises of all members are needed: there is
// no majority with memory, or it remembers only that the key was to be founded.
func (s *step) fewRemember() bool {
	n := 0
	for i := range s.members() {
		if m := &s.v.Members[i]; m.remembers() || !m.Fresh && !s.c.Failed.Has(i) {
			n++
		}
	}
	return n < s.quorum || s.c.Remember.Count() >= s.quorum && s.c.Highest.Founding
}

// report takes in that member i promised the ballot, over what it contained
// before.
func (s *step) report(i int, before *Acceptor, remembered bool) {
	c := s.c
	c.Reports |= 1 << i
	c.Ceiling = max(c.Ceiling, before.Promised.Counter)
	if c.Stage != Preparing {
		return // it is too late for the proposal
	}
	c.Remains = c.Remains || before.Marked || before.Accepted() && (!before.Founding || before.Version != 0)
	if remembered {
		c.Remember |= 1 << i
		if c.Highest.Ballot.Less(before.Ballot) {
			c.Highest = *before
		}
	}
	switch {
	case c.Remember.Count() >= s.quorum && !c.Highest.Founding:
		s.propose(&c.Highest.Value)
	case c.Reports.Count() < s.all:
	case s.heals(c.Reports &^ c.Remember):
		s.found()
	default:
		s.wait()
	}
}

// heals reports whether the ballot may give memory to the members of lost: it
// was drawn after they were seen without, and is above all that they can have
// forgotten.
func (s *step) heals(lost Mask) bool {
	c := s.c
	return lost == 0 || lost&^c.Heal == 0 && c.Ballot.Counter >= c.Ceiling+s.Leap
}

// found proposes to all members what a key begins with: "nothing", or a bare
// deletion if something was lost.
func (s *step) found() {
	c := s.c
	c.Stage, c.Proposal = Founding, Value{}
	if c.Remains {
		c.Proposal = Value{Version: s.first(), Tombstone: true}
	}
	c.Next = s.after(c.Ballot.Counter, 1)
}

// first returns a version above all that were given, also of those that the
// members forgot.
func (s *step) first() uint64 { return max(s.ev.Clock, s.v.Newest+1) }

// propose proposes the call's own value if present is the expected one, and
// present again otherwise.
func (s *step) propose(present *Value) {
	c := s.c
	c.Stage, c.Votes, c.Proposal, c.Next = Proposing, 0, *present, c.Ballot
	if present.ID != c.Own.ID {
		if present.Version != c.Expected {
			return
		}
		switch {
		case c.Own.Version != 0:
		case c.Expected == 0:
			c.Own.Version = s.first()
		default:
			c.Own.Version = c.Expected + 1
		}
		c.Own.Ancestors = s.chain(present)
		c.Proposal = c.Own
	}
	if !c.Own.Tombstone {
		c.Next = s.after(c.Ballot.Counter, 1)
	}
}

// chain returns the ancestors of a value that follows v. Nothing that no call
// wrote is among them.
func (s *step) chain(v *Value) (calls [MaxChain]Short) {
	if v.ID != (ID{}) {
		calls[0] = v.ID.Short()
		copy(calls[1:s.Chain], v.Ancestors[:])
	}
	return calls
}

// vote takes in that member i accepted the proposal.
func (s *step) vote(i int) {
	c := s.c
	c.Votes |= 1 << i
	switch {
	case c.Stage == Founding:
		if c.Votes.Count() >= s.all {
			// All remember now, and promised the next ballot.
			base := c.Proposal
			c.Ballot = c.Next
			s.propose(&base)
		}
	case c.Votes.Count() >= s.quorum:
		s.chosen()
	}
}

// chosen ends the call, since its proposal is chosen, and heals.
func (s *step) chosen() {
	c, v := s.c, s.v
	v.Newest = max(v.Newest, c.Proposal.Version)
	if c.Next != c.Ballot {
		v.Lead, v.Led = c.Next, c.Proposal
	}
	for i := range s.members() {
		m := &v.Members[i]
		if m.Fresh && m.Doing == Idle && !m.remembers() && s.heals(1<<i) {
			s.send(i, Healing, s.proposal()) // which is no vote
		}
	}
	if o, ok := c.settled(&c.Proposal); ok {
		s.end(o)
		return
	}
	s.refuse(store.Conflict)
}

// refuse ends the call with why, if its value is not chosen and never will be.
func (s *step) refuse(why store.Outcome) {
	if s.c.Loose > 0 {
		why = store.Unknown
	}
	s.end(why)
}

// giveUp ends the call whose context is done.
func (s *step) giveUp() {
	if s.c.Denied.Count() >= s.quorum {
		s.refuse(store.Permanent)
		return
	}
	s.refuse(store.Transient)
}

func (s *step) end(o store.Outcome) {
	a := Action{Kind: Done, Outcome: o}
	if o == store.OK {
		a.Version = s.c.Own.Version
	}
	*s.c = Call{}
	s.out = append(s.out, a)
}
