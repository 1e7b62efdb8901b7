package machine

import "time"

// A storeCall waits for one answer: the first that comes, or the end of its
// time.
type storeCall struct {
	n        *node
	kind     EventKind // of the answer
	op       uint64
	answered bool
}

// answer delivers the answer after d, unless the network swallows it.
func (c *storeCall) answer(d time.Duration, ev Event) {
	n := c.n
	ev.Kind, ev.Op = c.kind, c.op
	n.later(d, func() {
		if c.answered || n.in {
			return
		}
		c.answered = true
		n.w.count.outcomes[ev.Outcome]++
		n.step(ev)
	})
}

// call begins a call to the store: do is to happen when it arrives there.
func (n *node) call(kind EventKind, op uint64, do func(c *storeCall)) {
	w := n.w
	c := &storeCall{n: n, kind: kind, op: op}
	n.later(w.timeout, func() {
		if !c.answered {
			c.answered = true
			w.count.outcomes[Unknown]++
			n.step(Event{Kind: kind, Op: op, Outcome: Unknown})
		}
	})
	switch {
	case w.hit(tStallCalling):
		n.later(w.trip(), func() { n.freeze(w.late(), false) })
	case n.suspends && w.hit(tSuspendCalling):
		n.later(w.trip(), func() { n.freeze(w.late(), true) })
	}
	if n.out {
		return
	}
	d := w.trip()
	switch {
	case w.hit(tLoseRequest):
		return
	case w.hit(tTransient):
		c.answer(d, Event{Outcome: Transient})
		return
	case w.hit(tPermanent):
		c.answer(d, Event{Outcome: Permanent})
		return
	case w.hit(tDelayRequest):
		d += w.late()
	}
	arrive := func() {
		if !w.reg.down {
			do(c)
		}
	}
	// Not n.later: what is under way arrives even when its sender is gone.
	w.after(d, arrive)
	if w.hit(tDupRequest) {
		w.after(d+w.late(), arrive)
	}
}

// send performs a Send of the core.
func (n *node) send(a Action) {
	w := n.w
	n.call(Written, a.Op, func(c *storeCall) {
		if w.hit(tFalseConflict) { // by a lagging server, for example
			c.answer(w.trip(), Event{Outcome: Conflict})
			return
		}
		rev, ok := w.compareAndSwap(a)
		ev := Event{Outcome: Conflict}
		if ok {
			ev = Event{Outcome: OK, Rev: rev}
		}
		n.reply(c, ev)
	})
}

// reply sends an answer on its way.
func (n *node) reply(c *storeCall, ev Event) {
	w := n.w
	d := w.trip()
	switch {
	case w.hit(tLoseReply):
		return
	case w.hit(tDelayReply):
		d += w.late()
	}
	c.answer(d, ev)
}

// look performs a Look of the core.
func (n *node) look(a Action) {
	w := n.w
	n.call(Read, a.Op, func(c *storeCall) {
		ev := Event{Seen: w.reg.now}
		switch {
		case len(w.reg.past) > 0 && w.hit(tStaleRead):
			ev.Seen = w.reg.past[w.draw(int64(len(w.reg.past)))]
		case w.hit(tFailRead):
			ev = Event{Outcome: Transient}
		}
		n.reply(c, ev)
	})
}

// publish puts what the register holds on everybody's watch.
func (w *storm) publish() {
	for _, n := range w.nodes {
		if n.alive() && !w.hit(tLoseUpdate) {
			n.deliver(w.reg.now)
		}
	}
}

// deliver puts one message on the candidate's watch.
func (n *node) deliver(seen Seen) {
	w := n.w
	d := w.trip()
	if w.hit(tDelayUpdate) {
		d += w.late()
	}
	if !w.hit(tReorderUpdate) {
		d = max(d, time.Duration(n.inOrder-w.now))
		n.inOrder = w.now + int64(d)
	}
	arrive := func() {
		if !n.in {
			n.observe(seen)
		}
	}
	n.later(d, arrive)
	if w.hit(tDupUpdate) {
		n.later(d+w.late(), arrive)
	}
}

// resync delivers the register's current content, as every watch does when it
// begins and when the connection is back.
func (n *node) resync() {
	if !n.alive() {
		return
	}
	w := n.w
	seen := w.reg.now
	if len(w.reg.past) > 0 && w.hit(tStaleStart) {
		seen = w.reg.past[w.draw(int64(len(w.reg.past)))]
	}
	n.deliver(seen)
	if n.in {
		// The runtime's own first read is repeated until it has an answer.
		n.later(w.ttl/4, func() {
			if n.s.View.Kind == Unseen {
				n.resync()
			}
		})
	}
}
