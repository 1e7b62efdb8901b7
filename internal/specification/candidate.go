package specification

// A model is a world's bounds with the rules that hold in it.
type model struct {
	Bounds
	Rules
}

// steps calls yield for everything that can happen next.
func (m *model) steps(w *world, yield func(label, func(*world))) {
	m.networkSteps(w, yield)
	for i := range m.Candidates {
		m.observations(w, i, yield)
		m.answers(w, i, yield)
		switch w.Candidates[i].Stage {
		case watching:
			m.watchSteps(w, i, yield)
		case holding, stopping:
			m.holdSteps(w, i, yield)
		case claiming, releasing:
		}
		m.pendingSteps(w, i, yield)
		if w.Crashes < m.Crashes {
			yield(label{text: "crashes", who: i}, func(w *world) { m.crash(w, i) })
		}
	}
}

func (m *model) crash(w *world, i int8) {
	w.Crashes++
	w.forget(i)
	w.Candidates[i], w.Ghosts[i] = candidate{}, ghost{}
}

// observations are watches and reads, which look the same: any revision that
// still can be read may arrive at any time, or never. An observation that is
// not newer than an earlier one explains nothing and changes nothing.
func (m *model) observations(w *world, i int8, yield func(label, func(*world))) {
	c := &w.Candidates[i]
	if c.Stage == watching && c.HasSeen && c.Seen.Rev > 0 && w.Gone {
		yield(label{text: "sees that there is nothing any more", who: i}, func(w *world) {
			c := &w.Candidates[i]
			c.Seen, c.SeenAge, c.Regress, c.OwnLost, c.Cool = entry{}, 0, true, false, m.Wait
		})
	}
	if !c.HasSeen && w.stands() == 0 {
		yield(label{text: "sees that there is nothing", who: i}, func(w *world) {
			w.Candidates[i].HasSeen = true
		})
	}
	for _, list := range []struct {
		entries [maxEntries]entry
		count   int8
	}{{w.History, w.Entries}, {w.Lost, w.LostCount}} {
		for _, e := range list.entries[:list.count] {
			if !m.exact() && c.Stage == watching && e != w.now() {
				continue // an old observation permits nothing
			}
			if !c.HasSeen || e.Rev > c.Seen.Rev || (e.Rev == c.Seen.Rev && e != c.Seen) {
				yield(label{text: "sees", who: i, what: e}, func(w *world) { m.see(w, i, e) })
			}
		}
	}
	if c.HasSeen && w.now().Rev < c.Seen.Rev && m.Rollbacks > 0 {
		yield(label{text: "sees the regress", who: i}, func(w *world) { m.regress(w, i) })
	}
}

func (m *model) see(w *world, i int8, e entry) {
	c := &w.Candidates[i]
	mine := e.What == record && e.Claim == c.Claim
	switch c.Stage {
	case claiming:
		if mine {
			m.granted(w, i, e.Rev, m.adopted(w, i, e.Rev), c.Cooled)
			return
		}
		c.Stage = watching
		w.forget(i)
	case holding, stopping:
		switch {
		case mine && !c.Deposed:
			m.renewed(w, i, e.Rev, m.adopted(w, i, e.Rev), c.Cooled)
			return
		default:
			m.depose(w, i, e)
			return
		}
	case releasing:
		w.forget(i)
		if mine && c.Claim != 0 { // our own renewal that came late
			c.Rev, c.Seen = e.Rev, e
			c.Settled = false
			return
		}
		c.Stage = watching
	case watching:
	}
	m.arrive(c, i, e)
}

// arrive starts the wait for what a watcher saw.
func (m *model) arrive(c *candidate, i int8, e entry) {
	keep := (m.WaitFromFirstEntry && e.What == record && e.Claim == c.Seen.Claim) ||
		(m.MarkerKeepsWait && e.What == marker && c.Seen.What == record)
	if !keep {
		c.SeenAge = 0
	}
	c.Seen, c.HasSeen = e, true
	if e.What == record && e.Owner != i {
		c.HolderSeen = true
	}
}

// depose ends the term of a holder whose record was replaced.
func (m *model) depose(w *world, i int8, e entry) {
	c := &w.Candidates[i]
	w.forget(i)
	c.Stage, c.Deposed = stopping, true
	c.SawOpen = c.Lease > 0
	m.arrive(c, i, e)
}

// regress is the observation of a register that went back.
func (m *model) regress(w *world, i int8) {
	c := &w.Candidates[i]
	active := c.Stage == holding || c.Stage == stopping
	lost := active && !c.Deposed && c.Left > 0
	switch {
	case active:
		m.depose(w, i, w.now())
	case c.Stage != watching:
		c.Stage = watching
		w.forget(i)
		fallthrough
	default:
		m.arrive(c, i, w.now())
	}
	if !m.RegressIgnored {
		c.Regress, c.OwnLost, c.Cool = true, lost, m.Wait
	}
}

// adopted returns how long ago the write left that an observation of it
// explains: the first attempt, which is the earliest that may have been
// applied.
func (m *model) adopted(w *world, i, rev int8) (age int8) {
	age = w.Candidates[i].First
	for _, msg := range w.Writes {
		if !msg.Used || msg.Owner != i || !msg.Pending {
			continue
		}
		if msg.Applied == rev {
			w.Ghosts[i].Right = max(w.Ghosts[i].Right, m.Trust-msg.Age)
		}
	}
	if m.ReadBackFromLatest {
		return w.Candidates[i].Last
	}
	return age
}

// answers are acknowledgements. A refusal is not among them: it only means that
// the register must be read, and a read may happen at any time.
func (m *model) answers(w *world, i int8, yield func(label, func(*world))) {
	for k := range w.Writes {
		msg := w.Writes[k]
		if !msg.Used || msg.Owner != i || !msg.Pending || msg.Applied == 0 {
			continue
		}
		yield(label{text: "is acknowledged", who: i}, func(w *world) {
			w.Ghosts[i].Right = max(w.Ghosts[i].Right, m.Trust-msg.Age)
			m.answered(w, i, msg)
		})
	}
}

func (m *model) answered(w *world, i int8, msg write) {
	c := &w.Candidates[i]
	switch c.Stage {
	case claiming:
		m.granted(w, i, msg.Applied, msg.Age, msg.Cool)
	case holding, stopping:
		m.renewed(w, i, msg.Applied, msg.Age, msg.Cool)
	case releasing:
		w.forget(i)
		c.Stage = watching
		e := msg.Content
		e.Rev = msg.Applied
		m.arrive(c, i, e)
	case watching:
	}
}

// granted is the news that the candidate's claim was applied. Its attempt left
// age units ago; cool reports whether the cool-down was over then.
func (m *model) granted(w *world, i, rev, age int8, cool bool) {
	c := &w.Candidates[i]
	w.forget(i)
	c.Rev, c.Left = rev, m.Trust+m.TrustLonger-age
	if m.TrustFromReply {
		c.Left = m.Trust
	}
	if m.LateAnswersCount {
		c.Left = max(c.Left, 1)
	}
	if !m.OldTermKept || c.Term == 0 {
		c.Term = rev
	}
	c.Seen = entry{Rev: rev, What: record, Owner: i, Claim: c.Claim}
	c.Left = max(c.Left, 0)
	c.Lease = c.Left
	if c.Left == 0 {
		c.Stage = stopping
		return
	}
	c.Stage = holding
	if m.Grace && !m.NoGrace && !c.Settled {
		c.Cool = m.Wait
	}
	if c.Cool == 0 && cool {
		m.promote(w, i)
	}
}

func (m *model) renewed(w *world, i, rev, age int8, cool bool) {
	c := &w.Candidates[i]
	w.forget(i)
	c.Rev = rev
	c.Seen = entry{Rev: rev, What: record, Owner: i, Claim: c.Claim}
	left := m.Trust + m.TrustLonger - age
	if m.TrustFromReply {
		left = m.Trust
	}
	c.Lease = max(c.Lease, left)
	if c.Left == 0 && !m.LateAnswersCount {
		return // a window that closed once stays closed
	}
	c.Left = max(c.Left, left)
	if m.LateAnswersCount {
		c.Left = max(c.Left, 1)
	}
	if c.Stage == holding && !c.Promoted && c.Cool == 0 && (cool || m.GraceByOldRenewal) {
		m.promote(w, i)
	}
}

func (m *model) promote(w *world, i int8) {
	c := &w.Candidates[i]
	c.Promoted, c.Work, c.Settled = true, true, m.Expiries > 0
	if m.Rollbacks == 0 && c.Term <= w.MaxTerm {
		w.Broken |= brokeG2
	}
	w.MaxTerm = max(w.MaxTerm, c.Term)
}

// mayClaim reports whether what candidate i saw permits a claim.
func (m *model) mayClaim(w *world, i int8) bool {
	c := &w.Candidates[i]
	if !c.HasSeen || c.Work {
		return false
	}
	markerDue := c.SeenAge >= m.Wait-m.MarkerWaitShorter
	switch c.Seen.What {
	case nothing, vacancy:
		return true
	case record:
		return c.SeenAge >= m.Wait-m.WaitShorter
	case marker:
		return markerDue || m.MarkerIsVacancy
	case garbage:
		return (c.HolderSeen && markerDue) || m.GarbageIsVacancy
	}
	return false
}

func (m *model) watchSteps(w *world, i int8, yield func(label, func(*world))) {
	c := &w.Candidates[i]
	if !m.exact() && c.Seen.Rev != w.now().Rev {
		return // whatever it sends is refused
	}
	if m.mayClaim(w, i) && w.Claims < maxClaims-1 {
		yield(label{text: "claims", who: i}, func(w *world) { m.claim(w, i) })
		if w.Vacates < m.Vacates && c.Seen.What == record {
			yield(label{text: "vacates what it might claim", who: i}, func(w *world) {
				w.Vacates++
				w.Candidates[i].Claim = 0
				m.vacate(w, i, w.Candidates[i].Seen.Rev)
			})
		}
	}
	if c.Seen.What == record && c.Seen.Owner == i && c.Claim != 0 && c.Seen.Claim == c.Claim && !c.Regress {
		yield(label{text: "releases its late claim", who: i}, func(w *world) { m.vacate(w, i, w.Candidates[i].Seen.Rev) })
	}
}

func (m *model) claim(w *world, i int8) {
	c := &w.Candidates[i]
	w.Claims++
	*c = candidate{
		Stage: claiming, Seen: c.Seen, SeenAge: c.SeenAge, HasSeen: true, HolderSeen: c.HolderSeen,
		Claim: w.Claims, Term: c.Term, Waiting: true, Cool: c.Cool, Cooled: c.Cool == 0,
		Regress: c.Regress, Settled: m.succeeds(c.Seen),
	}
	w.Ghosts[i].Right = 0
	expected := c.Seen.Rev
	if m.BlindClaims {
		expected = blind
	}
	m.send(w, i, expected, entry{What: record, Owner: i, Claim: c.Claim})
}

// succeeds reports whether a claim of what was seen needs no cool-down: where
// nothing older comes back, a settled vacancy is proof that nobody leads.
func (m *model) succeeds(seen entry) bool {
	if m.Expiries == 0 {
		return false
	}
	return seen.What == vacancy && (seen.Settled || m.AnyVacancySettles) || seen.What == nothing && m.NothingSettles
}

func (m *model) vacate(w *world, i, expected int8) {
	c := &w.Candidates[i]
	w.forget(i)
	if c.Work {
		w.Broken |= brokeG4
	}
	c.Stage, c.Waiting, c.First = releasing, true, 0
	settled := c.Settled && expected == c.Rev
	m.send(w, i, expected, entry{What: vacancy, Claim: c.Claim, Settled: settled})
}

// pendingSteps are what a candidate does about a write without an answer, and a
// release that has to be sent again.
func (m *model) pendingSteps(w *world, i int8, yield func(label, func(*world))) {
	c := &w.Candidates[i]
	if c.Waiting && w.Repeats < m.Repeats && c.Stage != releasing && (c.Stage == claiming || c.Left > 0) {
		yield(label{text: "repeats its write", who: i}, func(w *world) {
			w.Repeats++
			c := &w.Candidates[i]
			c.Last = 0
			expected := c.Rev
			if c.Stage == claiming {
				expected = c.Seen.Rev
			}
			m.send(w, i, expected, entry{What: record, Owner: i, Claim: c.Claim})
		})
	}
	if c.Stage == releasing && !c.Waiting {
		yield(label{text: "releases again", who: i}, func(w *world) { m.vacate(w, i, w.Candidates[i].Rev) })
	}
	if w.GivenUp < m.GivenUp && (c.Stage == claiming || c.Stage == releasing) {
		yield(label{text: "gives up", who: i}, func(w *world) {
			w.GivenUp++
			w.forget(i)
			w.Candidates[i].Stage = watching
		})
	}
	if m.WayBackFromRelease && c.Stage == releasing && c.Left > 0 && !c.Deposed && c.Claim != 0 {
		yield(label{text: "takes its release back", who: i}, func(w *world) { w.back(i) })
	}
}

// back is the way back that rule 10 forbids.
func (w *world) back(i int8) {
	w.forget(i)
	c := &w.Candidates[i]
	c.Stage, c.Work = holding, true
}

func (m *model) holdSteps(w *world, i int8, yield func(label, func(*world))) {
	c := &w.Candidates[i]
	if c.Stage == holding && (m.Graceful || c.Left == 0) {
		yield(label{text: "stops leading", who: i}, func(w *world) {
			w.Candidates[i].Stage = stopping
		})
	}
	renews := c.Stage == holding || (c.Work && !c.Deposed)
	if renews && c.Left > 0 && !c.Waiting && (m.exact() || c.Rev == w.now().Rev) {
		yield(label{text: "renews", who: i}, func(w *world) { m.renew(w, i) })
	}
	if c.Stage == holding {
		return
	}
	if c.Work {
		yield(label{text: "is done with its work", who: i}, func(w *world) { w.Candidates[i].Work = false })
	}
	if c.Deposed {
		m.deposedSteps(w, i, yield)
		return
	}
	m.leaveSteps(w, i, yield)
}

func (m *model) renew(w *world, i int8) {
	c := &w.Candidates[i]
	c.Waiting, c.First, c.Last, c.Cooled = true, 0, 0, c.Cool == 0
	m.send(w, i, c.Rev, entry{What: record, Owner: i, Claim: c.Claim})
}

// leaveSteps are the ways out of a term whose record may still be in force.
func (m *model) leaveSteps(w *world, i int8, yield func(label, func(*world))) {
	c := &w.Candidates[i]
	if !c.Work || m.ReleaseBeforeStopped {
		yield(label{text: "releases", who: i}, func(w *world) { m.vacate(w, i, w.Candidates[i].Rev) })
	}
}

// deposedSteps are the steps of a former holder whose record was replaced.
func (m *model) deposedSteps(w *world, i int8, yield func(label, func(*world))) {
	c := &w.Candidates[i]
	if c.Work {
		return
	}
	yield(label{text: "watches again", who: i}, func(w *world) { w.Candidates[i].Stage = watching })
	free := c.Seen.What == marker || c.Seen.What == garbage
	ownLost := c.OwnLost && c.Seen.What == record && c.Seen.Claim == c.Claim
	allowed := c.SawOpen && (!c.Regress || c.OwnLost)
	if (free && (allowed || m.ClearAnyMarker)) || (ownLost && allowed) {
		yield(label{text: "clears what replaced its record", who: i}, func(w *world) {
			m.vacate(w, i, w.Candidates[i].Seen.Rev)
		})
	}
}
