package machine

// hold does what a holder has due. The end of the disconnect grace comes first,
// since a term that is about to end is not to begin: a claim may be answered
// when the connection has been reported lost for longer than the grace.
func (c *step) hold() {
	if g := c.m.DisconnectGrace; g > 0 && c.s.Down && c.now.Mono >= c.s.DownSince+int64(g) {
		c.lose(Exit{Reason: ReasonDisconnected})
		return
	}
	cooled := c.now.Mono >= c.s.promoteAt()
	if !c.s.Grant.Promoted && c.s.Grant.Sent.Mono >= c.s.promoteAt() {
		c.s.Grant.Promoted = true
		c.s.Grant.Settled = c.m.CoolDown
		c.do(Action{Kind: Promote, Reason: c.s.Reason})
	}
	// Where the store goes back to older revisions, an earlier leader may have
	// renewed *its* record in place of ours. So after a cool-down a renewal has
	// to show that the record is still ours.
	prove := c.s.Prove || cooled && !c.s.Grant.Promoted
	if c.s.Write.Kind == NoWrite && (prove || c.now.Mono >= c.m.renewAt(c.s)) {
		c.begin(Renew, c.s.Grant.Rev)
		return
	}
	c.resendIfDue()
}

// observeHolding handles a register that has moved past our own latest write.
func (c *step) observeHolding(seen *Seen) {
	if c.resolveRenewal(seen) {
		return
	}
	c.adopt(seen)
	x := Exit{Reason: ReasonOverwritten, Vacate: c.mayVacate(seen)}
	switch seen.Kind {
	case Held:
		x.Reason, x.By = ReasonSuperseded, seen.Rec.ID
	case Bare:
		// An operator's delete asks for a change of leader, so the candidate
		// stays back.
		x.Reason, x.StandBack = ReasonDeleted, true
	default:
	}
	c.lose(x)
}

// resolveRenewal ends a renewal if seen is what it wrote, and reports whether
// it is.
func (c *step) resolveRenewal(seen *Seen) bool {
	if !c.ours(seen) || c.s.Write.Kind != Renew || seen.Rec.Renewal != c.s.Grant.Renewal+1 {
		return false
	}
	if c.s.Write.Maybe {
		c.note(NoteResolved)
	}
	c.renewed(seen.Rev, c.s.Write.First)
	return true
}

// renewed records that our renewal has revision rev and left at sent.
func (c *step) renewed(rev uint64, sent Instant) {
	c.s.Grant.Renewal++
	c.s.Grant.Nonce, c.s.Grant.Next = c.s.Grant.Next, 0
	c.s.Write = Write{}
	c.extend(rev, sent)
}

// leave ends the term because somebody asked for it.
func (c *step) leave(x Exit) {
	x.StandBack, x.Keep = true, true
	c.lose(x)
}

// lose ends our hold of the record. The work stops first, and the release comes
// after it.
func (c *step) lose(x Exit) {
	c.s.Exit, c.s.Reason, c.s.Prove = x, x.Reason, false
	if c.s.Write.Stage != Flying {
		c.s.Write = Write{}
	}
	if !c.s.Grant.Promoted {
		c.s.Phase = Draining // for release, which has nothing to wait for
		c.release()
		return
	}
	c.s.Phase = Draining
	c.s.Grant.Promoted = false
	c.s.Undrained = true
	c.s.DrainBy = c.now.Mono + int64(c.m.DrainBudget)
	c.do(Action{Kind: Demote, Reason: x.Reason})
}

// mayVacate returns the revision of a deletion or of garbage that a vacancy may
// replace, and 0 if it may not. It may if our own record was what they
// replaced. While our trust window is open it was, since nobody else could have
// claimed the register. Later somebody may have, and a vacancy over *its*
// deleted record would let a third one in beside it.
func (c *step) mayVacate(seen *Seen) uint64 {
	if (seen.Kind == Bare || seen.Kind == Malformed) && !c.s.Grant.Trust.Reached(c.now) {
		return seen.Rev
	}
	return 0
}

// drain waits for the work to stop. A term that ended by our own will keeps its
// record meanwhile, so that nobody else leads beside work that takes longer
// than the lease to stop.
func (c *step) drain() {
	switch {
	case c.now.Mono >= c.s.DrainBy:
		c.note(NoteOverrun)
		c.release()
	case !c.s.keeps():
	case c.s.Grant.Trust.Reached(c.now):
		c.unkeep() // others may have it by now
	case c.s.Write.Kind == NoWrite && c.now.Mono >= c.m.renewAt(c.s):
		c.begin(Renew, c.s.Grant.Rev)
	default:
		c.resendIfDue()
	}
}

func (c *step) unkeep() {
	c.s.Exit.Keep = false
	c.s.Write = Write{}
}

// observeDraining handles a register that has moved past the known revision
// while the work stops.
func (c *step) observeDraining(seen *Seen) {
	if c.resolveRenewal(seen) {
		return
	}
	c.adopt(seen)
	c.s.Exit.Vacate = c.mayVacate(seen)
	if !c.ours(seen) {
		c.unkeep()
	}
}

func (c *step) drained() {
	c.s.Undrained = false
	if c.s.Phase == Draining {
		c.release()
	}
}
