package ballot

import "github.com/seed-ff2cb582/leader/store"

// step is one call of Step while it runs.
type step struct {
	*Group
	v   *View
	c   *Call
	ev  *Event
	out []Action
}

// Step returns what a process with view v knows after ev happened, and what it
// has to do. Each Look and Write is answered exactly once, also after the call
// has ended.
func (g *Group) Step(v View, ev Event) (View, []Action) {
	s := step{Group: g, v: &v, c: &v.Call, ev: &ev}
	s.handle()
	s.progress()
	return v, s.out
}

func (s *step) handle() {
	switch s.ev.Kind {
	case Begin:
		s.begin()
	case Retry:
		if s.c.Stage == Waiting {
			s.attempt()
		}
	case Cancel:
		if s.c.Stage != Ended {
			s.giveUp()
		}
	case Looked:
		s.looked()
	case Wrote:
		s.wrote()
	case Seen:
		if s.member().Doing == Idle && !s.foreign() {
			s.adopt(s.ev.Member)
		}
	case Chosen:
		s.show(&s.ev.Seen.Value)
	}
}

func (s *step) member() *Member { return &s.v.Members[s.ev.Member] }

// members returns the group's members.
func (s *step) members() []Member { return s.v.Members[:s.Members] }

// looked takes in the answer to a read. It is knowledge and never a vote.
func (s *step) looked() {
	i := s.ev.Member
	s.member().Doing = Idle
	switch {
	case s.ev.Outcome != store.OK:
		s.c.Failed |= 1 << i
		if s.ev.Outcome == store.Permanent {
			s.c.Denied |= 1 << i
		}
	case s.foreign():
		// The register belongs to another group, which a write would destroy.
		if s.c.Stage != Ended {
			s.refuse(store.Permanent)
		}
	case !s.adopt(i):
		s.c.Failed |= 1 << i
	}
}

// foreign reports whether the register was written by a group with other
// members.
func (s *step) foreign() bool { return s.ev.Seen.Set != 0 && s.ev.Seen.Set != s.Set }

// adopt takes in that the register of member i was seen, unless that is a stale
// read.
func (s *step) adopt(i int) bool {
	m, rev := &s.v.Members[i], s.ev.Rev
	if rev < m.Rev && !m.Suspect {
		// A stale read, or the member was made again: then others may bring it to
		// the revision that is known here, over a state that is not.
		m.Fresh, m.Suspect = false, true
		return false
	}
	if rev != m.Rev {
		s.c.Heal &^= 1 << i // the ballot was drawn before this was seen
	}
	m.Acceptor, m.Rev, m.Fresh, m.Suspect = s.ev.Seen, rev, true, false
	s.learn(m)
	return true
}

// learn takes in what the register of m is known to contain.
func (s *step) learn(m *Member) {
	m.Known = true
	if m.Most.Promised.Less(m.Promised) {
		m.Most.Promised = m.Promised
	}
	if m.Most.Ballot.Less(m.Ballot) {
		m.Most.Ballot = m.Ballot
	}
	s.v.Counter = max(s.v.Counter, m.Promised.Counter)
	s.v.Newest = max(s.v.Newest, m.Version)
	var seen [MaxMembers]Acceptor
	for i := range s.members() {
		if p := &s.v.Members[i]; p.remembers() {
			seen[i] = p.Acceptor
		}
	}
	if v, ok := s.Show(seen[:s.Members]); ok {
		s.show(&v)
	}
}

// show takes in that v is chosen.
func (s *step) show(v *Value) {
	if v.Version > s.v.Shown.Version {
		s.v.Shown = *v
	}
}

// send sends a write to member i.
func (s *step) send(i int, d Doing, a *Acceptor) {
	m := &s.v.Members[i]
	m.Doing, m.Sent = d, *a
	m.Sent.Set = s.Set
	if d == Accepting && a.ID == s.c.Own.ID {
		s.c.Loose++
	}
	s.out = append(s.out, Action{Kind: Write, Member: i, Expected: m.Rev, Content: m.Sent})
}

// wrote takes in the answer to a write. Of an earlier attempt it is knowledge
// alone.
func (s *step) wrote() {
	i, m := s.ev.Member, s.member()
	d, sent, before, remembered := m.Doing, m.Sent, m.Acceptor, m.remembers()
	m.Doing, m.Sent = Idle, Acceptor{}
	switch s.ev.Outcome {
	case store.OK:
		m.Acceptor, m.Rev, m.Fresh, m.Suspect = sent, s.ev.Rev, true, false
		s.learn(m)
		switch {
		case d == Promising && sent.Promised == s.c.Ballot:
			s.report(i, &before, remembered)
		case d == Accepting && (s.c.Stage == Founding || s.c.Stage == Proposing) && sent.Ballot == s.c.Ballot:
			s.vote(i)
		}
		return
	case store.Unknown:
		m.Fresh = false
		s.c.Failed |= 1 << i
		return
	case store.Conflict:
		m.Fresh, m.Suspect = false, true
	case store.Permanent:
		s.c.Denied |= 1 << i
		fallthrough
	default:
		s.c.Failed |= 1 << i
	}
	if d == Accepting && s.c.Stage != Ended && sent.ID == s.c.Own.ID {
		s.c.Loose-- // this one never will be applied
	}
}
