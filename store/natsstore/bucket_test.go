package natsstore

import (
	"testing"
	"time"
)

func TestBucketBeginsAfterTheOneBeforeUnlessThatIsNotBelieved(t *testing.T) {
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	present := uint64(now.UnixMicro())
	for name, c := range map[string]struct{ reached, want uint64 }{
		"none before":           {0, present},
		"a clock behind":        {present - 3_600_000_000, present},
		"a clock ahead":         {present + 3_600_000_000, present + 3_600_000_000 + unseen},
		"writes that it missed": {present - 1, present - 1 + unseen},
		"a year ahead":          {present + 365*24*3_600_000_000, present},
		"the largest":           {1<<64 - 1, present},
	} {
		if got := (BucketConfig{reached: c.reached}).first(now); got != c.want {
			t.Errorf("%s: begins at %d, want %d", name, got, c.want)
		}
	}
}
