package sources

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

func TestFilterSetKnowsWhatTheServerHasYetToHear(t *testing.T) {
	s := newFilterSet()
	s.add("a")
	s.add("b")
	if got := s.confirm([]string{"a", "b"}); len(got) != 2 || s.changed {
		t.Errorf("a new consumer: %q, changed %v", got, s.changed)
	}
	s.add("c")
	sent := s.keys()
	if !slices.Equal(sent, []string{"a", "b", "c"}) || !s.changed {
		t.Errorf("to be told: %q, changed %v", sent, s.changed)
	}
	// While the request is under way, one comes and two go.
	s.add("d")
	s.drop("a")
	s.drop("c")
	if got := s.confirm(sent); len(got) != 0 || !s.changed {
		t.Errorf("what came and went meanwhile: %q, changed %v", got, s.changed)
	}
	if got := s.confirm(s.keys()); !slices.Equal(got, []string{"d"}) || s.changed {
		t.Errorf("the one that came: %q, changed %v", got, s.changed)
	}
	s.drop("d")
	s.add("d")
	if got := s.confirm(s.keys()); len(got) != 0 || s.changed {
		t.Errorf("one that was named throughout: %q, changed %v", got, s.changed)
	}
	if s.drop("b") || !s.drop("d") {
		t.Error("a set is empty without its last key, and not before")
	}
}

func TestFilterSetIsBounded(t *testing.T) {
	for _, c := range []struct {
		length, most int
	}{{10, maxFilters}, {store.MaxKey, maxFilterBytes / store.MaxKey}} {
		s := newFilterSet()
		n := 0
		for ; !s.full(); n++ {
			s.add(fmt.Sprintf("%0*d", c.length, n))
		}
		if n != c.most {
			t.Errorf("%d keys of %d bytes, want %d", n, c.length, c.most)
		}
		s.drop(fmt.Sprintf("%0*d", c.length, 0))
		if s.full() {
			t.Error("no room after a key has gone")
		}
	}
}
