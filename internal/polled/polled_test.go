package polled

import "testing"

func TestAnOlderStateIsBelievedWhenItIsReadThreeTimesInARow(t *testing.T) {
	var r Reads
	for i, read := range []struct {
		revision uint64
		believed bool
	}{
		{5, true},
		{5, true}, // repeated
		{3, false},
		{6, true}, // not in a row
		{3, false},
		{3, false},
		{3, true},
		{4, true},
		{0, false}, // of nothing
		{0, false},
		{0, true},
	} {
		if got := r.Believe(read.revision); got != read.believed {
			t.Errorf("read %d, of revision %d: %v", i, read.revision, got)
		}
		if r.Doubted() == read.believed {
			t.Errorf("read %d, of revision %d: doubted: %v", i, read.revision, r.Doubted())
		}
	}
}
