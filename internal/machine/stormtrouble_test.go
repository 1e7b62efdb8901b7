package machine

import "time"

// A trouble is a kind of fault or of intervention.
type trouble uint8

const (
	// Of a single message or timer.
	tLoseRequest trouble = iota
	tDelayRequest
	tDupRequest
	tLoseReply
	tDelayReply
	tTransient
	tPermanent
	tFalseConflict
	tStaleRead
	tFailRead
	tLoseUpdate
	tDelayUpdate
	tDupUpdate
	tReorderUpdate
	tStaleStart
	tLateTimer
	tFastWork
	tStuckWork
	tDupAsk
	tLateAsk
	tStallCalling
	tSuspendCalling

	// Of a candidate, its machine and its connection.
	tPause
	tSuspend
	tCrash
	tStop
	tLeave
	tRate
	tWallLeap
	tPartition
	tDeafness
	tMuteness
	tDisconnect
	tSeemsDown
	tFlap
	tUnhealthy
	tFull
	tResign
	tTransfer
	tPanic
	tValidate
	tClosed

	// Of the group and its store.
	tMaintenance
	tStepDown
	tAskTransfer
	tTakeover
	tBalance
	tDelete
	tGarbage
	tForeign
	tOutage
	tRollback
	tWipe
	tVanish
	tReturn
	tRemade
	troubles
)

var troubleNames = [troubles]string{
	tLoseRequest: "request lost", tDelayRequest: "request late", tDupRequest: "request twice", tLoseReply: "reply lost",
	tDelayReply: "reply late", tTransient: "transient failure", tPermanent: "permanent failure", tFalseConflict: "false conflict",
	tStaleRead: "stale read", tFailRead: "read failed", tLoseUpdate: "watch message lost", tDelayUpdate: "watch message late",
	tDupUpdate: "watch message twice", tReorderUpdate: "watch messages out of order", tStaleStart: "watch begins with an old state",
	tLateTimer: "timer late", tFastWork: "work stops at once", tStuckWork: "work overruns",
	tDupAsk: "control request twice", tLateAsk: "control request late",
	tStallCalling: "process stopped during a call", tSuspendCalling: "machine suspended during a call",
	tPause: "process stopped, clocks run", tSuspend: "machine suspended", tCrash: "crash", tStop: "stop and release",
	tLeave: "stop and leave", tRate: "clock changes its rate", tWallLeap: "wall clock leaps", tPartition: "black hole",
	tDeafness: "nothing comes in", tMuteness: "nothing goes out", tDisconnect: "connection lost",
	tSeemsDown: "connection reported lost, answers arrive", tFlap: "connection flaps", tUnhealthy: "unhealthy",
	tFull: "leads enough groups", tResign: "resign", tTransfer: "transfer by the program", tPanic: "callback panics",
	tValidate: "validate", tClosed: "window closed by a reader",
	tMaintenance: "group paused", tStepDown: "step-down asked", tAskTransfer: "transfer asked", tTakeover: "takeover asked",
	tBalance: "balance asked", tDelete: "key deleted", tGarbage: "key overwritten", tForeign: "stranger's record",
	tOutage: "store out", tRollback: "store rolled back", tWipe: "store wiped",
	tVanish: "record vanishes", tReturn: "record that had vanished is back", tRemade: "store made again",
}

// hit reports whether a trouble of one message happens now.
func (w *storm) hit(t trouble) bool {
	if w.calm || w.rates[t] == 0 || !w.chance(w.rates[t]/4) {
		return false
	}
	w.count.troubles[t]++
	return true
}

// late is a delay of which most are short.
func (w *storm) late() time.Duration {
	return time.Duration(float64(w.lateness()) * w.rng.Float64() * w.rng.Float64() * w.rng.Float64())
}

// trip is how long a message is under way.
func (w *storm) trip() time.Duration { return w.rtt/4 + time.Duration(w.draw(int64(w.rtt/2)+1)) + 1 }

// trouble makes one trouble of those that are switched on.
func (w *storm) trouble() {
	t := tPause + trouble(w.draw(int64(troubles-tPause)))
	if w.forgetful() && w.chance(0.05) {
		t = tRollback + trouble(w.draw(2))
	}
	if w.regime == vanishes && w.chance(0.05) {
		t = tVanish + trouble(w.draw(2))
	}
	if w.regime == remade && w.chance(0.05) {
		t = tRemade
	}
	if w.calm || w.bad != "" || !w.chance(2*w.rates[t]) {
		return
	}
	n := w.nodes[w.draw(int64(len(w.nodes)))]
	// Half of what can befall anybody befalls the holder.
	if w.reg.now.Kind == Held && w.chance(0.5) {
		for _, o := range w.nodes {
			if o.m.ID == w.reg.now.Rec.ID {
				n = o
			}
		}
	}
	var happened bool
	switch {
	case t >= tMaintenance:
		happened = w.ofGroup(t)
	case !n.alive():
		return
	case t >= tUnhealthy:
		happened = n.ofProgram(t)
	default:
		happened = n.ofMachine(t)
	}
	if happened {
		w.count.troubles[t]++
		w.say("%s (%s)", troubleNames[t], n.m.ID)
	}
}

// ofMachine does what befalls a process, its machine and its connection, and
// reports whether it could.
func (n *node) ofMachine(t trouble) bool {
	w := n.w
	switch t {
	case tPause:
		n.freeze(w.late(), false)
	case tSuspend:
		if !n.suspends {
			return false
		}
		n.freeze(w.late(), true)
	case tCrash:
		n.crash()
		w.after(w.late(), n.join)
	case tStop, tLeave:
		kind := StopRelease
		if t == tLeave {
			kind = StopLeave
		}
		n.step(Event{Kind: kind})
		w.after(w.late()+2*w.drain, func() {
			if !n.alive() {
				n.crash()
				n.join()
			}
		})
	case tRate:
		if n.frozen {
			return false
		}
		n.mono.set(w.now, w.rate())
		n.wall.set(w.now, w.rate())
		n.setAlarm()
	case tWallLeap:
		return n.leap()
	case tPartition, tDeafness, tMuteness:
		n.out, n.in = n.out || t != tDeafness, n.in || t != tMuteness
		w.after(w.late(), n.connected)
	case tSeemsDown:
		// Apart from what comes in, which may be cut off or not.
		n.step(Event{Kind: ConnDown})
		n.later(w.late(), func() { n.step(Event{Kind: ConnUp}) })
	case tFlap:
		n.flap(2 + int(w.draw(6)))
	default: // tDisconnect
		n.out, n.in = true, true
		n.step(Event{Kind: ConnDown})
		n.later(w.late(), func() {
			n.connected()
			n.resync()
		})
	}
	return true
}

// flap reports the connection lost and found a few times, and now and then
// lost twice in a row.
func (n *node) flap(times int) {
	w := n.w
	var at time.Duration
	for range times {
		at += w.late() / 8
		kind := ConnDown
		if w.chance(0.4) {
			kind = ConnUp
		}
		n.later(at, func() { n.step(Event{Kind: kind}) })
	}
	n.later(at+w.late()/8, func() { n.step(Event{Kind: ConnUp}) })
}

// leap sets the wall clock, and reports whether it could. The runtime's readers
// find out at once if that closed the window.
func (n *node) leap() bool {
	if n.suspends || n.frozen {
		return false
	}
	d := int64(n.w.late())
	if n.w.chance(0.5) {
		d = -d
	}
	n.wall.base += d
	if n.s.Phase == Holding && n.w.mutant.reached(n.s.Grant.Trust, n.now()) {
		n.step(Event{Kind: Closed, Term: n.s.Grant.Term})
	}
	return true
}

// connected ends what the network does to a candidate.
func (n *node) connected() {
	n.out, n.in = false, false
	if n.s.Down {
		n.step(Event{Kind: ConnUp})
	}
	n.resync()
}

// ofProgram does what the candidate's program may, and reports whether it
// could.
func (n *node) ofProgram(t trouble) bool {
	w := n.w
	holds := n.s.Phase == Holding
	switch {
	case t == tUnhealthy:
		n.step(Event{Kind: Bar, Bars: Unhealthy, Exit: Exit{Reason: ReasonUnhealthy}})
		n.later(w.late(), func() { n.step(Event{Kind: Unbar, Bars: Unhealthy}) })
		return true
	case t == tFull:
		n.step(Event{Kind: Bar, Bars: Full})
		n.later(w.late(), func() { n.step(Event{Kind: Unbar, Bars: Full}) })
		return true
	case !holds:
		return false
	case t == tResign:
		n.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
	case t == tTransfer:
		n.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonTransferred, Successor: w.anybody()}})
	case t == tPanic:
		n.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonPanicked}})
	case t == tValidate:
		n.step(Event{Kind: Validate})
	default: // tClosed
		n.step(Event{Kind: Closed, Term: n.s.Grant.Term})
	}
	return true
}

func (w *storm) anybody() string { return w.nodes[w.draw(int64(len(w.nodes)))].m.ID }

// ofGroup does what operators, strangers and the store may, and reports whether
// it could.
func (w *storm) ofGroup(t trouble) bool {
	at := w.reg.now
	foreign := t == tDelete || t == tGarbage || t == tForeign
	loss := t == tRollback || t == tWipe
	switch {
	case foreign && (w.regime == uneven || at.Rev == 0):
		return false
	case loss && !w.forgetful():
		return false
	case t == tRemade && w.regime != remade:
		return false
	case t == tVanish && (w.regime != vanishes || at.Rev == 0), t == tReturn && (at.Rev != 0 || w.reg.gone.Rev == 0):
		return false
	}
	switch t {
	case tMaintenance:
		return w.maintain()
	case tDelete:
		w.put(Bare, Record{})
	case tGarbage:
		w.put(Malformed, Record{})
	case tForeign:
		w.put(Held, w.stranger())
	case tOutage:
		w.reg.down = true
		w.after(w.late(), func() { w.reg.down = false })
	case tRollback:
		if len(w.reg.past) == 0 {
			return false
		}
		w.goBack(1 + int(w.draw(int64(len(w.reg.past)))))
	case tWipe:
		w.reg.now, w.reg.past, w.reg.rev = Seen{Kind: Absent}, nil, 0
		w.publish()
	case tVanish:
		w.vanish()
	case tRemade:
		w.remake()
	case tReturn:
		w.reg.now, w.reg.gone = w.reg.gone, Seen{}
		w.publish()
	default:
		return w.ask(t)
	}
	return true
}

// stranger is a record that no candidate wrote, with a lease as long as a
// candidate's at least.
func (w *storm) stranger() Record {
	r := Record{ID: "x", Token: "x", TTL: w.ttl + time.Duration(w.draw(int64(2*w.most)))}
	switch w.draw(4) {
	case 0:
		r.TTL = [...]time.Duration{0, 1000 * w.most}[w.draw(2)] // of no length, and of too long a one
	case 1:
		r.ID, r.Token = w.anybody(), ""
	case 2:
		r.Successor, r.Term, r.Renewal = w.anybody(), 1<<50, 1<<50
	default:
	}
	return r
}

// maintain pauses the group for a while, and reports whether it was not paused
// before. Everybody hears of both, in this order.
func (w *storm) maintain() bool {
	if w.paused {
		return false
	}
	w.paused = true
	last := map[*node]int64{}
	for _, n := range w.nodes {
		d := w.late() / 4
		last[n] = w.now + int64(d)
		n.later(d, func() {
			if w.paused {
				n.step(Event{Kind: Bar, Bars: Paused, Exit: Exit{Reason: ReasonPaused, By: "operator"}})
			}
		})
	}
	w.after(w.late(), func() {
		if !w.paused {
			return // the calm came first
		}
		w.paused = false
		for _, n := range w.nodes {
			n.later(max(time.Duration(last[n]-w.now), 0)+w.trip(), func() {
				if !w.paused {
					n.step(Event{Kind: Unbar, Bars: Paused})
				}
			})
		}
	})
	return true
}

// ask asks the holder that the register shows to leave, and reports whether
// there is one. Requests go to all candidates, and they may come late and
// twice.
func (w *storm) ask(t trouble) bool {
	at := w.reg.now
	term := at.Rec.Term
	if term == 0 {
		term = at.Rev
	}
	if at.Kind != Held {
		return false
	}
	w.asked[term] = true
	x := Exit{Reason: ReasonSteppedDown, By: "operator", Why: "maintenance"}
	switch t {
	case tAskTransfer:
		x.Reason, x.Successor = ReasonTransferred, w.anybody()
	case tTakeover:
		x.Reason, x.Successor = ReasonOutranked, w.anybody()
	case tBalance:
		x.Reason, x.Successor = ReasonBalanced, w.anybody()
	default:
	}
	for _, n := range w.nodes {
		d := w.trip()
		if w.hit(tLateAsk) {
			d += w.late()
		}
		ev := Event{Kind: Asked, Term: term, Exit: x}
		n.later(d, func() { n.step(ev) })
		if w.hit(tDupAsk) {
			n.later(d+w.late(), func() { n.step(ev) })
		}
	}
	return true
}
