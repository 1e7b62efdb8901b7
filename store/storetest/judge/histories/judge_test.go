package histories_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
)

// story makes histories for the judge, one call a second.
type story []histories.Op

func (s *story) write(value string, expected uint64, outcome store.Outcome, rev uint64, from, to int) {
	*s = append(*s, histories.Op{
		Key: "k", Value: value, Expected: expected, Outcome: outcome, Revision: rev,
		Call: time.Duration(from) * time.Second, Return: time.Duration(to) * time.Second,
	})
}

func (s *story) read(value string, rev uint64, from, to int) {
	*s = append(*s, histories.Op{
		Key: "k", Read: true, Value: value, Revision: rev,
		Call: time.Duration(from) * time.Second, Return: time.Duration(to) * time.Second,
	})
}

var tales = []struct {
	name string
	can  bool
	tell func(s *story)
}{
	{"one after the other", true, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.OK, 4, 2, 3)
	}},
	{"a stale read", true, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.OK, 4, 2, 3)
		s.read("a", 3, 4, 5)
		s.read("", 0, 6, 7)
	}},
	{"an unknown write that was never applied", true, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.Unknown, 0, 2, 3)
		s.write("c", 3, store.OK, 4, 4, 5)
	}},
	{"an unknown write that is applied long after its call", true, func(s *story) {
		s.write("a", 0, store.Unknown, 0, 0, 1)
		s.read("", 0, 2, 3)
		s.write("b", 7, store.Conflict, 0, 4, 5)
		s.read("a", 7, 6, 7)
		s.write("c", 7, store.OK, 9, 8, 9)
	}},
	{"an unknown write at the end, which nobody saw", true, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.Unknown, 0, 2, 3)
	}},
	{"one of two at once", true, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 4)
		s.write("b", 0, store.Conflict, 0, 1, 3)
	}},
	{"two winners", false, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 2)
		s.write("b", 0, store.OK, 4, 1, 3)
	}},
	{"two winners, one of them of unknown outcome and seen", false, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.OK, 4, 2, 3)
		s.write("c", 3, store.Unknown, 0, 2, 3)
		s.read("c", 5, 4, 5)
	}},
	{"a lost acknowledged write", false, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.OK, 4, 2, 3)
		s.write("c", 3, store.OK, 5, 4, 5)
	}},
	{"a revision that does not grow", false, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.OK, 2, 2, 3)
	}},
	{"one revision for two writes", false, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.OK, 3, 2, 3)
	}},
	{"a refused write that is seen", false, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.Conflict, 0, 2, 3)
		s.read("b", 4, 4, 5)
	}},
	{"a write without effect that is seen", false, func(s *story) {
		s.write("a", 0, store.Transient, 0, 0, 1)
		s.read("a", 4, 4, 5)
	}},
	{"a write that is seen at two revisions", false, func(s *story) {
		s.write("a", 0, store.Unknown, 0, 0, 1)
		s.read("a", 4, 4, 5)
		s.read("a", 6, 6, 7)
	}},
	{"a write that is seen before it was sent", false, func(s *story) {
		s.read("a", 4, 0, 1)
		s.write("a", 0, store.OK, 4, 2, 3)
	}},
	{"an unknown write that is seen before what it replaced was written", false, func(s *story) {
		s.write("b", 3, store.Unknown, 0, 0, 1)
		s.read("b", 4, 2, 3)
		s.write("a", 0, store.OK, 3, 4, 5)
	}},
	{"an unknown write that is seen as late as what it replaced is written", true, func(s *story) {
		s.write("b", 3, store.Unknown, 0, 0, 1)
		s.read("b", 4, 2, 5)
		s.write("a", 0, store.OK, 3, 4, 6)
	}},
	{"a value that nobody wrote", false, func(s *story) { s.read("x", 4, 0, 1) }},
	{"a write that is acknowledged before the one that it replaces was sent", false, func(s *story) {
		s.write("b", 3, store.OK, 4, 0, 1)
		s.write("a", 0, store.OK, 3, 2, 3)
	}},
	{"a conflict with nothing", false, func(s *story) {
		s.write("a", 0, store.OK, 3, 0, 1)
		s.write("b", 3, store.Conflict, 0, 2, 3)
		s.write("c", 3, store.OK, 4, 4, 5)
	}},
}

func TestJudgeRejectsImpossibleHistories(t *testing.T) {
	t.Parallel()
	for _, c := range tales {
		t.Run(c.name, func(t *testing.T) {
			var s story
			c.tell(&s)
			err := histories.Judge{CurrentConflicts: true}.Verdict(s)
			if can := err == nil; can != c.can {
				t.Errorf("the verdict: %v", err)
			}
			t.Log(err)
		})
	}
}

// Faults that need no order are reported in separate words.
func TestAWriteThatIsSeenBeforeItWasSentIsNamed(t *testing.T) {
	t.Parallel()
	var s story
	s.read("a", 4, 0, 1)
	s.write("a", 0, store.OK, 4, 2, 3)
	err := histories.Judge{CurrentConflicts: true}.Verdict(s)
	if want := `client 0 reads k: "a" at 4 (0s to 1s), which was sent at 2s`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// A judge that leaves conflicts out of the order must not leave out more.
func TestConflictsOfAnIsolatedLeaderAreNotHeldAgainstTheStore(t *testing.T) {
	t.Parallel()
	for _, c := range tales {
		var s story
		c.tell(&s)
		err := histories.Judge{}.Verdict(s)
		if can := err == nil; can != (c.can || c.name == "a conflict with nothing") {
			t.Errorf("%s: the verdict: %v", c.name, err)
		}
	}
}

// doubts adds writes that nobody saw applied. Each may have come to the store at
// any time after its call, without effect: 2^n sets of them may have come before
// any other write.
func (s *story) doubts(n int, expected uint64) {
	for i := range n {
		s.write(fmt.Sprintf("doubt %d over %d", i, expected), expected, store.Unknown, 0, 2, 3)
	}
}

// With stores that many a fault leaves in doubt, the search for an order went
// through all sets of writes that make no difference to it, for over a minute.
func TestUnseenWritesDoNotDelayTheVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		last func(s *story)
		want string
	}{
		{"a conflict with one of them", func(s *story) {
			s.write("z", 4, store.Conflict, 0, 8, 9)
		}, ""},
		{"a lost write", func(s *story) {
			s.write("z", 3, store.OK, 5, 8, 9)
		}, "Illegal"},
		{"a conflict with those that were called later", func(s *story) {
			s.write("c", 4, store.OK, 5, 8, 9)
			s.write("d", 5, store.Conflict, 0, 10, 11)
			s.write("e", 5, store.Unknown, 0, 12, 13)
		}, "Illegal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s story
			s.write("a", 0, store.OK, 3, 0, 1)
			s.doubts(40, 4)
			s.doubts(40, 3)
			s.write("b", 3, store.OK, 4, 6, 7)
			c.last(&s)
			err := histories.Judge{CurrentConflicts: true}.Verdict(s)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %s", err, cmp.Or(c.want, "none"))
			}
		})
	}
}

func TestAVerdictThatTakesTooLongIsNone(t *testing.T) {
	t.Parallel()
	var s story
	for range 2000 { // writes at once, in no order
		s.write("a", 0, store.Conflict, 0, 0, 1)
	}
	for i := range uint64(30) {
		s.write(string(rune('a'+i)), 0, store.Unknown, 0, 0, 1)
	}
	err := histories.Judge{CurrentConflicts: true, Limit: time.Nanosecond}.Verdict(s)
	if err == nil || !strings.Contains(err.Error(), "Unknown") {
		t.Errorf("the verdict: %v", err)
	}
	if err := (histories.Judge{CurrentConflicts: true}).Verdict(s); err != nil {
		t.Errorf("with time: %v", err)
	}
}
