package demo

import (
	"fmt"
	"slices"
	"time"
)

// A sample is one question to IsLeader that was answered with yes: Before and
// After are readings of the machine's clock from just before and just after the
// call, in nanoseconds.
type sample struct{ Before, After int64 }

// A detector counts the instants at which two workers provably led.
//
// Two workers cannot be asked at the same instant, so that asking one and then
// the other shows two leaders at every hand-over, wrongly. Hence what counts is
// what each worker's answers prove about the time between them. The argument:
//
//  1. A sample with the answer yes proves that its worker led at some instant between
//     Before and After.
//  2. A term that is over never begins again. So two samples of one worker that
//     are yes in the same term, with no "no" between them, prove that it led
//     without a break from the After of the first to the Before of the last.
//     That is its certain span.
//  3. A sample of another worker that lies as a whole (Before to After) in that
//     span was answered at an instant, wherever it lay, at which both led.
//
// Each sample of 3 counts as one instant. So nothing is counted that was not
// true; and two leaders that overlap for longer than two samples are apart are
// not missed, except for the few milliseconds of samples that a killed worker
// had not reported yet. The clock is one for all processes of the machine, so
// that readings of different workers compare.
//
// Reports may come in any order: a worker that was frozen reports late what it
// saw before.
//
// The labs judge by the same rule when all is over (test/internal/overlap). The
// demo judges while it runs, and is part of a program that links no tests.
type detector struct {
	spans []*span
	// Asked is the number of questions to IsLeader, of all workers and with any
	// answer.
	Asked uint64
	// Double is the number of instants with two leaders.
	Double uint64
	// Evidence describes each pair of spans that overlap.
	Evidence []string
}

// A span is the time from the first to the last sample of one unbroken run.
type span struct {
	worker string
	run    uint64 // counts the runs of the worker
	term   uint64
	first  sample
	last   sample
	recent []counted
	met    map[*span]bool // the spans found to overlap this one
}

// holds reports whether x was answered, as a whole, in the time in which the
// worker certainly led.
func (s *span) holds(x sample) bool { return s.first.After <= x.Before && x.After <= s.last.Before }

// overlaps reports whether both certainly led at some instant.
func (s *span) overlaps(other *span) bool {
	return max(s.first.After, other.first.After) <= min(s.last.Before, other.last.Before)
}

// shared is for how long, at least, both led.
func (s *span) shared(other *span) time.Duration {
	return time.Duration(max(0, min(s.last.Before, other.last.Before)-max(s.first.After, other.first.After)))
}

// near reports whether a sample of s may lie in the other span.
func (s *span) near(other *span) bool {
	return s.first.Before <= other.last.Before && other.first.After <= s.last.After
}

// A counted sample knows whether it was counted: it is compared again with each
// report, and counts once.
type counted struct {
	sample
	double bool
}

// memory is how long samples are kept for a report that comes late. A later one
// still counts, once.
const memory = 2 * time.Minute

// observe adds samples, in order, of one run of one worker. It reports whether
// they prove an overlap that was not known.
func (d *detector) observe(worker string, run, term uint64, samples []sample) bool {
	if len(samples) == 0 {
		return false
	}
	s := d.span(worker, run, term, samples[0])
	for _, x := range samples {
		s.recent = append(s.recent, counted{sample: x})
	}
	s.last = samples[len(samples)-1]
	news := false
	for _, other := range d.spans {
		if other.worker != worker && (s.near(other) || other.near(s)) {
			news = d.compare(s, other) || news
		}
	}
	s.forget(s.last.After - int64(memory))
	return news
}

// compare counts what two spans of different workers prove, and reports whether
// they are a new pair. Both directions are looked at: reports come in any
// order, and the samples of either may have come first.
func (d *detector) compare(s, other *span) (news bool) {
	found := count(s.recent, other) + count(other.recent, s)
	if found == 0 && (s.met[other] || !s.overlaps(other)) {
		return false
	}
	// The spans may overlap between samples, or where samples were forgotten.
	d.Double += max(found, 1)
	if s.met[other] {
		return false
	}
	s.met[other], other.met[s] = true, true
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s in term %d and %s in term %d both led for at least %v",
		s.worker, s.term, other.worker, other.term, s.shared(other)))
	return true
}

// span returns the span of a run, which begins with that sample if it is new.
func (d *detector) span(worker string, run, term uint64, first sample) *span {
	i := slices.IndexFunc(d.spans, func(s *span) bool { return s.worker == worker && s.run == run })
	if i >= 0 {
		return d.spans[i]
	}
	s := &span{worker: worker, run: run, term: term, first: first, last: first, met: map[*span]bool{}}
	d.spans = append(d.spans, s)
	return s
}

// count marks the samples that lie in the other span, and returns how many were
// not marked before.
func count(samples []counted, other *span) (n uint64) {
	for i := range samples {
		x := &samples[i]
		if !x.double && other.holds(x.sample) {
			x.double = true
			n++
		}
	}
	return n
}

// forget drops samples from before t, now and then. To copy what is left each
// time would cost more than the memory is worth.
func (s *span) forget(t int64) {
	n := 0
	for n < len(s.recent) && s.recent[n].After < t {
		n++
	}
	if n > len(s.recent)/2 {
		s.recent = slices.Clone(s.recent[n:])
	}
}
