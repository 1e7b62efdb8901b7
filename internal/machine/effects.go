package machine

// step is one call of Apply while it runs.
type step struct {
	m   *Machine
	s   *State
	ev  *Event
	now Instant
	// out points to the slice, since the compiler would otherwise take all that
	// a step points to for as long-lived as the actions, and allocate it.
	out *[]Action
}

func (c *step) finish() {
	c.s.Phase, c.s.Reason, c.s.Write = Stopped, ReasonStopped, Write{}
	c.do(Action{Kind: Finish, Reason: ReasonStopped})
}

func (c *step) do(a Action) { *c.out = append(*c.out, a) }

func (c *step) note(k NoteKind) {
	c.do(Action{Kind: Note, Note: k, Write: c.s.Write.Kind, Outcome: c.ev.Outcome, Reason: c.s.Exit.Reason})
}
