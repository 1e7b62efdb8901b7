package watch

import (
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
)

// RetryFirst is the wait after the first failure. Each further one in a row is
// followed by twice the wait, up to RetryMost.
const (
	RetryFirst = 25 * time.Millisecond
	RetryMost  = 500 * time.Millisecond
)

// RetryAfter returns the wait after so many earlier failures in a row.
func RetryAfter(failures int) time.Duration {
	return backoff.Policy{Initial: RetryFirst, Max: RetryMost}.Steady(failures + 1)
}
