package mysqlstore

import (
	"testing"
	"time"
)

func TestRevisionsGrowWhateverTheClockSays(t *testing.T) {
	const at = 1_800_000_000_000_000
	for _, c := range []struct {
		expected uint64
		clock    time.Time
		want     uint64
	}{
		{at - 1_000_000, time.UnixMicro(at), at},
		{at, time.UnixMicro(at), at + 1},
		{at, time.UnixMicro(at - 1), at + 1},
		{at, time.Time{}, at + 1},
		{at, time.UnixMicro(1 << 53), at + 1},
	} {
		if got := following(c.expected, c.clock); got != c.want {
			t.Errorf("%d follows %d at %v, want %d", got, c.expected, c.clock, c.want)
		}
	}
}
