package overlap_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

func TestPairsAreOfDifferentCandidatesWithAnInstantInCommon(t *testing.T) {
	for what, c := range map[string]struct {
		spans []overlap.Span
		want  []string // places and nanoseconds
	}{
		"nobody":                {nil, nil},
		"one after the other":   {[]overlap.Span{{"a", 0, 10}, {"b", 11, 20}}, nil},
		"one common instant":    {[]overlap.Span{{"a", 0, 10}, {"b", 10, 20}}, []string{"0 1 0"}},
		"two":                   {[]overlap.Span{{"a", 0, 10}, {"b", 7, 20}}, []string{"0 1 3"}},
		"in any order":          {[]overlap.Span{{"b", 7, 20}, {"a", 0, 10}}, []string{"1 0 3"}},
		"within, twice":         {[]overlap.Span{{"a", 0, 10}, {"b", 2, 4}, {"b", 6, 7}}, []string{"0 1 2", "0 2 1"}},
		"after a short one":     {[]overlap.Span{{"a", 0, 50}, {"b", 1, 2}, {"c", 40, 60}}, []string{"0 1 1", "0 2 10"}},
		"of one candidate":      {[]overlap.Span{{"a", 0, 10}, {"a", 5, 20}}, nil},
		"one without instants":  {[]overlap.Span{{"a", 0, 10}, {"b", 6, 5}}, nil},
		"three at one instant":  {[]overlap.Span{{"a", 0, 9}, {"b", 1, 9}, {"c", 2, 9}}, []string{"0 1 8", "0 2 7", "1 2 7"}},
		"the same whole length": {[]overlap.Span{{"a", 0, 9}, {"b", 0, 9}}, []string{"0 1 9"}},
	} {
		var got []string
		for a, b := range overlap.Pairs(c.spans) {
			got = append(got, fmt.Sprint(a, b, c.spans[a].Shared(c.spans[b]).Nanoseconds()))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
