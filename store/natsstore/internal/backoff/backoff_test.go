package backoff_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/backoff"
)

func TestWaitsGrowUpToABound(t *testing.T) {
	before := time.Duration(0)
	for failures := range 100 {
		wait := backoff.After(failures)
		if wait < before || wait < backoff.First || wait > backoff.Most {
			t.Fatalf("%v after %d failures, %v before", wait, failures, before)
		}
		before = wait
	}
	if before != backoff.Most {
		t.Errorf("the longest wait is %v", before)
	}
	if got := backoff.Bounded(100, time.Minute); got != backoff.First<<8 {
		t.Errorf("after very many failures: %v", got)
	}
}
