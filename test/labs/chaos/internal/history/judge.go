package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

// A Violation is a guarantee of docs/reference/protocol.md that did not hold.
type Violation struct {
	Guarantee string // G1 to G8
	Text      string
}

// String names both.
func (v Violation) String() string { return v.Guarantee + ": " + v.Text }

// Judge returns what a round shows to be violated. It errs on the side of the
// candidates: what it returns is certain, as far as the machine's clock is one.
func Judge(r Round) []Violation {
	j := judge{round: r, leaderships: leaderships(r.Processes)}
	j.oneLeader()
	j.termsGrow()
	j.noWayBack()
	for _, p := range r.Processes {
		j.callbacks(p)
		j.workFirst(p)
		j.end(p)
	}
	j.vacancies()
	j.notStranded()
	j.honest()
	j.fenced()
	return j.found
}

type judge struct {
	round       Round
	leaderships []leadership
	found       []Violation
}

func (j *judge) condemn(guarantee, format string, args ...any) {
	j.found = append(j.found, Violation{guarantee, fmt.Sprintf(format, args...)})
}

// A track is one of the ways in which a candidate reports that it leads.
type track string

const (
	trackLeader  track = "IsLeader"
	trackContext track = "the term's context"
)

// A leadership is the time in which a candidate reported without a break that
// it leads in a term.
type leadership struct {
	process string
	id      string
	track   track
	term    uint64
	first   Sample // that reported it
	last    Sample
}

// The certain part of a leadership is from the end of its first sample to the
// beginning of its last one: a term that is over never begins again (which
// noWayBack sees to), so that the candidate led at every instant between.
func (r leadership) from() int64 { return r.first.T1 }
func (r leadership) to() int64   { return r.last.T0 }

func (r leadership) String() string {
	return fmt.Sprintf("%s of %s in %s, term %d", r.track, r.id, r.process, r.term)
}

// A holding is a term of a candidate, on whatever track.
type holding struct {
	process, id string
	term        uint64
}

func (r leadership) holding() holding { return holding{r.process, r.id, r.term} }

func (r leadership) sameCandidate(o leadership) bool { return r.process == o.process && r.id == o.id }

// leaderships joins runs whose answer on a track is the same.
func leaderships(processes []Process) []leadership {
	var all []leadership
	for _, p := range processes {
		open := map[int]map[track]*leadership{}
		for _, run := range p.Runs {
			if open[run.Who] == nil {
				open[run.Who] = map[track]*leadership{trackLeader: nil, trackContext: nil}
			}
			for t, term := range map[track]uint64{trackLeader: run.Answer.Leader, trackContext: run.Answer.Ctx} {
				r := open[run.Who][t]
				switch {
				case r != nil && r.term == term:
					r.last = run.Last
					continue
				case r != nil:
					all = append(all, *r)
				}
				open[run.Who][t] = nil
				if term != 0 {
					open[run.Who][t] = &leadership{p.Name, p.IDs[run.Who], t, term, run.First, run.Last}
				}
			}
		}
		for _, tracks := range open {
			for _, r := range tracks {
				if r != nil {
					all = append(all, *r)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b leadership) int {
		return cmp.Or(cmp.Compare(a.first.T1, b.first.T1), cmp.Compare(a.process, b.process), cmp.Compare(a.track, b.track))
	})
	return all
}

// oneLeader is G1: certain leaderships of different candidates have no instant
// in common. Two terms are condemned once, by whichever of their tracks meet
// first. A single sample proves no span.
func (j *judge) oneLeader() {
	spans := make([]overlap.Span, len(j.leaderships))
	for i, r := range j.leaderships {
		spans[i] = overlap.Span{Who: fmt.Sprintf("%q %q", r.process, r.id), From: r.from(), To: r.to()}
	}
	type pair struct{ a, b holding }
	condemned := map[pair]bool{}
	for a, b := range overlap.Pairs(spans) {
		o, r := j.leaderships[a], j.leaderships[b]
		p := pair{o.holding(), r.holding()}
		if condemned[p] || condemned[pair{p.b, p.a}] {
			continue
		}
		condemned[p] = true
		j.condemn("G1", "two leaders for at least %v: %v, and %v", spans[a].Shared(spans[b]).Truncate(time.Microsecond), o, r)
	}
}

// termsGrow is G2: no term starts after a later one has started, and no two
// candidates lead in one term.
func (j *judge) termsGrow() {
	byAge := map[int][]leadership{}
	for _, r := range j.leaderships {
		if age, ok := j.age(r); ok && r.term != Unknown {
			byAge[age] = append(byAge[age], r)
		}
	}
	for _, terms := range byAge {
		// A leadership is compared with the leadership of a later term that was
		// first seen earliest.
		slices.SortStableFunc(terms, func(a, b leadership) int { return cmp.Compare(b.term, a.term) })
		var earliest *leadership
		for i, r := range terms {
			if i > 0 && terms[i-1].term == r.term && !terms[i-1].sameCandidate(r) {
				j.condemn("G2", "one term, two leaders: %v, and %v", terms[i-1], r)
			}
			if earliest != nil && earliest.term > r.term && earliest.first.T1 < r.first.T0 {
				j.condemn("G2", "after a later term had started: %v, after %v", r, *earliest)
			}
			if earliest == nil || r.first.T1 < earliest.first.T1 {
				earliest = &terms[i]
			}
		}
	}
}

// age returns between which two losses of the store a leadership began, unless
// this is unknown: a claim may be promoted a while after it was stored.
func (j *judge) age(r leadership) (age int, ok bool) {
	for _, f := range j.round.Forgot {
		if r.first.T1 >= f.T0 && r.first.T0 <= f.T1+int64(j.round.Settle) {
			return 0, false
		}
		if r.first.T0 > f.T1 {
			age++
		}
	}
	return age, true
}

// noWayBack is the part of G3 on which the certainty of leaderships rests: a
// term that is over does not begin again. Where the store forgot a claim, the
// candidate's next one may get the same revision, and be another term of the
// same number.
func (j *judge) noWayBack() {
	type key struct {
		holding
		track track
	}
	ended := map[key]int64{}
	for _, r := range j.leaderships {
		k := key{r.holding(), r.track}
		if end, seen := ended[k]; seen && r.term != Unknown && !(j.claimedTwice(r) && j.forgotBetween(end, r.first.T1)) {
			j.condemn("G3", "a term that was over began again: %v", r)
		}
		ended[k] = r.last.T0
	}
}

// claimedTwice reports whether a candidate was promoted for two claims of one
// number.
func (j *judge) claimedTwice(r leadership) bool {
	p := j.process(r.process)
	claims := map[string]bool{}
	for _, e := range p.Events {
		if e.Kind == EventPromoteBegin && e.Term == r.term && p.IDs[e.Who] == r.id {
			claims[e.Correlation] = true
		}
	}
	return len(claims) > 1
}

// forgotBetween reports whether the store may have forgotten a claim that was
// promoted before an instant, so that one promoted by a later instant got its
// revision again.
func (j *judge) forgotBetween(promoted, again int64) bool {
	return slices.ContainsFunc(j.round.Forgot, func(f Sample) bool {
		return again >= f.T0 && promoted <= f.T1+int64(j.round.Settle)
	})
}

// notStranded is G5: somebody leads soon after the last fault has ended.
func (j *judge) notStranded() {
	for _, w := range j.round.Waits {
		switch {
		case w.Led == 0:
			j.condemn("G5", "nobody led after %s, for more than %v", w.After, w.Limit)
		case time.Duration(w.Led-w.From) > w.Limit:
			j.condemn("G5", "nobody led after %s for %v, which is more than %v", w.After, time.Duration(w.Led-w.From), w.Limit)
		}
	}
}

// honest is G6: a candidate that leads in a term has stored it, according to
// the store itself.
func (j *judge) honest() {
	claims := map[uint64][]Stored{}
	for _, s := range j.round.Stored {
		if s.ID != "" && s.Term == 0 { // a claim, whose term is the revision that it got
			claims[s.Revision] = append(claims[s.Revision], s)
		}
	}
	for _, r := range j.leaderships {
		stored := claims[r.term]
		if len(stored) == 0 {
			continue // the lab may have missed it
		}
		if !slices.ContainsFunc(stored, func(s Stored) bool { return s.ID == r.id }) {
			j.condemn("G6", "%v, which the store gave to %s", r, stored[0].ID)
		}
	}
}

// fenced is G8: a guarded resource accepts no write of a term older than one
// that it has accepted before.
func (j *judge) fenced() {
	for _, res := range j.round.Resources {
		var newest Write
		for _, w := range res.Accepted {
			if w.Term < newest.Term {
				j.condemn("G8", "%s accepted a write of %s in term %d after one of %s in term %d", res.Name, w.From, w.Term, newest.From, newest.Term)
			}
			if w.Term >= newest.Term {
				newest = w
			}
		}
	}
}

// end is the rest of G5 and G7: a process ends when it is ordered to, and
// leaves nothing behind.
func (j *judge) end(p Process) {
	if p.Died != "" {
		j.condemn("G7", "%s ended by itself: %s", p.Name, p.Died)
	}
	for _, e := range p.Events {
		if e.Kind != EventStopped {
			continue
		}
		if e.Error != "" {
			j.condemn("G5", "%s could not stop: %s", p.Name, e.Error)
		}
		if len(e.Left) > 0 {
			j.condemn("G5", "%d goroutines outlived Stop in %s, the first of them:\n%s", len(e.Left), p.Name, e.Left[0])
		}
	}
}
