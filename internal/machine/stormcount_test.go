package machine

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"
)

// An agenda is what is planned: a heap by time and, at one instant, by the
// order of planning.
type agenda struct {
	heap []plan
	seq  uint64
}

type plan struct {
	at  int64
	seq uint64
	do  func()
}

func (p plan) before(o plan) bool { return p.at < o.at || p.at == o.at && p.seq < o.seq }

func (a *agenda) add(at int64, do func()) {
	a.seq++
	a.heap = append(a.heap, plan{at, a.seq, do})
	h := a.heap
	for i := len(h) - 1; i > 0 && h[i].before(h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

// next takes the first thing that is due by end.
func (a *agenda) next(end int64) (at int64, do func(), ok bool) {
	h := a.heap
	if len(h) == 0 || h[0].at > end {
		return 0, nil, false
	}
	first := h[0]
	last := len(h) - 1
	h[0], h[last] = h[last], plan{}
	h = h[:last]
	a.heap = h
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if least == i {
			return first.at, first.do, true
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// A hashing covers everything that happened, so that two runs can be compared.
type hashing struct {
	h   hash.Hash64
	buf []byte
}

func newHashing(seed uint64) hashing {
	x := hashing{h: fnv.New64a()}
	x.add(seed)
	return x
}

func (x *hashing) add(words ...uint64) {
	x.buf = x.buf[:0]
	for _, n := range words {
		x.buf = binary.LittleEndian.AppendUint64(x.buf, n)
	}
	_, _ = x.h.Write(x.buf) // never fails, as documented
}

func (x *hashing) text(s string) { _, _ = x.h.Write([]byte(s)) }

// account counts a step and takes it into the hash.
func (n *node) account(before *State, ev Event, actions []Action) {
	w, s := n.w, &n.s
	w.events++
	w.hash.text(n.m.ID)
	w.hash.add(
		uint64(w.now), uint64(ev.Kind), ev.Op, uint64(ev.Outcome), ev.Rev, ev.Seen.Rev, uint64(ev.Seen.Kind), ev.Term, uint64(ev.Bars),
		uint64(s.Phase), s.View.Rev, s.Grant.Term, s.Grant.Rev, uint64(s.Grant.Trust.Mono), uint64(s.DueAt), uint64(s.Write.Stage),
	)
	w.hash.text(ev.Seen.Rec.Token)
	w.hash.text(string(s.Reason))
	c := &w.count
	c.events[ev.Kind]++
	for _, a := range actions {
		w.hash.add(uint64(a.Kind), a.Op, uint64(a.Write), a.Expected, uint64(a.Note), uint64(a.Outcome))
		switch a.Kind {
		case Send:
			c.writes[a.Write]++
		case Promote:
			c.promoted[a.Reason]++
		case Demote:
			c.demoted[a.Reason]++
		case Note:
			c.notes[a.Note]++
		default:
		}
	}
	if s.Phase != before.Phase {
		c.phases[s.Phase]++
	}
	if w.trace != nil {
		n.narrate(before, ev, actions)
	}
}

// narrate describes a step that had an effect.
func (n *node) narrate(before *State, ev Event, actions []Action) {
	if ev.Kind == Tick && n.s == *before {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v", n.m.ID, ev.Kind)
	switch ev.Kind {
	case Observed, Read:
		fmt.Fprintf(&b, " %v", ev.Seen)
	case Written:
		fmt.Fprintf(&b, " %v rev=%d", ev.Outcome, ev.Rev)
	default:
	}
	fmt.Fprintf(&b, " ⇒ %v (%s)", n.s.Phase, n.s.Reason)
	now := n.now()
	if n.s.Leading(now) {
		fmt.Fprintf(&b, ", leads term %d for %v", n.s.Grant.Term, time.Duration(n.s.Grant.Trust.Mono-now.Mono))
	}
	if n.s.Phase == Watching {
		fmt.Fprintf(&b, ", due in %v, barred %b", time.Duration(max(n.s.DueAt, n.s.StandBackUntil)-now.Mono), n.s.Barred)
	}
	for _, a := range actions {
		fmt.Fprintf(&b, "; %v", a.Kind)
		switch a.Kind {
		case Send:
			fmt.Fprintf(&b, " %v expecting %d", a.Write, a.Expected)
		case Note:
			fmt.Fprintf(&b, " %v", a.Note)
		default:
		}
	}
	n.w.say("%s", b.String())
}

// A tally is what happened in one schedule or in many.
type tally struct {
	schedules, steps int
	virtual          time.Duration
	leases           float64 // the same in lengths of the longest lease
	regimes          [regimes]int
	troubles         [troubles]int
	events           [len(eventNames)]int
	writes           [len(writeNames)]int
	outcomes         [len(outcomeNames)]int
	phases           [len(phaseNames)]int
	notes            [len(noteNames)]int
	promoted         map[Reason]int
	demoted          map[Reason]int
	shapes           shapes
	holes            int // schedules with two leaders where docs/reference/protocol.md allows them
	// The longest times without a leader in the calm, in parts of their bounds.
	failover, handover float64
}

func newTally() tally {
	return tally{promoted: map[Reason]int{}, demoted: map[Reason]int{}, shapes: shapes{}}
}

func addAll(to, from []int) {
	for i, n := range from {
		to[i] += n
	}
}

func (c *tally) add(o *tally) {
	c.schedules += o.schedules
	c.steps += o.steps
	c.virtual += o.virtual
	c.leases += o.leases
	c.holes += o.holes
	c.failover, c.handover = max(c.failover, o.failover), max(c.handover, o.handover)
	addAll(c.regimes[:], o.regimes[:])
	addAll(c.troubles[:], o.troubles[:])
	addAll(c.events[:], o.events[:])
	addAll(c.writes[:], o.writes[:])
	addAll(c.outcomes[:], o.outcomes[:])
	addAll(c.phases[:], o.phases[:])
	addAll(c.notes[:], o.notes[:])
	for r, n := range o.promoted {
		c.promoted[r] += n
	}
	for r, n := range o.demoted {
		c.demoted[r] += n
	}
	c.shapes.add(o.shapes)
}

// A row is one count with its name.
type row struct {
	name string
	n    int
}

// rows lists everything that has to happen in a run that is long enough.
func (c *tally) rows() []row {
	var rows []row
	list := func(group string, names []string, counts []int) {
		for i, n := range counts {
			rows = append(rows, row{group + ": " + names[i], n})
		}
	}
	list("schedules", regimeNames[:], c.regimes[:])
	list("fault", troubleNames[:], c.troubles[:])
	list("event", eventNames[:], c.events[:])
	list("write", writeNames[1:], c.writes[1:])
	list("outcome", outcomeNames[:], c.outcomes[:])
	list("becomes", phaseNames[1:], c.phases[1:])
	list("note", noteNames[:], c.notes[:])
	for _, r := range []Reason{ReasonAbsent, ReasonVacant, ReasonExpired, ReasonUnowned, ReasonRemnant} {
		rows = append(rows, row{"promoted: " + string(r), c.promoted[r]})
	}
	for _, r := range []Reason{
		ReasonTrust, ReasonSuperseded, ReasonDeleted, ReasonOverwritten, ReasonDisconnected, ReasonRetries, ReasonResigned,
		ReasonTransferred, ReasonSteppedDown, ReasonStopped, ReasonPanicked, ReasonUnhealthy, ReasonPaused, ReasonOutranked, ReasonBalanced,
	} {
		rows = append(rows, row{"demoted: " + string(r), c.demoted[r]})
	}
	return append(rows, row{"schedules: two leaders, as documented of a store that forgets", c.holes})
}

func (c *tally) String() string {
	var b strings.Builder
	for _, r := range c.rows() {
		fmt.Fprintf(&b, "    %-66s %11d\n", r.name, r.n)
	}
	others := map[Reason]int{}
	maps.Copy(others, c.promoted)
	maps.Copy(others, c.demoted)
	fmt.Fprintf(&b, "    reasons met: %v\n", slices.Sorted(maps.Keys(others)))
	return b.String()
}
