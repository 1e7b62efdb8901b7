package leadership

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// Until promises that nobody else leads before, and the others wait by the
// drift of their group.
func TestUntilCountsTheDriftThatTheRecordStates(t *testing.T) {
	for drift, want := range map[string]time.Duration{
		"0.01": 1010 * time.Millisecond,
		"0.1":  1100 * time.Millisecond,
		"0.3":  1300 * time.Millisecond,
		// A candidate cannot have a value that no configuration may have.
		"0.31": 1100 * time.Millisecond,
		"0":    1100 * time.Millisecond,
		"-0.1": 1100 * time.Millisecond,
		"7":    1100 * time.Millisecond,
		`"x"`:  1100 * time.Millisecond,
		"null": 1100 * time.Millisecond,
	} {
		value := fmt.Sprintf(`{"id":"x","token":"t","ttl":1000,"term":5,"drift":%s}`, drift)
		now := time.Now()
		info, _ := Of("g", store.Entry{Key: "g", Revision: 7, Value: []byte(value)}, now)
		// A fraction is inexact in binary.
		if got := info.Until.Sub(now); info.ID != "x" || got.Round(time.Microsecond) != want {
			t.Errorf("drift %s: %q until %v after it arrived, want %v", drift, info.ID, got, want)
		}
	}
}
