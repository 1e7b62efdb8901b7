package demo

import "time"

// leave ends the demo: first the followers stop and then the leader, so that
// its release does not begin another term.
//
// Frozen workers are continued, and connections that were cut are healed, since
// otherwise no order could reach the workers. Called again, it only looks
// whether it can go on.
func (st *stage) leave() {
	if st.leaving {
		st.leaveOn()
		return
	}
	st.leaving = true
	// Taken before any worker is notified: the leader is stopped when the
	// others are gone.
	last := st.leader()
	for _, p := range st.processes {
		if p.fault == Freeze || p.fault == Cut {
			st.repair(p)
		}
		if p != last {
			p.stop()
		}
	}
	time.AfterFunc(exitPatience, func() { st.post(st.killRest) })
	st.leaveOn()
}

// leaveOn goes on with leaving once all followers are gone, and ends it once
// everybody is. The last one is stopped when it is alone; so it releases a
// record that nobody is left to claim.
func (st *stage) leaveOn() {
	here := st.processes[:0:0]
	for _, p := range st.processes {
		if !p.gone {
			here = append(here, p)
		}
	}
	switch {
	case len(here) == 0:
		st.finished = st.busy == "" // what is done to servers comes back here
	case len(here) == 1:
		here[0].stop()
		time.AfterFunc(exitPatience, func() { st.post(st.killRest) })
	}
}

// killRest kills the workers that were ordered to stop and have not, within the
// time they had: a demo that ends must not leave processes behind.
func (st *stage) killRest() {
	for _, p := range st.processes {
		if !p.gone && p.leaving {
			p.kill()
		}
	}
}

// abort ends the demo at once. Records are left as they are, and run out.
func (st *stage) abort() {
	st.leaving = true
	for _, p := range st.processes {
		if !p.gone {
			p.leaving = true
			p.kill()
		}
	}
	st.leaveOn()
}
