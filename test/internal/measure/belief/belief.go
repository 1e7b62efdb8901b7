// Package belief judges how long more than one candidate believed that it
// leads, from samples that each process took of itself, by the clock and the
// judge of package overlap.
package belief

import (
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

// A Sample is a candidate's report on itself at some instant between Before and
// After.
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

// Usable reports whether the sample counts: it was taken fast enough for its
// instant to be known.
func (s Sample) Usable() bool { return s.After-s.Before <= blur }

const (
	// blur is the longest time that a sample may have taken. A longer sample
	// was interrupted, perhaps for seconds, and it is unknown which end it
	// belongs to, so it does not count.
	blur = 100 * time.Microsecond
	// gap is the longest time between two samples over which a belief is taken
	// to last. A frozen process believes nothing: it does not act, and does not
	// answer.
	gap = 50 * time.Millisecond
)

// Spans returns when a candidate, who, believed, in order. The samples are one
// candidate's, in order. Samples without the belief may be left out as long as
// the gap is more than the sampling interval and less than the time in which a
// change is missed.
func Spans(who string, samples []Sample, believes func(Sample) bool) (spans []overlap.Span) {
	last := -1 // the sample with which the latest span ends, if it may go on
	for i, s := range samples {
		switch {
		case !s.Usable():
			continue
		case !believes(s):
			last = -1
			continue
		case last >= 0 && s.Before-samples[last].After <= gap:
			spans[len(spans)-1].To = int64(s.After)
		default:
			spans = append(spans, overlap.Span{Who: who, From: int64(s.Before), To: int64(s.After)})
		}
		last = i
	}
	return spans
}

// The conditions on the samples of a trial without which its verdict is void.
const (
	// leastBeliefs are the samples of a tenth of a second, of both candidates:
	// the second one may lead from the very end on. Each leader leads for half
	// a second or more.
	leastBeliefs = 100
	// mostDiscarded is the percentage of a candidate's that may have been
	// interrupted. A belief lasts over those by itself, unless they fill a gap,
	// and reading takes less than a thousandth of the time between two samples,
	// so that even a busy machine interrupts few.
	mostDiscarded = 20
	// fewDiscarded samples do not raise doubt, however few samples there are.
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

// Overlap returns for how long, in all, two candidates believed at the same
// time.
func Overlap(first, second []Sample, believes func(Sample) bool) (sum time.Duration) {
	all := append(Spans("first", first, believes), Spans("second", second, believes)...)
	for a, b := range overlap.Pairs(all) {
		sum += all[a].Shared(all[b])
	}
	return sum
}
