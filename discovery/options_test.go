package discovery

import (
	"math"
	"testing"
	"time"
)

// A keeper in doubt about a write looks again for a multiple of the timeout. If
// that overflowed, the doubt would be over at once.
func TestATimeoutWithoutEndLeavesNoDoubtOut(t *testing.T) {
	o := Options{Timeout: math.MaxInt64}.withDefaults()
	k := &keeper{mine: Entry{Instance: "a", Term: 1}, doubt: time.Now().Add(doubtful * o.Timeout)}
	if !k.doubtful() {
		t.Errorf("with a timeout of %v the doubt ended at %v", o.Timeout, k.doubt)
	}
}
