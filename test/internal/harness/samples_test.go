package harness

import (
	"slices"
	"testing"
	"time"
)

func TestPercentileIsASample(t *testing.T) {
	s := Samples{5, 1, 4, 2, 3}
	for p, want := range map[float64]time.Duration{0: 1, 20: 1, 21: 2, 50: 3, 99: 5, 100: 5} {
		if got := s.Percentile(p); got != want {
			t.Errorf("%v %%: %d, want %d", p, got, want)
		}
	}
	if got := (Samples{}).Median(); got != 0 {
		t.Errorf("of none: %d", got)
	}
	if !slices.Equal(s, Samples{5, 1, 4, 2, 3}) {
		t.Errorf("the order was changed: %v", s)
	}
}

func TestCDFRisesToOne(t *testing.T) {
	got := Samples{30, 10, 10, 20}.CDF()
	want := []Point{{10, .25}, {10, .5}, {20, .75}, {30, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
