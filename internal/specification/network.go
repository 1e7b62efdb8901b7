package specification

// apply puts an entry into the register.
func (m *model) apply(w *world, e entry) int8 {
	e.Rev = w.now().Rev + 1
	if w.Entries == maxEntries || (m.Lag > 0 && w.Entries >= m.Lag) {
		copy(w.History[:], w.History[1:w.Entries])
		w.Entries--
	}
	w.History[w.Entries] = e
	w.Entries++
	w.Gone = false
	return e.Rev
}

// send puts a write into the network.
func (m *model) send(w *world, i, expected int8, e entry) {
	for k := range w.Writes {
		if !w.Writes[k].Used {
			w.Writes[k] = write{
				Used: true, Owner: i, Expected: expected, Content: e, Pending: true,
				Cool: w.Candidates[i].Cool == 0,
			}
			return
		}
	}
	w.Overlooked = 1 // normal drops such a world, and Result counts it
}

// forget makes the writes of a candidate orphans: still on their way, but with
// nobody who waits for the answer.
func (w *world) forget(i int8) {
	for k := range w.Writes {
		if w.Writes[k].Owner == i {
			w.Writes[k].Pending = false
		}
	}
	w.Candidates[i].Waiting = false
}

// networkSteps are the acts of nobody: time, the register, operators, faults.
func (m *model) networkSteps(w *world, yield func(label, func(*world))) {
	yield(label{text: "time passes", who: -1}, m.tick)
	for k := range w.Writes {
		msg := w.Writes[k]
		again := m.Once && msg.Applied != 0
		if msg.Used && !again && (msg.Expected == w.stands() || msg.Expected == blind) && !m.full(w) {
			yield(label{text: "has a write applied", who: msg.Owner}, func(w *world) {
				w.Writes[k].Applied = m.apply(w, w.Writes[k].Content)
			})
		}
	}
	if w.Operators < m.Operators && w.now().Rev > 0 && !m.full(w) {
		for _, what := range []content{marker, garbage} {
			if w.now().What != what {
				yield(label{text: "an operator writes", who: -1, what: entry{What: what}}, func(w *world) {
					w.Operators++
					m.apply(w, entry{What: what})
				})
			}
		}
	}
	if w.Expiries < m.Expiries && w.stands() > 0 {
		yield(label{text: "the record vanishes", who: -1}, func(w *world) { w.Expiries++; w.Gone = true })
	}
	if w.Gone {
		yield(label{text: "a replica still has the record", who: -1}, func(w *world) { w.Gone = false })
	}
	if w.Rollbacks < m.Rollbacks {
		for keep := range w.Entries {
			yield(label{text: "the register goes back", who: -1}, func(w *world) { m.rollback(w, keep) })
		}
	}
}

// blind is the expectation of a write that expects nothing: a mutation.
const blind = -1

func (m *model) full(w *world) bool { return m.Revs > 0 && w.now().Rev >= m.Revs }

func (m *model) rollback(w *world, keep int8) {
	w.Rollbacks++
	w.Lost, w.LostCount = [maxEntries]entry{}, 0
	for k := keep; k < w.Entries; k++ {
		w.Lost[w.LostCount] = w.History[k]
		w.LostCount++
		w.History[k] = entry{}
	}
	w.Entries = keep
	if m.Told {
		w.LostCount = 0
		w.Lost = [maxEntries]entry{}
		for i := range m.Candidates {
			if !w.Candidates[i].acts() {
				m.regress(w, i)
			}
		}
	}
}

// tick lets true time pass: every fast clock advances by a unit, and the slow
// ones at every second tick.
func (m *model) tick(w *world) {
	for i := range m.Candidates {
		if m.Slow[i] && !w.Odd {
			continue
		}
		c := &w.Candidates[i]
		c.SeenAge = min(c.SeenAge+1, m.Wait)
		c.Left = max(c.Left-1, 0)
		c.Lease = max(c.Lease-1, 0)
		c.Cool = max(c.Cool-1, 0)
		if c.Cool == 0 {
			c.Regress, c.OwnLost = false, false
		}
		c.First, c.Last = min(c.First+1, m.Trust+1), min(c.Last+1, m.Trust+1)
		w.Ghosts[i].Right = max(w.Ghosts[i].Right-1, 0)
		for k := range w.Writes {
			if w.Writes[k].Used && w.Writes[k].Owner == i {
				w.Writes[k].Age = min(w.Writes[k].Age+1, m.Trust+1)
			}
		}
	}
	w.Odd = !w.Odd
}
