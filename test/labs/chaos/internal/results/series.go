package results

import "math"

// A Series is a quantity over time.
type Series struct {
	Name  string
	Unit  float64 // what is printed is a multiple of it
	Limit float64 // of its growth per hour

	at    []float64 // hours
	value []float64
}

// warmUp is the part of a soak before its slopes count.
const warmUp = 0.2

// fewest is how many values a slope needs at least.
const fewest = 10

// Add adds the value at a time, in hours from any beginning.
func (s *Series) Add(at, value float64) { s.at, s.value = append(s.at, at), append(s.value, value) }

// Last returns the latest value, or 0 if there is none.
func (s *Series) Last() float64 {
	if len(s.value) == 0 {
		return 0
	}
	return s.value[len(s.value)-1]
}

// slope returns the growth per hour by least squares after the warm-up, and the
// standard error of that.
func (s *Series) slope() (perHour, stderr float64, n int) {
	from := int(math.Ceil(warmUp * float64(len(s.at))))
	at, value := s.at[from:], s.value[from:]
	n = len(at)
	if n < 3 {
		return 0, 0, n
	}
	mt, mv := mean(at), mean(value)
	var tt, tv float64
	for i := range at {
		tt += (at[i] - mt) * (at[i] - mt)
		tv += (at[i] - mt) * (value[i] - mv)
	}
	b := tv / tt
	var rest float64
	for i := range at {
		d := value[i] - mv - b*(at[i]-mt)
		rest += d * d
	}
	return b, math.Sqrt(rest / float64(n-2) / tt), n
}

// grows reports whether the slope is certainly beyond the limit: by three
// standard errors.
func (s *Series) grows() bool {
	b, stderr, _ := s.slope()
	return b-3*stderr > s.Limit
}

func mean(xs []float64) (m float64) {
	for _, x := range xs {
		m += x / float64(len(xs))
	}
	return m
}
