package watch_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
)

func TestWaitsGrowUpToABound(t *testing.T) {
	before := time.Duration(0)
	for failures := range 100 {
		wait := watch.RetryAfter(failures)
		if wait < before || wait < watch.RetryFirst || wait > watch.RetryMost {
			t.Fatalf("%v after %d failures, %v before", wait, failures, before)
		}
		before = wait
	}
	if before != watch.RetryMost {
		t.Errorf("the longest wait is %v", before)
	}
}
