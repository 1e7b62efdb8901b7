package specification

// acts reports whether a candidate acts: its program works, by a term whose end
// it has not heard of, within the window that it believes in. That is more than
// IsLeader covers: it goes on while a holder that leaves by itself stops its
// work and renews.
func (c *candidate) acts() bool { return c.Work && c.Left > 0 && !c.Deposed }

// judge adds to a world's broken guarantees what its state shows. It compares
// candidates with each other, and with what the network knows of their writes.
func (w *world) judge() {
	acting := 0
	for i := range w.Candidates {
		if w.Candidates[i].acts() {
			acting++
			if w.Ghosts[i].Right == 0 {
				w.Broken |= brokeWindow
			}
		}
	}
	if acting > 1 {
		w.Broken |= brokeG1
	}
}
