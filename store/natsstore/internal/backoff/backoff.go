// Package backoff says how long the parts of the store wait before they repeat
// what failed.
package backoff

import "time"

// First is the wait after the first failure. Each further one waits twice as
// long, up to Most.
const (
	First = 25 * time.Millisecond
	Most  = 500 * time.Millisecond
)

// After returns the wait after so many earlier failures in a row.
func After(failures int) time.Duration { return Bounded(failures, Most) }

// Bounded is After with another bound.
func Bounded(failures int, most time.Duration) time.Duration {
	return min(First<<min(failures, 8), most)
}
