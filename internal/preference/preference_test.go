package preference

import (
	"math"
	"slices"
	"testing"
	"testing/quick"

	"github.com/seed-ff2cb582/leader/internal/record"
)

// The order of Semantic Versioning 2.0.0, section 11, and the additional forms
// that we accept.
func TestVersionsAreOrderedBySemanticVersioning(t *testing.T) {
	ascending := []string{
		"", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0",
		"1.2", "1.9.9", "1.10", "v2.0.0", "2.0.1+build.7", "99999999999999999999.0",
	}
	for i, a := range ascending {
		for j, b := range ascending {
			want := compareInts(i, j)
			if got := compareVersions(a, b); got != want {
				t.Errorf("%q and %q compare as %d, want %d", a, b, got, want)
			}
		}
	}
	for _, same := range [][2]string{{"1.2", "1.2.0"}, {"v1.2.3", "1.2.3"}, {"1.0+a", "1.0+b"}, {"01.2", "1.2"}, {"x", ""}} {
		if c := compareVersions(same[0], same[1]); c != 0 {
			t.Errorf("%q and %q compare as %d", same[0], same[1], c)
		}
	}
}

func compareInts(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// An order that were not strict would let two candidates take over from each
// other for ever.
func TestPreferenceIsAStrictOrder(t *testing.T) {
	versions := []string{"", "1.0", "1.0.0", "1.1-rc.1", "1.1", "2", "junk"}
	for _, p := range []Policy{Any, Older, Newer} {
		err := quick.Check(func(x, y, z int8, i, j, k uint8) bool {
			of := func(n int8, v uint8) Standing { return Standing{int(n), versions[int(v)%len(versions)]} }
			a, b, c := of(x, i), of(y, j), of(z, k)
			if p.Outranks(a, a) || p.Outranks(a, b) && p.Outranks(b, a) {
				return false
			}
			return !p.Outranks(a, b) || !p.Outranks(b, c) || p.Outranks(a, c)
		}, nil)
		if err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}

func TestKnownStandingsAreDistinctOrderedAndFew(t *testing.T) {
	var l Standings
	for i := range 3 * record.MaxStandings {
		l = l.Heard(Any, Standing{Priority: i % 12})
	}
	if len(l) != record.MaxStandings || l[0].Priority != 11 || !slices.IsSortedFunc(l, func(a, b record.Standing) int { return b.Priority - a.Priority }) {
		t.Fatalf("%+v", l)
	}
	if n := l.Behind(Any, Standing{Priority: 9}); n != 2 {
		t.Errorf("%d before priority 9 in %+v", n, l)
	}
	aged := l.Aged().Aged()
	if len(aged) != len(l) || aged.Know(Any, Standing{Priority: 11}) {
		t.Errorf("%+v", aged)
	}
	if old := (Standings{{Priority: 1, Age: math.MaxInt}}).Aged(); len(old) != 0 {
		t.Errorf("a standing that nobody has heard of for longer than counts is remembered: %+v", old)
	}
	if aged = aged.Heard(Any, Standing{Priority: 11}).Aged(); len(aged) != 1 || aged[0].Priority != 11 {
		t.Errorf("%+v", aged)
	}
}
