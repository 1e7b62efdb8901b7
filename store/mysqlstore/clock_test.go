package mysqlstore

import (
	"testing"
	"time"
)

func TestTheClockIsTheServersSinceItsLatestAnswer(t *testing.T) {
	var c clock
	if now := c.now(); now > uint64(time.Hour.Microseconds()) {
		t.Errorf("before any answer it is at %d", now)
	}
	for _, server := range []uint64{1_800_000_000_000_000, 1_700_000_000_000_000, 0} {
		before := time.Now()
		c.saw(server)
		if now := c.now(); now < server || now > server+uint64(time.Since(before).Microseconds())+1 {
			t.Errorf("it is at %d, and the server's was at %d", now, server)
		}
	}
}
