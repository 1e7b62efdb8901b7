package harness

import (
	"math"
	"slices"
	"time"
)

// Samples are durations that were measured, in the order in which they were.
type Samples []time.Duration

// Percentile is the smallest sample that is not less than p % of all, 0 of
// none.
func (s Samples) Percentile(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	rank := int(math.Ceil(float64(len(s)) * p / 100))
	return slices.Sorted(slices.Values(s))[max(rank, 1)-1]
}

// Median is the 50th percentile.
func (s Samples) Median() time.Duration { return s.Percentile(50) }

// Max is the largest sample, 0 of none.
func (s Samples) Max() time.Duration { return s.Percentile(100) }

// A Point of a distribution is the share of the samples that are at most Value.
type Point struct {
	Value time.Duration
	Share float64 // from 0 to 1
}

// CDF is the cumulative distribution: a point for each sample, in order.
func (s Samples) CDF() []Point {
	points := make([]Point, len(s))
	for i, d := range slices.Sorted(slices.Values(s)) {
		points[i] = Point{d, float64(i+1) / float64(len(s))}
	}
	return points
}
