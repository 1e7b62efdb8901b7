package goid_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/internal/goid"
)

func TestGoroutinesDifferAndKeepTheirNumber(t *testing.T) {
	mine := goid.Current()
	other := make(chan uint64)
	go func() { other <- goid.Current() }()
	if theirs := <-other; mine == 0 || theirs == 0 || mine == theirs || mine != goid.Current() {
		t.Fatalf("numbers %d and %d, then %d", mine, theirs, goid.Current())
	}
}
