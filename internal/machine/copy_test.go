package machine

import (
	"fmt"
	"testing"
)

// A twins is a small separate world: one candidate, and a copy of its whole
// machine with its memory. It has one register, and explores every order of
// events.
type twins struct {
	m    Machine
	s    [2]State
	now  Instant
	reg  Seen
	out  [2]Action // the call that is under way, if busy
	busy [2]bool
	lost [2]bool // its write was applied, and the answer lost
	// heard: it knows something of the register that is younger than the copy.
	heard [2]bool
	nonce uint64
	blind bool // no nonce is to be had: the generator was copied, too
	path  string
}

// step puts an event to one of the twins, and judges what it does.
func (w *twins) step(i int, ev Event) error {
	w.nonce++
	ev.Token, ev.Nonce = "a1", w.nonce // drawn before the copy, and after it
	if w.blind {
		ev.Nonce = 1
	}
	s, acts := w.m.Step(w.s[i], ev, w.now)
	w.s[i], w.busy[i] = s, false
	w.path += fmt.Sprintf("%d: %v %v; ", i, ev.Kind, ev.Outcome)
	for _, a := range acts {
		switch a.Kind {
		case Send:
			w.out[i], w.busy[i], w.lost[i] = a, true, false
			if a.Write == Release && a.Expected == w.reg.Rev && w.s[1-i].Leading(w.now) && w.s[1-i].Grant.Rev == w.reg.Rev {
				return fmt.Errorf("%d releases the record of its twin, which leads", i)
			}
		case Look:
			w.out[i], w.busy[i] = a, true
		case Demote:
			if err := w.step(i, Event{Kind: Drained}); err != nil {
				return err
			}
		default:
		}
	}
	if w.heard[0] && w.heard[1] && w.s[0].Leading(w.now) && w.s[1].Leading(w.now) {
		return fmt.Errorf("both lead on")
	}
	return nil
}

// next returns the worlds that can follow.
func (w *twins) next() (all []twins, err error) {
	follow := func(f func(w *twins) error) {
		o := *w
		if e := f(&o); e != nil && err == nil {
			err = fmt.Errorf("%w: %s", e, o.path)
		}
		all = append(all, o)
	}
	for i := range w.s {
		switch a := w.out[i]; {
		case w.busy[i] && a.Kind == Look:
			follow(func(w *twins) error { w.hear(i); return w.step(i, Event{Kind: Read, Op: a.Op, Seen: w.reg}) })
		case w.busy[i]:
			follow(func(w *twins) error { return w.write(i, true) })
			follow(func(w *twins) error { return w.write(i, false) })
		default:
			follow(func(w *twins) error { return w.step(i, Event{Kind: Tick}) })
		}
		if w.reg.Rev > w.s[i].View.Rev {
			follow(func(w *twins) error {
				busy := w.busy[i]
				w.hear(i)
				err := w.step(i, Event{Kind: Observed, Seen: w.reg})
				// The call stays under way unless another took its place.
				w.busy[i] = w.busy[i] || busy && w.s[i].Write.Op == w.out[i].Op && w.s[i].Write.Stage != NoStage
				return err
			})
		}
	}
	follow(func(w *twins) error { w.now = w.now.Add(w.m.Heartbeat); return nil })
	return all, err
}

func (w *twins) hear(i int) { w.heard[i] = w.heard[i] || w.reg.Rev > 5 }

// write has a write meet the register; its answer arrives, or is lost.
func (w *twins) write(i int, answered bool) error {
	a := w.out[i]
	ev := Event{Kind: Written, Op: a.Op, Outcome: Conflict}
	if w.reg.Rev == a.Expected {
		kind := Held
		if a.Write == Release {
			kind = Vacant
		}
		w.reg = Seen{Kind: kind, Rev: w.reg.Rev + 1, Rec: a.Rec}
		ev.Outcome, ev.Rev = OK, w.reg.Rev
	}
	switch {
	case !answered:
		ev.Outcome = Unknown
	case ev.Outcome == OK:
		w.hear(i)
	}
	return w.step(i, ev)
}

// explore visits the worlds that follow w within so many steps, and returns the
// first error.
func (w *twins) explore(steps int) (worlds int, err error) {
	type key struct {
		s           [2]State
		now         Instant
		reg         Seen
		busy, heard [2]bool
	}
	seen := map[key]bool{}
	level := []twins{*w}
	for range steps {
		var next []twins
		for _, w := range level {
			more, err := w.next()
			if err != nil {
				return len(seen), err
			}
			for _, o := range more {
				k := key{o.s, o.now, o.reg, o.busy, o.heard}
				if !seen[k] && o.now.Mono <= w.m.TTL.Nanoseconds() {
					seen[k] = true
					next = append(next, o)
				}
			}
		}
		level = next
	}
	return len(seen), nil
}

// copied are the worlds right after the copy of a leader, and of a candidate
// that has seen a vacancy and may not claim it yet.
func copied() map[string]twins {
	m := unitMachine("a")
	leading := elected(m)
	led := twins{m: m, s: [2]State{leading.s, leading.s}, now: leading.now, reg: leading.s.View, nonce: 100}
	p := &play{m: m}
	p.step(Event{Kind: Start})
	vacancy := Seen{Kind: Vacant, Rev: 5, Rec: Record{Token: "b1"}}
	vacant := twins{m: m, s: [2]State{p.s, p.s}, now: p.now, reg: vacancy, nonce: 100}
	return map[string]twins{"a leader": led, "a candidate": vacant}
}

// A copy of the whole machine has its token. Each of the two recognizes that it
// did not write what the other wrote, whichever writes were lost, and gives
// way.
func TestACopyGivesWayToItsTwin(t *testing.T) {
	steps := map[string]int{"a leader": 14, "a candidate": 9}
	for name, w := range copied() {
		worlds, err := w.explore(steps[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d worlds", name, worlds)
	}
}

// If the copy draws the same numbers and both renew at once, each finds the
// other's write where it expects its own renewal, and cannot distinguish them
// (docs/reference/protocol.md, Limits). A fenced resource cannot either, because both
// have the same term.
func TestHoleACopyThatDrawsTheSameNumbersTakesItsTwinsRenewalForItsOwn(t *testing.T) {
	for name, w := range copied() {
		w.blind = true
		if _, err := w.explore(11); err == nil {
			t.Errorf("%s: the hole was not there", name)
		}
	}
}
