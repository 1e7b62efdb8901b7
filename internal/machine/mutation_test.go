package machine

// A mutant is a protocol with one mistake, made from outside: around Step, in the
// store, or in the definition of a leader. The zero value is the protocol as it is.
type mutant struct {
	name string
	// step replaces Machine.Step.
	step func(m Machine, s State, ev Event, now Instant) (State, []Action)
	// accept lets the store apply a write although the revision differs.
	accept func(k WriteKind, at Seen, expected uint64) bool
	// lead replaces State.Leading.
	lead func(s State, now Instant) bool
	// monoOnly: the term is judged on the monotonic clock alone.
	monoOnly bool
}

func (mu mutant) doStep(m Machine, s State, ev Event, now Instant) (State, []Action) {
	if mu.step == nil {
		return m.Step(s, ev, now)
	}
	return mu.step(m, s, ev, now)
}

func (mu mutant) accepts(k WriteKind, at Seen, expected uint64) bool {
	return mu.accept != nil && mu.accept(k, at, expected)
}

// blind tells whether writes of kind k may be applied at any revision.
func (mu mutant) blind(WriteKind) bool { return mu.accept != nil }

func (mu mutant) leads(s *State, now Instant) bool {
	switch {
	case mu.lead != nil:
		return mu.lead(*s, now)
	case mu.monoOnly:
		now.Wall = -1 << 40
	}
	return s.Leading(now)
}

func (mu mutant) reached(i Instant, now Instant) bool {
	if mu.monoOnly {
		now.Wall = -1 << 40
	}
	return i.Reached(now)
}
