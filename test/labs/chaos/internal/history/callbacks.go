package history

import "slices"

// callbacks is G3: of each candidate, promotions and demotions alternate and do
// not overlap, each term is promoted once, and none that is over.
func (j *judge) callbacks(p Process) {
	for who, id := range p.IDs {
		c := callbacks{j: j, p: p, who: who, id: id, next: EventPromoteBegin, seen: map[uint64]Event{}}
		for _, e := range p.Events {
			if e.Who == who {
				c.take(e)
			}
		}
	}
}

type callbacks struct {
	j    *judge
	p    Process
	who  int
	id   string
	next string           // what has to come
	term uint64           // of the callbacks that run
	seen map[uint64]Event // the promotion in each term
}

func (c *callbacks) take(e Event) {
	after := map[string]string{
		EventPromoteBegin: EventPromoteEnd, EventPromoteEnd: EventDemoteBegin,
		EventDemoteBegin: EventDemoteEnd, EventDemoteEnd: EventPromoteBegin,
	}
	next, isCallback := after[e.Kind]
	if !isCallback {
		return
	}
	if e.Kind != c.next {
		c.j.condemn("G3", "%s in %s: %s of term %d, where %s had to come", c.id, c.p.Name, e.Kind, e.Term, c.next)
	}
	c.next = next
	if e.Kind == EventPromoteBegin {
		c.begin(e)
		return
	}
	if e.Term != c.term {
		c.j.condemn("G3", "%s in %s: %s of term %d in the middle of term %d", c.id, c.p.Name, e.Kind, e.Term, c.term)
	}
}

func (c *callbacks) begin(e Event) {
	c.term = e.Term
	if before, seen := c.seen[e.Term]; seen && (before.Correlation == e.Correlation || !c.j.forgotBetween(before.At, e.At)) {
		c.j.condemn("G3", "%s in %s was promoted twice in term %d", c.id, c.p.Name, e.Term)
	}
	c.seen[e.Term] = e
	if e.Over && !c.stalled(e.At) {
		c.j.condemn("G3", "%s in %s was promoted in term %d, which was over", c.id, c.p.Name, e.Term)
	}
}

// stall is a time without samples that is long enough for a term to end between
// the library's own look at it and the call of OnPromote. Only a process that
// does not run takes so long.
const stall = 100_000_000 // ns

// stalled reports whether the process did not run in the second before an
// instant, as far as its samples show.
func (c *callbacks) stalled(at int64) bool {
	last := int64(0)
	for _, r := range c.p.Runs {
		if r.Who != c.who || r.First.T0 > at {
			continue
		}
		gap := max(r.MaxGap, r.First.T1-r.First.T0, r.Last.T1-r.Last.T0)
		if last != 0 {
			gap = max(gap, r.First.T0-last)
		}
		if gap >= stall && r.Last.T1 >= at-10*stall {
			return true
		}
		last = r.Last.T1
	}
	return last != 0 && at-last >= stall // it was stopped until now
}

// workFirst is G4: a release leaves when the callbacks of its term have
// returned, or their time is spent.
func (j *judge) workFirst(p Process) {
	for _, e := range p.Events {
		if e.Kind != EventCall || !lets(e.Call) || e.Correlation == "" {
			continue
		}
		begun := slices.IndexFunc(p.Events, func(o Event) bool {
			return o.Who == e.Who && o.Kind == EventPromoteBegin && o.Correlation == e.Correlation
		})
		if begun < 0 || p.Events[begun].At > e.Sent {
			continue // nobody worked for it
		}
		term := p.Events[begun].Term
		end := endOfWork(p, e.Who, term)
		if end != 0 && end <= e.Sent || e.Sent-j.overSince(p, e.Who, term) >= int64(j.round.DemoteTimeout) {
			continue
		}
		j.condemn("G4", "%s in %s released term %d while its work was running", p.IDs[e.Who], p.Name, term)
	}
}

// endOfWork returns when OnDemote of a term was about to return, 0 if it never
// was.
func endOfWork(p Process, who int, term uint64) int64 {
	for _, e := range p.Events {
		if e.Who == who && e.Kind == EventDemoteEnd && e.Term == term {
			return e.At
		}
	}
	return 0
}

// overSince returns an instant at which a term was certainly still on, from
// which its DemoteTimeout is counted.
func (j *judge) overSince(p Process, who int, term uint64) int64 {
	for _, r := range j.leaderships {
		if r.process == p.Name && r.id == p.IDs[who] && r.term == term && r.track == trackLeader {
			return r.last.T0
		}
	}
	return 0
}

// vacancies is G4 as the successor sees it: who leads at once, since the last
// leader released, finds that one's work stopped.
func (j *judge) vacancies() {
	led := slices.DeleteFunc(slices.Clone(j.leaderships), func(r leadership) bool { return r.track != trackLeader || r.term == Unknown })
	for i := 1; i < len(led); i++ {
		before, after := led[i-1], led[i]
		p := j.process(before.process)
		who := slices.Index(p.IDs, before.id)
		if before.term >= after.term || before.sameCandidate(after) || !j.vacant(after) || !released(p, who, before.term) {
			continue
		}
		begun := slices.ContainsFunc(p.Events, func(e Event) bool {
			return e.Who == who && e.Kind == EventPromoteBegin && e.Term == before.term && e.At < after.from()
		})
		end := endOfWork(p, who, before.term)
		overran := after.from()-before.last.T0 >= int64(j.round.DemoteTimeout)
		if begun && (end == 0 || end > after.from()) && !overran {
			j.condemn("G4", "%v began while the work of %v was running, which had released", after, before)
		}
	}
}

func (j *judge) process(name string) Process {
	i := slices.IndexFunc(j.round.Processes, func(p Process) bool { return p.Name == name })
	return j.round.Processes[i]
}

// lets reports whether a call is one by which a candidate lets others lead at
// once.
func lets(call string) bool { return call == "release" || call == "offer" }

// vacant reports whether a leadership began by a claim that the one before let
// it make at once: on a vacancy, or on a record that was offered.
func (j *judge) vacant(r leadership) bool {
	p := j.process(r.process)
	return slices.ContainsFunc(p.Events, func(e Event) bool {
		return e.Kind == EventTransition && p.IDs[e.Who] == r.id && e.To == "LEADER" && e.Term == r.term && (e.Reason == "vacant" || e.Reason == "offered")
	})
}

// released reports whether the store acknowledged the release of a term, or the
// term's record was offered.
func released(p Process, who int, term uint64) bool {
	correlation := ""
	for _, e := range p.Events {
		if e.Who == who && e.Kind == EventPromoteBegin && e.Term == term {
			correlation = e.Correlation
		}
		if e.Who == who && e.Kind == EventCall && lets(e.Call) && e.Outcome == okOutcome && e.Correlation == correlation && correlation != "" {
			return true
		}
	}
	return false
}

// okOutcome is how the library names a write that was acknowledged.
const okOutcome = "ok"
