package retry_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/retry"
)

func TestWaitsGrowUpToABound(t *testing.T) {
	before := time.Duration(0)
	for failures := range 100 {
		wait := retry.After(failures)
		if wait < before || wait < retry.First || wait > retry.Most {
			t.Fatalf("%v after %d failures, %v before", wait, failures, before)
		}
		before = wait
	}
	if before != retry.Most {
		t.Errorf("the longest wait is %v", before)
	}
	if got := retry.Bounded(100, time.Minute); got != time.Minute {
		t.Errorf("after very many failures: %v", got)
	}
}
