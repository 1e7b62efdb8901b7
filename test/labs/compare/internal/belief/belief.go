// Package belief judges how long more than one candidate believed that it
// leads, from samples that each process took of itself on the clock that all
// processes of a machine share.
package belief

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Now reads CLOCK_MONOTONIC, which all processes of this machine see alike.
func Now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it fails for unknown clocks only
	return time.Duration(t.Nano())
}

// A Sample is what a candidate said of itself at some instant between Before
// and After.
type Sample struct {
	Before, After time.Duration
	Answer        bool // it answered that it leads
	Works         bool // its program would act
	Follows       bool // it knows that the other one leads
}

// String is the form in which a process hands its samples on.
func (s Sample) String() string {
	return fmt.Sprintf("%d %d %t %t %t", s.Before, s.After, s.Answer, s.Works, s.Follows)
}

// Parse reads what String writes.
func Parse(line string) (s Sample, err error) {
	_, err = fmt.Sscanf(line, "%d %d %t %t %t", &s.Before, &s.After, &s.Answer, &s.Works, &s.Follows)
	return s, err
}

// Usable reports whether the sample counts: it was taken fast enough to say
// when it was.
func (s Sample) Usable() bool { return s.After-s.Before <= blur }

const (
	// blur is the longest time that a sample may have taken. One that took
	// longer was interrupted, perhaps for seconds, and nobody knows which end
	// it belongs to; it counts for nothing.
	blur = 100 * time.Microsecond
	// gap is the longest time between two samples over which a belief is taken
	// to last. A frozen process believes nothing: it does not act, and does not
	// answer.
	gap = 50 * time.Millisecond
)

// A Span is a time during which a candidate believed without a break.
type Span struct{ From, To time.Duration }

// Spans returns when a candidate believed, in order. Samples are those of one
// candidate in order; what is not believed may be left out for as long as it is
// more than the sampling interval and less than that a change is missed.
func Spans(samples []Sample, believes func(Sample) bool) (spans []Span) {
	last := -1 // the sample with which the latest span ends, if it may go on
	for i, s := range samples {
		switch {
		case !s.Usable():
			continue
		case !believes(s):
			last = -1
			continue
		case last >= 0 && s.Before-samples[last].After <= gap:
			spans[len(spans)-1].To = s.After
		default:
			spans = append(spans, Span{s.Before, s.After})
		}
		last = i
	}
	return spans
}

// What the samples of a trial must be for its verdict to be worth something.
const (
	// leastBeliefs are those of a tenth of a second, of both candidates: the
	// second one may lead from the very end on. Whoever leads does so for half a
	// second and more.
	leastBeliefs = 100
	// mostDiscarded is the percentage of a candidate's that may have been
	// interrupted. A belief lasts over those by itself, unless they fill a gap,
	// and reading takes less than a thousandth of the time between two samples,
	// so that even a busy machine interrupts few.
	mostDiscarded = 20
	// fewDiscarded are no reason for doubt, of however few samples.
	fewDiscarded = 5
)

// Seen returns how many samples show a leader and count, or an error if so few
// do that two leaders may have been missed.
func Seen(first, second []Sample) (beliefs int, err error) {
	for i, samples := range [][]Sample{first, second} {
		believed, discarded := 0, 0
		for _, s := range samples {
			if !s.Answer && !s.Works {
				continue
			}
			believed++
			if !s.Usable() {
				discarded++
			}
		}
		if discarded > fewDiscarded && 100*discarded > mostDiscarded*believed {
			return 0, fmt.Errorf("%d of %d samples of the %s candidate as a leader were interrupted: too little was seen, since the machine is too busy",
				discarded, believed, [...]string{"first", "second"}[i])
		}
		beliefs += believed - discarded
	}
	if beliefs < leastBeliefs {
		return 0, fmt.Errorf("only %d samples of leaders count: too little was seen", beliefs)
	}
	return beliefs, nil
}

// Overlap returns for how long, in all, two candidates or more believed at the
// same time. A candidate's own spans must not overlap.
func Overlap(candidates ...[]Span) (sum time.Duration) {
	type edge struct {
		at   time.Duration
		step int
	}
	var edges []edge
	for _, spans := range candidates {
		for _, s := range spans {
			edges = append(edges, edge{s.From, +1}, edge{s.To, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) // an end before a beginning
	})
	depth, since := 0, time.Duration(0)
	for _, e := range edges {
		if depth >= 2 {
			sum += e.at - since
		}
		depth, since = depth+e.step, e.at
	}
	return sum
}
