package machine

import "time"

// claimIfDue challenges the register as it was seen, once that is allowed.
func (c *step) claimIfDue() {
	if !c.m.mayClaim(c.s) || c.now.Mono < max(c.s.DueAt, c.s.StandBackUntil) {
		return
	}
	v := &c.s.View
	c.claim(c.claimReason(), v.Kind == Vacant && v.Rec.Settled)
}

// claim challenges the register as it was seen. settled means that the previous
// holder had cooled down. Where nothing older ever comes back, the
// compare-and-swap then proves that nobody led in between.
func (c *step) claim(why Reason, settled bool) {
	c.s.Phase, c.s.Reason = Claiming, why
	// Each claim has its own token, so that no earlier claim is mistaken for
	// it.
	c.s.Grant = Grant{
		Token: c.ev.Token, Nonce: c.ev.Nonce, Settled: settled && c.m.Expires,
		Void: c.m.Ages && c.s.View.Rev == 0,
	}
	c.begin(Acquire, c.s.View.Rev)
}

func (c *step) claimReason() Reason {
	switch c.s.View.Kind {
	case Held:
		if c.ours(&c.s.View) {
			return ReasonRemnant
		}
		return ReasonExpired
	case Vacant:
		return ReasonVacant
	case Bare, Malformed:
		return ReasonUnowned
	default:
		return ReasonAbsent
	}
}

// resolveClaim ends a claim when the register is observed past the revision
// that the claim expects: it is either there by now, or never will be.
func (c *step) resolveClaim(seen *Seen) {
	if c.ours(seen) {
		if c.s.Write.Maybe {
			c.note(NoteResolved)
		}
		// The first attempt may be the one that was applied, so the lease
		// counts from there. Counting from now would be trust that nobody
		// granted.
		c.granted(seen.Rev, c.s.Write.First)
		return
	}
	// Before the record is adopted: at a start none was seen before.
	counts, took := seen.Kind == Held && c.s.HeldTTL > 0, c.now.since(c.s.Write.Sent)
	if seen.Kind == Held {
		c.note(NoteLost)
	}
	c.backToWatching(seen)
	if counts {
		c.lost(took)
	}
	c.s.Reason = ReasonLostRace
}

func (c *step) backToWatching(seen *Seen) {
	c.s.Phase, c.s.Write = Watching, Write{}
	c.adopt(seen)
}

func (c *step) ours(seen *Seen) bool { return c.s.ours(seen) }

// succeeded reports whether seen shows that another has led since this
// candidate did. Either it leads, or it has left again: of one that left at
// once, that is all there is to see.
func (c *step) succeeded(seen *Seen) bool {
	left := seen.Kind == Vacant && seen.Rec.Token != c.s.Grant.Token && c.s.Grant.Token != ""
	return c.theirs(seen) || left
}

func (c *step) theirs(seen *Seen) bool { return seen.Kind == Held && !c.ours(seen) }

// granted begins a term's grant: the claim has revision rev, and was sent at
// sent.
func (c *step) granted(rev uint64, sent Instant) {
	ttl := max(c.m.TTL, c.s.HeldTTL)
	c.s.Phase, c.s.Write, c.s.Window, c.s.Passed = Holding, Write{}, 0, 0
	c.s.Grant.Term = rev
	if c.s.Grant.Void {
		c.youth(ttl)
	}
	c.extend(rev, sent)
	if c.s.Grant.Trust.Reached(c.now) {
		c.lose(Exit{Reason: ReasonLate})
		return
	}
	if x := c.s.barExit(); x.Reason != "" {
		// It was barred after the claim left. Standing back is what Bar does to
		// a holder.
		c.leave(x)
		return
	}
	if c.m.CoolDown && !c.s.Grant.Settled {
		c.s.Grant.PromoteAt = c.now.Mono + int64(c.m.wait(ttl))
	}
	if c.s.DoubtUntil > c.now.Mono {
		// The lost lease may be longer than every lease observed since.
		c.s.Grant.PromoteAt = max(c.s.Grant.PromoteAt, c.s.DoubtUntil)
	}
	c.examine()
}

// youth notes that a void claim of this candidate was applied, perhaps in a
// store that was made just before. A leader of the previous store, with a lease
// of length ttl, has not heard of that.
func (c *step) youth(ttl time.Duration) {
	c.s.YoungUntil = max(c.s.YoungUntil, c.now.Mono+int64(c.m.wait(ttl)))
}

// young reports whether the doubt of a void claim lasts.
func (c *step) young() bool { return c.s.YoungUntil > c.now.Mono }

// strayed reports whether seen is a void claim of this candidate that was
// applied without its knowledge: after the candidate gave it up, or a second
// time in a store that was made again. Others may have led in between.
func (c *step) strayed(seen *Seen) bool {
	return c.s.Grant.Void && c.ours(seen) && seen.Rec.Term == 0 && seen.Rev != c.s.Grant.Term
}

// examine asks the store for its age, which may end the doubt. It asks only
// now, because an earlier answer may be the age of the previous store. Without
// an answer the doubt lasts as long as a cool-down.
func (c *step) examine() {
	if !c.young() {
		c.s.YoungUntil = 0
		return
	}
	c.s.ops++
	c.s.Grant.Examine = c.s.ops
	c.do(Action{Kind: Examine, Op: c.s.ops})
}

// examined takes in the answer to examine. Doubts of another origin remain.
func (c *step) examined() {
	g := &c.s.Grant
	if c.s.Phase != Holding || g.Promoted || g.Examine == 0 || g.Examine != c.ev.Op {
		return
	}
	g.Examine = 0
	if c.ev.Outcome != OK {
		return
	}
	c.s.YoungUntil = 0
	if c.ev.Doubt > 0 {
		c.s.YoungUntil = c.now.Mono + int64(c.ev.Doubt)
	}
}

// extend records that our record has revision rev, by a write that left at
// sent. The lease counts from sent. River's leadership package anchors its
// trust the same way.
func (c *step) extend(rev uint64, sent Instant) {
	c.s.Grant.Rev, c.s.Grant.Sent = rev, sent
	c.s.Grant.Trust = sent.Add(c.m.trust(c.m.TTL))
	c.adopt(&Seen{Kind: Held, Rev: rev, Rec: c.record()})
}

// record is what our latest acknowledged write stored.
func (c *step) record() Record {
	g := &c.s.Grant
	return Record{
		ID: c.m.ID, Token: g.Token, TTL: c.m.TTL, Term: g.Term, Renewal: g.Renewal, Nonce: g.Nonce, Priority: c.m.Priority,
	}
}
