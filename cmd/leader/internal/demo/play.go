package demo

import (
	"fmt"
	"slices"
)

// playScript plays the step that is due, once a leader is there to be hit and
// what was done before has had its effect.
//
// Faults on top of one another would hide what each of them does. The demo ends
// by itself when nothing is open any more, a leader leads and all workers are
// well, for a TTL: whatever the last fault sets off comes before that.
func (st *stage) playScript() {
	if st.leaving || st.plan.Script == nil {
		return
	}
	now := st.now()
	if len(st.script) > 0 {
		if now-st.begun >= int64(st.script[0].At) && (!st.open() || st.script[0].Fault == Return && st.busy == "") {
			st.playStep(now)
		}
		return
	}
	if st.plan.For > 0 || st.open() || st.leader() == nil || slices.ContainsFunc(st.processes, (*process).impaired) {
		st.idleSince = 0
		return
	}
	if st.idleSince == 0 {
		st.idleSince = now
	}
	if now-st.idleSince > int64(st.plan.TTL) {
		st.leave()
	}
}

// playStep plays the next step, or reports once why it has to wait for long. A
// step that finds nobody is tried again with each tick.
func (st *stage) playStep(now int64) {
	step := st.script[0]
	// The restart of a server needs nobody who leads, but a script waits for a
	// leader with it, too: otherwise its effect could not be distinguished from
	// the state before. The return of a member may be what they wait for.
	err := st.vacancy()
	if st.leader() != nil || step.Fault == Return {
		err = st.strike(step.Fault)
	}
	if err == nil {
		st.script, st.waiting, st.waited = st.script[1:], 0, false
		return
	}
	if st.waiting == 0 {
		st.waiting = now
	}
	if now-st.waiting > int64(2*st.plan.TTL) && !st.waited {
		st.waited = true
		st.emit(Event{Kind: EventNote, Text: fmt.Sprintf("the step %q waits: %v", step, err)})
	}
}
