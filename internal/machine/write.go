package machine

import "time"

func (i Instant) since(j Instant) time.Duration { return time.Duration(i.Mono - j.Mono) }

// begin starts the one write that may be under way. An earlier one that is
// still out is forgotten: whatever it does, the compare-and-swap of the new one
// meets it.
func (c *step) begin(k WriteKind, expected uint64) {
	c.s.Write = Write{Kind: k, Expected: expected}
	if k == Renew && c.s.Grant.Next == 0 {
		c.s.Grant.Next = c.ev.Nonce
	}
	c.send()
}

// send sends the write, or sends it again with the same condition and content.
func (c *step) send() {
	w := &c.s.Write
	c.s.ops++
	w.Op, w.Stage, w.Sent = c.s.ops, Flying, c.now
	w.Tries = min(w.Tries+1, 250)
	if !w.Maybe {
		w.First = c.now
	}
	if w.Kind == Renew {
		c.s.Prove = false
	}
	c.do(Action{Kind: Send, Op: w.Op, Write: w.Kind, Expected: w.Expected, Rec: c.content(), Reason: c.s.Reason})
}

// content is what the write stores.
func (c *step) content() Record {
	r := c.record()
	switch c.s.Write.Kind {
	case Renew:
		r.Renewal++
		r.Nonce = c.s.Grant.Next
	case Release:
		r = Record{
			Token: r.Token, Term: r.Term, Reason: c.s.Exit.Reason, By: c.s.Exit.By, Why: c.s.Exit.Why, Successor: c.s.Exit.Successor,
			// This holds only over a write that the grant is known to have
			// made. A claim that expected nothing may be applied again when its
			// record has vanished, and the content there may then have followed
			// a successor's.
			Settled: c.s.Grant.Settled && c.s.Write.Expected == c.s.Grant.Rev,
		}
		if r.By == "" {
			r.By = c.m.ID
		}
		c.sayWhatEnded(&r)
	default:
	}
	return r
}

// sayWhatEnded has a vacancy in place of a claim, which was given up before it
// was known to be granted, name the term that it ends.
func (c *step) sayWhatEnded(vacancy *Record) {
	v := &c.s.View
	switch {
	case vacancy.Term != 0:
	case v.Kind == Vacant:
		// The vacancy is to announce the end of the previous term. It repeats
		// what the claimed vacancy contained.
		vacancy.Term, vacancy.Reason, vacancy.By, vacancy.Why = v.Rec.Term, v.Rec.Reason, v.Rec.By, v.Rec.Why
	default:
		vacancy.Term = v.Term() // of the claim, if it was applied
	}
}

func (c *step) resendIfDue() {
	if c.s.Phase == Releasing && c.now.Mono >= c.s.ReleaseBy {
		c.note(NoteGaveUp)
		c.depart()
		return
	}
	switch {
	case c.s.Write.Stage != BackingOff || c.now.Mono < c.s.Write.Due:
	case c.s.Write.Refused:
		c.look()
	default:
		c.send()
	}
}

// written takes in the answer to the write that is out. Answers to writes that
// were forgotten are ignored: what they did shows in the register.
func (c *step) written() {
	w := &c.s.Write
	if w.Stage != Flying || w.Op != c.ev.Op {
		return
	}
	w.Stage = NoStage // whatever follows: nothing of it is under way
	if c.s.Phase == Draining {
		c.writtenDraining()
		return
	}
	switch c.ev.Outcome {
	case OK:
		c.applied()
	case Conflict:
		if c.s.Phase == Releasing && c.ours(&c.s.View) && c.s.View.Rev > w.Expected {
			c.releaseAt(c.s.View.Rev) // of our own that was seen meanwhile; a read could show less
			return
		}
		w.Refused = true
		c.look()
	case Unknown:
		w.Maybe = true
		c.failed()
	default:
		c.failed()
	}
}

// writtenDraining handles the answer to a renewal while the work stops. The
// answer contains the revision that the release has to expect, and the renewal
// keeps others off. The term remains over.
func (c *step) writtenDraining() {
	switch {
	case c.ev.Outcome == OK && c.ev.Rev > c.s.View.Rev:
		c.renewed(c.ev.Rev, c.s.Write.Sent)
	case c.ev.Outcome == Conflict && c.s.Write.Maybe && c.s.Exit.Keep:
		c.s.Write.Refused = true // perhaps by an earlier attempt of the same write
		c.look()
	case c.ev.Outcome == OK || c.ev.Outcome == Conflict || !c.s.Exit.Keep:
		c.unkeep()
	default:
		c.s.Write.Maybe = c.s.Write.Maybe || c.ev.Outcome == Unknown
		c.note(NoteFailed)
		c.backOff(c.m.Retry.after(int(c.s.Write.Tries), c.ev.Rand))
	}
}

// readDraining takes in the answer to look while the work stops: whether our
// renewal was applied after all.
func (c *step) readDraining() {
	seen := &c.ev.Seen
	if c.ev.Outcome != OK || seen.Rev <= c.s.View.Rev {
		c.backOff(c.m.Retry.after(int(c.s.Write.Tries), c.ev.Rand))
		return
	}
	c.observeDraining(seen)
	if c.s.Write.Stage == Reading {
		c.unkeep()
	}
}

func (c *step) applied() {
	switch c.s.Write.Kind {
	case Acquire:
		c.granted(c.ev.Rev, c.s.Write.Sent)
	case Renew:
		c.renewed(c.ev.Rev, c.s.Write.Sent)
	default:
		c.released()
	}
}

func (c *step) released() {
	c.adopt(&Seen{Kind: Vacant, Rev: c.ev.Rev, Rec: c.content()})
	c.depart()
}

// failed backs off before the write is sent again, or before the register is
// read again if the write was refused. The same condition and content make the
// repetition harmless, whatever became of the attempts before.
func (c *step) failed() {
	w := &c.s.Write
	if w.Kind == Release && c.s.Stopping && c.ev.Outcome == Permanent {
		// The connection may be closed. Do not wait for a write that is
		// impossible: the lease runs out.
		c.note(NoteGaveUp)
		c.depart()
		return
	}
	c.note(NoteFailed)
	if n := c.m.Retry.MaxAttempts; n > 0 && int(w.Tries) >= n {
		if w.Kind == Renew {
			c.lose(Exit{Reason: ReasonRetries})
			return
		}
		w.Tries = 0
		c.backOff(c.m.Retry.Max)
		return
	}
	c.backOff(c.m.Retry.after(int(w.Tries), c.ev.Rand))
}

func (c *step) backOff(d time.Duration) {
	if c.s.Write.Kind == Renew {
		// A store that comes back late in the window must find us trying, so
		// the backoff shrinks with what is left of it.
		left := time.Duration(c.s.Grant.Trust.Mono - c.now.Mono)
		d = min(d, c.m.Heartbeat, max(left/2, c.m.Retry.Initial))
	}
	c.s.Write.Stage, c.s.Write.Due = BackingOff, c.now.Mono+int64(d)
}

// look reads the register after a refusal, to learn its content.
func (c *step) look() {
	c.s.ops++
	c.s.Write.Op, c.s.Write.Stage = c.s.ops, Reading
	c.do(Action{Kind: Look, Op: c.s.ops, Write: c.s.Write.Kind})
}

// staleReads is how many reads in a row must show a register older than known
// before that counts as what it looks like: a store that lost its state. No
// read is linearizable on NATS, where any replica answers a direct get.
const staleReads = 3

// read takes in the answer to look.
func (c *step) read() {
	w := &c.s.Write
	if w.Stage != Reading || w.Op != c.ev.Op {
		return
	}
	if c.s.Phase == Draining {
		c.readDraining()
		return
	}
	if c.ev.Outcome != OK {
		w.Tries = min(w.Tries+1, 250)
		c.failed()
		return
	}
	seen := &c.ev.Seen
	switch {
	case seen.same(&c.s.View) && seen.Rev == w.Expected:
		// The register has the revision that the write expects, so the server
		// that refused it lags behind. A refusal that the register contradicts
		// does not prove that the attempt will never be applied.
		c.note(NoteStale)
		w.Refused, w.Maybe = false, true
		c.failed()
		return
	case seen.Rev <= w.Expected:
		c.readStale(seen)
		return
	}
	switch w.Kind {
	case Acquire:
		c.resolveClaim(seen)
	case Renew:
		c.observeHolding(seen)
	default:
		w.Stage = NoStage
		c.observeReleasing(seen)
	}
}

// readStale handles a read that shows the register older than known. It came
// from a replica that lags, or the store has lost writes. In the latter case
// revisions may come again, and the write, repeated, could replace a stranger's
// record that has the expected one by chance. So it is not sent again before a
// read shows our own record.
func (c *step) readStale(seen *Seen) {
	w := &c.s.Write
	c.note(NoteStale)
	w.Stale = min(w.Stale+1, 250)
	again := seen.Rev == w.Expected // by another's hand
	switch {
	case w.Kind == Renew && again:
		c.adopt(seen)
		c.lose(Exit{Reason: ReasonSuperseded, By: seen.Rec.ID})
	case w.Kind == Renew, w.Stale < staleReads && !again:
		c.failed()
	case w.Kind == Release:
		c.adopt(seen)
		c.depart()
	default:
		c.backToWatching(seen)
	}
}
