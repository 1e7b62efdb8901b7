package demo

import (
	"strings"
	"testing"
)

// at returns samples that were asked at the given instants and took one unit.
func at(instants ...int64) (s []sample) {
	for _, t := range instants {
		s = append(s, sample{Before: t, After: t + 1})
	}
	return s
}

func TestHandOverDoesNotOverlap(t *testing.T) {
	var d detector
	d.observe("a", 1, 7, at(10, 20, 30))
	d.observe("b", 1, 8, at(31, 40))
	d.observe("c", 1, 9, at(41, 50))
	if d.Double != 0 || len(d.Evidence) != 0 {
		t.Errorf("counted %d instants: %q", d.Double, d.Evidence)
	}
}

func TestOneSampleAloneProvesNothing(t *testing.T) {
	var d detector
	// a was asked, then b, then nobody again: the leadership may have passed
	// between.
	d.observe("a", 1, 7, at(10))
	d.observe("b", 1, 8, at(10))
	if d.Double != 0 {
		t.Errorf("counted %d instants, want 0", d.Double)
	}
}

func TestSamplesWithinAnothersSpanCount(t *testing.T) {
	var d detector
	d.observe("a", 1, 7, at(10, 50))
	if !d.observe("b", 1, 8, at(20, 30, 60)) {
		t.Error("the overlap was not reported")
	}
	// 20 and 30 lie in a's span, and 50 in b's.
	if d.Double != 3 {
		t.Errorf("counted %d instants, want 3", d.Double)
	}
	if len(d.Evidence) != 1 || !strings.Contains(d.Evidence[0], "term 7") || !strings.Contains(d.Evidence[0], "term 8") {
		t.Errorf("evidence: %q", d.Evidence)
	}
}

func TestASingleSampleWithinASpanCounts(t *testing.T) {
	var d detector
	d.observe("a", 1, 7, at(10, 50))
	d.observe("b", 1, 8, at(20))
	if d.Double != 1 {
		t.Errorf("counted %d instants, want 1", d.Double)
	}
}

func TestSpansThatOverlapBetweenSamplesCountOnce(t *testing.T) {
	var d detector
	// From 3 to 10 both led, for certain, though no sample lies within that as
	// a whole.
	d.observe("a", 1, 7, []sample{{1, 2}, {10, 12}})
	d.observe("b", 1, 8, []sample{{1, 3}, {11, 13}})
	if d.Double != 1 || len(d.Evidence) != 1 {
		t.Errorf("counted %d instants, want 1: %q", d.Double, d.Evidence)
	}
}

func TestAnInstantIsCountedOnce(t *testing.T) {
	var d detector
	d.observe("a", 1, 7, at(10, 20))
	d.observe("b", 1, 8, at(12, 15))
	before := d.Double
	if d.observe("a", 1, 7, at(30)) {
		t.Error("the same pair was news again")
	}
	if before != 2 || d.Double != before {
		t.Errorf("counted %d instants, then %d, want 2 and 2", before, d.Double)
	}
}

func TestLateReportsAreCompared(t *testing.T) {
	var d detector
	d.observe("a", 1, 7, at(10))
	d.observe("b", 1, 8, at(20, 30, 40))
	if d.Double != 0 {
		t.Fatalf("counted %d instants too early", d.Double)
	}
	// a was frozen, and only now reports that it led at 35, too.
	d.observe("a", 1, 7, at(35))
	if d.Double != 3 { // b at 20 and 30, a at 35
		t.Errorf("counted %d instants, want 3", d.Double)
	}
}

func TestBrokenRunProvesNoSpan(t *testing.T) {
	var d detector
	// Between its runs a answered no: it may not have led at 20.
	d.observe("a", 1, 7, at(10, 11))
	d.observe("a", 2, 9, at(30, 31))
	d.observe("b", 1, 8, at(20, 22))
	if d.Double != 0 {
		t.Errorf("counted %d instants, want 0", d.Double)
	}
}

func TestOldSamplesAreForgottenAndOverlapsAreNot(t *testing.T) {
	var d detector
	step := int64(memory) / 4
	for i := range int64(100) {
		d.observe("a", 1, 7, at(i*step))
	}
	if n := len(d.spans[0].recent); n > 20 {
		t.Errorf("%d samples kept", n)
	}
	d.observe("b", 1, 8, at(step/2, step/2+10))
	if d.Double == 0 {
		t.Error("an overlap within an old part of the span was not counted")
	}
}
