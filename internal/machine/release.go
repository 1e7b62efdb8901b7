package machine

// release follows the end of the work: write the vacancy if the register still
// holds our record, else just move on.
func (c *step) release() {
	if c.s.Stopping && c.s.Leave {
		c.finish()
		return
	}
	rev, ok := c.vacatable()
	if !ok {
		c.depart()
		return
	}
	c.beginRelease(rev)
}

func (c *step) beginRelease(rev uint64) {
	c.s.Phase = Releasing
	// Past this the lease has run out for everybody else, too: nothing is left
	// to release.
	c.s.ReleaseBy = c.now.Mono + int64(c.m.wait(c.m.TTL))
	c.begin(Release, rev)
}

// vacatable returns the revision over which the vacancy may be written, if any.
func (c *step) vacatable() (uint64, bool) {
	v := &c.s.View
	switch {
	case c.doubts():
		return 0, false
	case c.ours(v):
		return v.Rev, true
	case v.Rev != 0 && v.Rev == c.s.Exit.Vacate:
		return v.Rev, true
	default:
		return 0, false
	}
}

// observeReleasing handles a register that has moved past the revision that the
// release expects. A record of ours there is a renewal or a claim that was
// applied late. It is never adopted again: its release was sent, and somebody
// may have acted on that.
func (c *step) observeReleasing(seen *Seen) {
	c.adopt(seen)
	if c.ours(seen) {
		if c.s.Write.Stage == Flying {
			return // refused for sure; the answer comes first
		}
		c.releaseAt(seen.Rev)
		return
	}
	if c.s.Write.Maybe && seen.Kind == Vacant && seen.Rec.Token == c.s.Grant.Token {
		c.note(NoteResolved)
	}
	c.depart()
}

// releaseAt sends the release again, over a later record of our own. In doubt
// that record is left to expire: see doubts.
func (c *step) releaseAt(rev uint64) {
	if c.young() {
		c.depart()
		return
	}
	c.s.Write.Expected = rev
	c.send()
}

// depart ends a release, even one that had nothing to write.
func (c *step) depart() {
	c.s.Write = Write{}
	if c.s.Stopping {
		c.finish()
		return
	}
	c.s.Phase, c.s.Reason = Watching, observedReason(c.s.View.Kind)
	// A successor may have been observed already, before the release was
	// answered.
	if c.s.Exit.StandBack && !c.succeeded(&c.s.View) {
		c.s.StandBackUntil = c.now.Mono + int64(c.m.wait(c.m.TTL))
		c.s.Reason = ReasonStandBack
	}
	if c.ours(&c.s.View) {
		c.s.DueAt, c.s.Reason = c.now.Mono, ReasonRemnant
	}
}
