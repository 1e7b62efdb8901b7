package machine

import "time"

// observe handles what the watch delivered. A watch never proves the current
// state: its message may be late, repeated or, after the store lost its state,
// older than what came before. All of it is safe, since a claim is a
// compare-and-swap on exactly the revision that was observed.
func (c *step) observe(seen *Seen) {
	switch c.s.Phase {
	case Idle, Watching:
		if !seen.same(&c.s.View) {
			if c.raced(seen) {
				c.outrun()
			}
			c.adopt(seen)
		}
	case Claiming:
		if seen.Rev > c.s.Write.Expected {
			c.resolveClaim(seen)
		}
	case Holding:
		if seen.Rev >= c.s.Grant.Rev && !seen.same(&c.s.View) {
			c.observeHolding(seen)
		}
	case Draining:
		if seen.Rev > c.s.View.Rev {
			c.observeDraining(seen)
		}
	case Releasing:
		if seen.Rev > c.s.Write.Expected {
			c.observeReleasing(seen)
		}
	default:
	}
}

// adopt makes seen the observed state, and plans when it may be challenged. The
// wait counts from this instant: a record that arrives late is waited for
// longer, never shorter.
func (c *step) adopt(seen *Seen) {
	if c.s.View.Kind != Unseen && seen.Rev <= c.s.View.Rev && !seen.same(&c.s.View) {
		c.regressed()
	}
	if c.strayed(seen) {
		c.youth(max(c.m.TTL, c.s.HeldTTL))
	}
	if c.m.Backoff > 0 && c.theirs(seen) && seen.Rec.Token != c.s.View.Rec.Token {
		c.s.Passed = min(c.s.Passed+1, 250)
	}
	if seen.Kind == Held || seen.Kind == Vacant {
		c.s.Behind, c.s.Ranked = seen.Behind, seen.Ranked
	}
	c.s.View, c.s.ViewAt = *seen, c.now.Mono
	if seen.Kind == Held && !seen.Foreign() {
		held := c.m.believed(seen.Rec.TTL)
		if c.s.Phase == Watching && c.ours(seen) {
			// A claim that was given up may be applied when a longer lease has
			// vanished, whose holder leads on.
			held = max(held, c.s.HeldTTL)
		}
		c.s.HeldTTL = held
	}
	if c.succeeded(seen) || seen.Rec.Successor == c.m.ID {
		c.s.StandBackUntil = 0
	}
	if c.s.Phase == Watching {
		c.s.Reason = observedReason(seen.Kind)
	}
	c.s.FreeAt = c.now.Mono + int64(c.wait(seen))
	c.s.DueAt = c.s.FreeAt + int64(c.apart(seen))
}

// raced reports whether seen is the claim of another on what this candidate
// could have claimed, too.
func (c *step) raced(seen *Seen) bool {
	return c.s.View.Kind != Unseen && c.theirs(seen) && seen.Rec.Token != c.s.View.Rec.Token && c.now.Mono >= c.s.FreeAt
}

// regressed notes that the store has lost writes. A leader whose record is gone
// has noticed nothing yet, and trusts its lease until its window closes. It was
// this candidate if the record is ours and our window still open. Later a
// successor may have led that was never observed here.
func (c *step) regressed() {
	c.note(NoteRegressed)
	if !c.ours(&c.s.View) || c.s.Phase == Watching || c.s.Grant.Trust.Reached(c.now) {
		c.s.DoubtUntil = max(c.s.DoubtUntil, c.now.Mono+int64(c.m.wait(c.heldTTL())))
	}
}

// doubts reports whether somebody may still lead by a record that the store has
// lost, or that a store before it held. A vacancy is permission to lead at
// once, which is not ours to give then.
func (c *step) doubts() bool { return c.s.DoubtUntil > c.now.Mono || c.young() }

// heldTTL is the lease length to reckon with if somebody held the register and
// the record is not there to observe any more.
func (c *step) heldTTL() time.Duration {
	if c.s.HeldTTL == 0 {
		return c.m.TTL
	}
	return c.s.HeldTTL
}

// foreignTTL is the lease length to assume for content that no candidate wrote:
// the longer of its writer's lease, if the writer takes itself for a leader,
// and the lease of a record that the content may have replaced, observed here
// or not.
func (c *step) foreignTTL() time.Duration { return c.m.foreign(c.s) }

func (m *Machine) foreign(s *State) time.Duration { return max(m.ForeignTTL, m.TTL, s.HeldTTL) }

// Lease is how long the lease is believed to be of the holder that a candidate
// in state s sees.
func (m *Machine) Lease(s *State) time.Duration {
	if s.View.Foreign() {
		return m.foreign(s)
	}
	return s.HeldTTL
}

func observedReason(k Kind) Reason {
	switch k {
	case Held:
		return ReasonFollow
	case Vacant:
		return ReasonVacant
	case Bare:
		return ReasonDeleted
	case Malformed:
		return ReasonOverwritten
	default:
		return ReasonAbsent
	}
}

// wait is how long seen is to be left alone, by the rules and for the sake of
// those who go first.
func (c *step) wait(seen *Seen) time.Duration {
	if c.s.invited(seen, c.m.ID) {
		return 0
	}
	return c.lease(seen) + c.yield(seen)
}

// apart is the random delay after that.
func (c *step) apart(seen *Seen) time.Duration {
	switch {
	case c.s.invited(seen, c.m.ID):
		return 0
	case seen.Kind == Vacant, seen.Kind == Absent:
		return c.vacancyDelay()
	default:
		return c.expirySpread()
	}
}

// invited reports whether nobody else goes for what was seen: it is a remnant
// of our own, whose term is over since we drained it, or a vacancy that is left
// to us.
func (s *State) invited(seen *Seen, id string) bool {
	return s.ours(seen) || seen.Kind == Vacant && seen.Rec.Successor == id
}

// yield is how long others are let go first, beyond what safety asks for: those
// that are preferred, and all of them if this candidate was not the last to
// lead.
func (c *step) yield(seen *Seen) time.Duration {
	d := min(time.Duration(c.s.Behind)*c.m.Yield, c.m.TTL/2)
	if c.s.Passed == 0 || seen.Kind == Vacant && !comesBack(seen.Rec.Reason) {
		return d
	}
	b := c.m.Backoff
	for i := uint8(1); i < c.s.Passed && b < c.m.MaxBackoff; i++ {
		b *= 2
	}
	return d + min(b, c.m.MaxBackoff)
}

// comesBack reports whether r is the reason for a vacancy whose writer may be
// back at once: candidates that back off wait for it. A writer that left for
// another reason stays back, and would be first again if the others waited
// longer than its own wait.
func comesBack(r Reason) bool {
	switch r {
	case ReasonTrust, ReasonDisconnected, ReasonRetries, ReasonLate, ReasonOverwritten, ReasonPaused, ReasonStopped:
		return true
	default:
		return false
	}
}

// lease is how long seen itself is to be left alone.
func (c *step) lease(seen *Seen) time.Duration {
	if seen.Foreign() {
		return c.m.wait(c.foreignTTL())
	}
	switch seen.Kind {
	case Held:
		return c.m.wait(c.s.HeldTTL)
	case Vacant:
		if seen.Rec.Successor == "" {
			return 0
		}
		return c.m.HeadStart
	case Bare:
		// A deletion does not permit a claim. The record was not deleted by its
		// holder, who may still lead by a renewal that was missed here. Hence a
		// full wait from now, and not the rest of the wait for the record
		// observed last.
		return c.m.wait(c.heldTTL())
	default:
		return 0
	}
}
