package demo

import (
	"slices"

	"github.com/seed-ff2cb582/leader"
)

// hear takes a message of a worker.
func (st *stage) hear(m message) {
	switch {
	case m.ended:
		st.ended(m.from, m.err)
	case m.stderr != "":
		m.from.complaint = m.stderr
		st.emit(Event{Kind: EventNote, Worker: m.from.id, Text: m.stderr})
	default:
		st.report(m.from, m.report)
	}
}

// report records a report. Reports of one worker come in order, and reports of
// several in any.
func (st *stage) report(p *process, r report) {
	// From here on nothing that it saw before is to come: see sampled.
	p.told = max(p.told, r.At)
	switch r.Kind {
	case reportStatus:
		// Whole: what the status does not contain no longer holds.
		p.last, p.joined = *r.Status, true
		st.kept(p)
	case reportSamples:
		st.samples(p, r.Samples)
	case reportTransition:
		st.transition(p, r)
	case reportWoke:
		says := "IsLeader says no at its first look"
		if r.Leading {
			says = "IsLeader says yes, its trust window is still open"
		}
		st.emit(Event{Kind: EventWoke, Worker: p.id, Took: millis(r.Gap), Text: says})
	case reportNote:
		if noteworthy(r.Note) {
			st.emit(Event{Kind: EventNote, Worker: p.id, Text: r.Text})
		}
	case reportFailed:
		st.resignFailed(p, r.Text)
	}
}

// resignFailed ends the trials of a leader that could not resign.
func (st *stage) resignFailed(p *process, why string) {
	for _, t := range st.trials {
		if t.hit == p && t.Fault == Resign && !t.done {
			st.spoil(t, why)
			return
		}
	}
	st.emit(Event{Kind: EventNote, Worker: p.id, Text: "resign: " + why})
}

// noteworthy reports whether a person wants to see a note: not that one of ten
// lost a race or tries again.
func noteworthy(kind string) bool {
	switch kind {
	case leader.NoteLostRace, leader.NoteFailed, leader.NoteStale, leader.NoteNotReady:
		return false
	default:
		return true
	}
}

// samples gives a worker's answers to the detector, and notes how long it was
// seen to lead, which is where the time without a leader begins.
func (st *stage) samples(p *process, s *samples) {
	st.detector.Asked += s.Asked
	if len(s.Led) == 0 {
		return
	}
	led := make([]sample, len(s.Led))
	for i, x := range s.Led {
		led[i] = sample{Before: x[0], After: x[1]}
	}
	r := st.leadership(p.id, s.Term)
	r.seen = max(r.seen, led[len(led)-1].After)
	st.latest = max(st.latest, s.Term)
	if st.detector.observe(p.id, s.Run, s.Term, led) {
		st.emit(Event{Kind: EventTwoLeaders, Text: st.detector.Evidence[len(st.detector.Evidence)-1]})
	}
}

// leadership returns what is known of a term, which is made at its first
// mention. The pointer is good until the next call.
func (st *stage) leadership(worker string, term uint64) *leadership {
	i := slices.IndexFunc(st.leaderships, func(r leadership) bool { return r.worker == worker && r.term == term })
	if i < 0 {
		st.leaderships = append(st.leaderships, leadership{worker: worker, term: term})
		i = len(st.leaderships) - 1
	}
	return &st.leaderships[i]
}

// transition takes in a change of state. It is ahead of the next status: a
// fault that is struck right after a promotion must find the new leader.
func (st *stage) transition(p *process, r report) {
	st.emit(Event{
		T: st.offset(r.At), Kind: EventTransition, Worker: p.id, From: r.From, To: r.To, Reason: r.Reason, Term: r.Term,
	})
	p.last.State, p.last.Reason = r.To, r.Reason
	if r.To == leader.StateLeader {
		st.leadership(p.id, r.Term).from = r.At
		st.latest = max(st.latest, r.Term)
		// Its next status has the true end of the window, within statusEvery.
		p.last.Leading, p.last.Seen, p.last.Until = true, r.Term, r.At+int64(st.window())
		st.promoted(p, r)
	}
	// Its next status comes later, and a fault is not to be struck at it until
	// then.
	if r.From == leader.StateLeader {
		p.last.Leading = false
	}
}
