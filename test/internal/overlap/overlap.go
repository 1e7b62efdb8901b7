// Package overlap finds what two candidates did at one instant, by the clock
// that all processes of a machine share. It is the judge of the labs whose
// candidates are processes; package lookout of store/storetest/judge is the
// judge of candidates in one process.
//
// A lab decides how long something certainly lasted, since labs see different
// signs of it. Spans that it makes too short hide an overlap, and spans that it
// makes too long invent one.
package overlap

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// A Span is a time during which somebody led, or was sent to, without a break.
type Span struct {
	Who      string
	From, To int64 // instants of Now, both of them included
}

// Shared returns how long both lasted.
func (s Span) Shared(o Span) time.Duration {
	return time.Duration(min(s.To, o.To) - max(s.From, o.From))
}

// Pairs yields the places of every two spans that have an instant in common and
// are not of the same Who, the one that began first before the other. A span
// that ends before it begins has no instant.
func Pairs(spans []Span) iter.Seq2[int, int] {
	order := make([]int, 0, len(spans))
	for i, s := range spans {
		if s.From <= s.To {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spans[a].From, spans[b].From) })
	return func(yield func(int, int) bool) {
		var open []int // that may reach into later ones
		for _, i := range order {
			open = slices.DeleteFunc(open, func(o int) bool { return spans[o].To < spans[i].From })
			for _, o := range open {
				if spans[o].Who != spans[i].Who && !yield(o, i) {
					return
				}
			}
			open = append(open, i)
		}
	}
}
