package machine

// Step returns what a candidate in state s knows and does after ev happened at
// now. The actions are to be performed in their order. now must not be earlier
// than in the call before, on the monotonic clock.
func (m *Machine) Step(s State, ev Event, now Instant) (State, []Action) {
	actions := m.Apply(&s, &ev, now, nil)
	return s, actions
}

// Apply is Step in place, for callers that make many steps: it changes s,
// appends the actions to out and returns the extended slice. It keeps none of
// its arguments, and ev and the elements that out has already stay as they are.
func (m *Machine) Apply(s *State, ev *Event, now Instant, out []Action) []Action {
	if s.Phase == Stopped {
		if ev.Kind == Drained {
			s.Undrained = false
		}
		return out
	}
	c := step{m: m, s: s, ev: ev, now: now, out: &out}
	// This comes before anything else: a window that closed has ended the term,
	// whatever the event is. An acknowledgement that was queued behind a stall
	// must not revive it.
	c.expire()
	c.handle()
	// A renewal may be acknowledged when its own window has closed, by a clock
	// that leaped, and the previous window has not.
	c.expire()
	c.advance()
	return out
}

func (c *step) expire() {
	if c.s.Phase == Holding && c.s.Grant.Trust.Reached(c.now) {
		c.lose(Exit{Reason: ReasonTrust})
	}
}

func (c *step) handle() {
	switch c.ev.Kind {
	case Tick:
	case Start:
		if c.s.Phase == Idle {
			c.s.Phase, c.s.Reason = Watching, ReasonStarted
			if c.ev.Doubt > 0 {
				c.s.DoubtUntil = c.now.Mono + int64(c.ev.Doubt)
			}
			if c.m.Splay > 0 {
				c.s.StandBackUntil = c.now.Mono + int64(c.uniform(c.m.Splay))
			}
		}
	case Observed:
		c.observe(&c.ev.Seen)
	case Written:
		c.written()
	case Read:
		c.read()
	case Drained:
		c.drained()
	case Closed:
		if c.s.Phase == Holding && c.s.Grant.Term == c.ev.Term {
			c.lose(Exit{Reason: ReasonTrust})
		}
	case Asked:
		// A request is meant for one term. Without that, one that is delivered
		// late or again would depose a later leader.
		if c.s.Phase == Holding && c.s.Grant.Term == c.ev.Term {
			c.leave(c.ev.Exit)
		}
	case Leave:
		if c.s.Phase == Holding {
			c.leave(c.ev.Exit)
		}
	case Validate:
		c.s.Prove = c.s.Phase == Holding
	case ConnDown:
		if !c.s.Down {
			c.s.Down, c.s.DownSince = true, c.now.Mono
		}
	case ConnUp:
		c.connUp()
	case Bar:
		c.bar()
	case Unbar:
		c.unbar()
	case Examined:
		c.examined()
	case StopRelease, StopLeave:
		c.stop(c.ev.Kind == StopLeave)
	}
}

// bar keeps the candidate from campaigning. With an Exit it leaves what it
// holds, too.
func (c *step) bar() {
	c.s.Barred |= c.ev.Bars
	c.setBarExits(c.ev.Exit)
	if c.ev.Exit.Reason != "" && c.s.Phase == Holding {
		c.leave(c.ev.Exit)
	}
}

// unbar lets the candidate campaign again, if nothing else bars it. A group
// that was paused is resumed for all its candidates at once, as when a lease
// has run out for them.
func (c *step) unbar() {
	before := c.s.Barred
	c.s.Barred &^= c.ev.Bars
	c.setBarExits(Exit{})
	if c.s.Barred != 0 {
		return
	}
	if before&Paused != 0 {
		c.s.StandBackUntil = 0 // nobody could go first meanwhile
		c.s.FreeAt = max(c.s.FreeAt, c.now.Mono+int64(c.yield(&c.s.View)))
		c.s.DueAt = max(c.s.DueAt, c.s.FreeAt+int64(c.expirySpread()))
	}
}

func (c *step) setBarExits(x Exit) {
	for i := range c.s.BarExits {
		if c.ev.Bars&(1<<i) != 0 {
			c.s.BarExits[i] = x
		}
	}
}

// connUp hurries what was waiting for the connection.
func (c *step) connUp() {
	c.s.Down = false
	if c.s.Write.Stage == BackingOff {
		c.s.Write.Due = c.now.Mono
	}
}

// advance does what is due at now. Each pass may make another thing due.
func (c *step) advance() {
	for range 4 {
		before := c.s.Phase
		switch c.s.Phase {
		case Watching:
			c.claimIfDue()
		case Claiming, Releasing:
			c.resendIfDue()
		case Holding:
			c.hold()
		case Draining:
			c.drain()
		default:
		}
		if c.s.Phase == before {
			return
		}
	}
}

func (c *step) stop(leave bool) {
	again := c.s.Stopping
	c.s.Stopping, c.s.Leave = true, leave
	switch c.s.Phase {
	case Claiming:
		// The claim may yet be applied. A vacancy written on the revision that
		// it expects either keeps it out permanently or, refused, shows that it
		// is in. But a vacancy over nothing may be applied in a store that was
		// made again, while somebody leads by a record of the previous store.
		if leave || c.doubts() || c.s.Grant.Void {
			c.finish()
			return
		}
		c.s.Exit, c.s.Reason = Exit{Reason: ReasonStopped}, ReasonStopped
		c.beginRelease(c.s.Write.Expected)
	case Holding:
		c.lose(Exit{Reason: ReasonStopped, Keep: true})
	case Draining:
		if again && leave {
			c.unkeep() // nobody waits for the work any more: the lease runs out
		}
	case Releasing:
		if leave {
			c.finish()
		}
	default:
		c.finish()
	}
}
