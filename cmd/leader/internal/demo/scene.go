package demo

import (
	"slices"
	"time"
)

// A scene is what the view shows of one instant. It is immutable. The stage
// makes one with each tick, and the view draws the latest: so neither waits for
// the other, and no lock is held while the terminal is written.
type scene struct {
	now     int64 // on the machine's clock
	elapsed time.Duration
	rows    []row
	leader  string
	ours    bool   // the leader is one of our workers
	silent  string // a worker that leads no more, and whose lease the others wait out
	term    uint64
	since   time.Duration // for how long it has led
	until   int64         // the end of its trust window
	script  Script
	samples uint64
	double  uint64
	last    *Outcome // the last fault that was dealt with
	server  string   // what is done to the server, if anything
	members []row    // of a quorum: id and state, and gone if it is killed or has trouble
	workers int      // how many there are to be; rows has those that were started
	joined  int      // how many of them have reported
	led     bool     // somebody has led, or leads
	leaving bool
}

// A row is one worker.
type row struct {
	id, state, reason, conn string
	seen                    uint64
	leading                 bool
	fault                   Fault
	gone                    bool
}

// show publishes the state of the scene.
//
// A follower's leader may be a worker of this demo which leads no more, by its
// own report or by the clock: then nobody leads, and the others wait out its
// lease.
func (st *stage) show() {
	now := st.now()
	s := &scene{
		now: now, elapsed: time.Duration(now - st.begun), script: slices.Clone(st.script),
		samples: st.detector.Asked, double: st.detector.Double, leaving: st.leaving,
		workers: len(st.processes) + st.unborn, led: st.latest != 0,
	}
	s.server, s.members = st.busy, st.members.rows()
	for _, p := range st.processes {
		s.add(p, now)
	}
	if i := slices.IndexFunc(s.rows, func(r row) bool { return r.id == s.leader }); !s.ours && i >= 0 {
		s.silent, s.leader, s.term = s.leader, "", 0
	}
	if s.term != 0 && s.ours {
		if from := st.leadership(s.leader, s.term).from; from != 0 {
			s.since = time.Duration(now - from)
		}
	}
	for _, t := range st.trials {
		if t.done {
			last := t.Outcome
			s.last = &last
		}
	}
	st.scene.Store(s)
}

// rows describe the members.
func (ms members) rows() (rows []row) {
	for _, m := range ms {
		r := row{id: m.name, state: m.last.String(), gone: m.down || m.last.State.Troubled()}
		switch {
		case m.down:
			r.state = "killed"
		case m.last.Error != "":
			r.state = string(m.last.State) // the reason would take the whole line
		case r.state == "":
			r.state = "not asked yet"
		}
		rows = append(rows, r)
	}
	return rows
}

// add adds a worker. A worker's own claim to lead takes precedence over what
// others report, and the latest term over earlier terms: frozen workers and
// late reports have those.
func (s *scene) add(p *process, now int64) {
	l := p.last
	if p.joined {
		s.joined++
	}
	// By the clock as well as by its report: a frozen worker leads no more when
	// its window has closed, and cannot report that.
	leading := l.Leading && now < l.Until && !p.gone && p.fault != Crash
	s.rows = append(s.rows, row{
		id: p.id, state: l.State, reason: l.Reason, conn: l.Conn, seen: l.Seen, leading: leading, fault: p.fault, gone: p.gone,
	})
	if leading && (!s.ours || l.Seen > s.term) {
		s.leader, s.ours, s.term, s.until = p.id, true, l.Seen, l.Until
	}
	if !s.ours && !p.gone && p.fault == "" && l.Leader != "" && l.Seen > s.term {
		s.leader, s.term = l.Leader, l.Seen
	}
}
