package belief

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

const ms = time.Millisecond

func at(t time.Duration, works bool) Sample {
	return Sample{Before: t, After: t + time.Microsecond, Works: works}
}

func works(s Sample) bool { return s.Works }

func TestABeliefLastsFromSampleToSample(t *testing.T) {
	got := Spans("x", []Sample{at(1*ms, true), at(2*ms, true), at(3*ms, false), at(4*ms, true)}, works)
	want := []overlap.Span{
		{Who: "x", From: int64(1 * ms), To: int64(2*ms + time.Microsecond)}, {Who: "x", From: int64(4 * ms), To: int64(4*ms + time.Microsecond)},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAFrozenProcessBelievesNothing(t *testing.T) {
	got := Spans("x", []Sample{at(1*ms, true), at(2000*ms, true)}, works)
	if len(got) != 2 || got[0].To > int64(2*ms) {
		t.Errorf("%v", got)
	}
}

func TestASampleThatWasInterruptedCountsForNothing(t *testing.T) {
	samples := []Sample{at(1*ms, true), {Before: 2 * ms, After: 30 * ms, Works: true}, at(31*ms, false)}
	if got := Spans("x", samples, works); len(got) != 1 || got[0].To > int64(2*ms) {
		t.Errorf("%v", got)
	}
}

// leads are samples of a candidate that leads from one instant to another.
func leads(from, to time.Duration) (all []Sample) {
	for t := from; t <= to; t += ms {
		all = append(all, Sample{Before: t, After: t, Works: true})
	}
	return all
}

func TestOverlapIsTheTimeInWhichBothBelieved(t *testing.T) {
	first := leads(0, 10*ms)
	for what, c := range map[string]struct {
		second []Sample
		want   time.Duration
	}{
		"one alone":           {nil, 0},
		"one after the other": {leads(11*ms, 20*ms), 0},
		"both at the end":     {leads(7*ms, 20*ms), 3 * ms},
		"twice":               {slices.Concat(leads(2*ms, 4*ms), []Sample{at(5*ms, false)}, leads(6*ms, 7*ms)), 3 * ms},
	} {
		if got := Overlap(first, c.second, works); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

func TestSamplesSurviveTheirWayBetweenProcesses(t *testing.T) {
	want := Sample{Before: time.Duration(overlap.Now()), After: time.Duration(overlap.Now()), Answer: true, Follows: true}
	got, err := Parse(want.String())
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// sampled are samples of a candidate that believes, one each millisecond, of
// which some were interrupted.
func sampled(n, interrupted int) (all []Sample) {
	for i := range n {
		s := at(time.Duration(i)*ms, true)
		if i < interrupted {
			s.After = s.Before + ms
		}
		all = append(all, s)
	}
	return all
}

// Nothing that was discarded may count as seen: of a machine that interrupts
// every sample the verdict would be that nobody ever led beside another.
func TestATrialInWhichTooLittleWasSeenIsRefused(t *testing.T) {
	follows := []Sample{{Before: 0, After: time.Second, Follows: true}}
	for _, c := range []struct {
		what          string
		first, second []Sample
		beliefs       int
		refused       string // empty: it is not
	}{
		{"both led", sampled(1000, 0), sampled(100, 0), 1100, ""},
		{"one led", sampled(100, 0), follows, 100, ""},
		{"the second led at the end", sampled(1000, 0), sampled(3, 2), 1001, ""},
		{"some were interrupted", sampled(1000, 200), sampled(1000, 0), 1800, ""},
		{"nobody led", nil, follows, 0, "only 0"},
		{"all were interrupted", sampled(1000, 1000), sampled(1000, 1000), 0, "1000 of 1000"},
		{"the samples of one were interrupted", sampled(1000, 0), sampled(1000, 1000), 0, "the second"},
		{"those at the end were interrupted", sampled(1000, 0), sampled(6, 6), 0, "the second"},
		{"too few", sampled(50, 0), sampled(49, 0), 0, "only 99"},
		{"too many were interrupted", sampled(1000, 201), sampled(1000, 0), 0, "201 of 1000"},
	} {
		beliefs, err := Seen(c.first, c.second)
		switch {
		case c.refused == "":
			if err != nil || beliefs != c.beliefs {
				t.Errorf("%s: %d, %v, want %d", c.what, beliefs, err, c.beliefs)
			}
		case err == nil || !strings.Contains(err.Error(), c.refused):
			t.Errorf("%s: %v, want %q", c.what, err, c.refused)
		}
	}
}
