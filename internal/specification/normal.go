package specification

import "slices"

// normal brings a world into the form that all worlds with the same future
// share: what nothing can read any more is dropped, revisions and claims are
// renumbered. So leases may be renewed, and terms may follow each other,
// without end in a finite number of states.
func (m *model) normal(w *world) {
	m.dropDead(w)
	exact := m.exact()
	for i := range m.Candidates {
		if !exact {
			w.settle(i)
		}
		w.Candidates[i].normal(m.OldTermKept, m.ReadBackFromLatest)
		if !exact && !m.garbageAhead(w) {
			w.Candidates[i].HolderSeen = false
		}
		if s := w.Candidates[i].Stage; s == watching || s == claiming || (s == releasing && !exact && !w.Candidates[i].Work) {
			w.Ghosts[i], w.Candidates[i].Left = ghost{}, 0
			w.Candidates[i].Lease = 0
		}
		if w.Operators >= m.Operators && w.now().What == record && !exact {
			w.Candidates[i].Lease = 0 // rule 8 has no use for it any more
		}
	}
	m.forgetTerm(w)
	if !exact {
		w.dropRead()
	}
	if m.Rollbacks == 0 {
		w.shift()
	}
	slices.SortFunc(w.Writes[:], compareWrites)
	w.renumber()
}

// normal clears what the candidate's stage has no use for.
func (c *candidate) normal(keepTerm, latest bool) {
	if !keepTerm && (c.Stage != holding || c.Promoted) {
		c.Term = 0
	}
	if !c.Waiting {
		c.First, c.Cooled = 0, false
	}
	if !c.Waiting || !latest {
		c.Last = 0
	}
	switch c.Stage {
	case watching:
		term, claim := c.Term, c.Claim
		*c = candidate{
			Seen: c.Seen, SeenAge: c.SeenAge, HasSeen: c.HasSeen, HolderSeen: c.HolderSeen,
			Cool: c.Cool, Regress: c.Regress, Term: term,
		}
		if c.Seen.What == record && c.Seen.Claim == claim {
			c.Claim = claim
		}
		if c.Seen.What == nothing || c.Seen.What == vacancy {
			c.SeenAge = 0
		}
	case claiming:
		c.SeenAge = 0
	case holding, stopping, releasing:
		if !c.Deposed {
			c.SeenAge = 0
		}
	}
	if c.Promoted || c.Stage == releasing {
		c.Cooled = false
	}
	if c.Stage == stopping || c.Stage == releasing {
		c.Promoted = false
	}
}

// dropDead drops writes without a future.
func (m *model) dropDead(w *world) {
	rollback := w.Rollbacks < m.Rollbacks
	for k := range w.Writes {
		msg := &w.Writes[k]
		if !msg.Used {
			continue
		}
		if !msg.Pending {
			msg.Age, msg.Cool = 0, false
			if !m.Once {
				msg.Applied = 0
			}
		}
		live := msg.Expected == w.now().Rev || msg.Expected == blind ||
			(msg.Expected == 0 && (w.Gone || w.Expiries < m.Expiries)) ||
			(m.Rollbacks > 0 && (rollback || msg.Expected > w.now().Rev))
		if m.Once && msg.Applied != 0 {
			live = false
		}
		if !live && (!msg.Pending || msg.Applied == 0) {
			*msg = write{}
		}
	}
}

// exact reports whether every detail of the past matters. Where revisions never
// come again, a write that expects an old one is as good as never sent, and who
// saw an old one last can do nothing but see the present. Some mutations would
// be hidden by that.
func (m *model) exact() bool {
	return m.Exact || m.Rollbacks > 0 || m.Expiries > 0 || m.WaitFromFirstEntry || m.MarkerKeepsWait || m.BlindClaims ||
		m.WayBackFromRelease
}

// settle moves a candidate whose write can no longer be applied, and was not,
// to the state in which it will learn that, and makes all old observations one.
func (w *world) settle(i int8) {
	c := &w.Candidates[i]
	if c.Waiting && !w.awaits(i) {
		c.Waiting = false
		switch c.Stage {
		case claiming:
			c.Stage = watching
		case releasing:
			if now := w.now(); now.What != record || now.Claim != c.Claim {
				c.Stage = watching
			}
		case watching, holding, stopping:
		}
	}
	old := c.HasSeen && c.Seen.Rev != w.now().Rev
	if old && (c.Stage == watching || c.Deposed) {
		c.Seen, c.SeenAge, c.SawOpen = entry{Rev: -1}, 0, false
	}
}

// awaits reports whether a write that candidate i waits for was applied or can
// be.
func (w *world) awaits(i int8) bool {
	for _, msg := range w.Writes {
		if msg.Used && msg.Pending && msg.Owner == i {
			return true
		}
	}
	return false
}

// garbageAhead reports whether anybody can still see garbage.
func (m *model) garbageAhead(w *world) bool {
	return w.Operators < m.Operators || w.now().What == garbage
}

// forgetTerm forgets the largest promoted term when it is below the terms of
// all promotions that can come.
func (m *model) forgetTerm(w *world) {
	if m.OldTermKept {
		return
	}
	for i := range m.Candidates {
		c := &w.Candidates[i]
		if c.Stage == claiming || (c.Stage == holding && !c.Promoted) {
			return
		}
	}
	w.MaxTerm = 0
}

// dropRead drops all of the past but what its writer waits to hear of.
func (w *world) dropRead() {
	kept := int8(0)
	for k := range w.Entries {
		e := w.History[k]
		if k == w.Entries-1 || w.awaited(e) {
			w.History[kept] = e
			kept++
		}
	}
	for k := kept; k < w.Entries; k++ {
		w.History[k] = entry{}
	}
	w.Entries = kept
}

func (w *world) awaited(e entry) bool {
	for _, msg := range w.Writes {
		if msg.Used && msg.Pending && msg.Applied == e.Rev {
			return true
		}
	}
	return false
}

// shift renumbers the revisions so that the register's is at most top. All that
// are older than anything that can be read become 1.
func (w *world) shift() {
	const top = maxEntries + 1
	by := w.now().Rev - top
	if by <= 0 {
		return
	}
	rev := func(r *int8) {
		if *r > 0 {
			*r = max(*r-by, 1)
		}
	}
	for k := range w.Entries {
		rev(&w.History[k].Rev)
	}
	for i := range w.Candidates {
		c := &w.Candidates[i]
		rev(&c.Seen.Rev)
		rev(&c.Rev)
		rev(&c.Term)
	}
	for k := range w.Writes {
		rev(&w.Writes[k].Expected)
		rev(&w.Writes[k].Applied)
	}
	rev(&w.MaxTerm)
}

// renumber gives the claims numbers in the order in which they appear.
func (w *world) renumber() {
	var numbers [maxClaims + 1]int8
	var next int8
	number := func(claim *int8) {
		if *claim == 0 {
			return
		}
		if numbers[*claim] == 0 {
			next++
			numbers[*claim] = next
		}
		*claim = numbers[*claim]
	}
	for k := range w.Entries {
		number(&w.History[k].Claim)
	}
	for k := range w.LostCount {
		number(&w.Lost[k].Claim)
	}
	for i := range w.Candidates {
		number(&w.Candidates[i].Seen.Claim)
		number(&w.Candidates[i].Claim)
	}
	for k := range w.Writes {
		number(&w.Writes[k].Content.Claim)
	}
	w.Claims = next
}

func compareWrites(a, b write) int {
	for _, d := range []int{
		asInt(b.Used) - asInt(a.Used), int(a.Owner) - int(b.Owner), int(a.Expected) - int(b.Expected),
		int(a.Content.What) - int(b.Content.What), asInt(a.Pending) - asInt(b.Pending),
		int(a.Applied) - int(b.Applied), int(a.Age) - int(b.Age), asInt(a.Cool) - asInt(b.Cool),
		int(a.Content.Claim) - int(b.Content.Claim), asInt(a.Content.Settled) - asInt(b.Content.Settled),
	} {
		if d != 0 {
			return d
		}
	}
	return 0
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
