// Package retry says how long the parts of the store wait before they repeat
// what failed.
package retry

import (
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
)

// First is the wait after the first failure. Each further one in a row is
// followed by twice the wait, up to Most.
const (
	First = 25 * time.Millisecond
	Most  = 500 * time.Millisecond
)

// After returns the wait after so many earlier failures in a row.
func After(failures int) time.Duration { return Bounded(failures, Most) }

// Bounded is After with another bound.
func Bounded(failures int, most time.Duration) time.Duration {
	return backoff.Policy{Initial: First, Max: most}.Steady(failures + 1)
}
