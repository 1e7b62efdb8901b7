package pattern

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

func at(key string, revision uint64) store.Entry { return store.Entry{Key: key, Revision: revision} }

func TestSurveyDeliversNewEntries(t *testing.T) {
	l := newLedger()
	l.begin()
	if !l.shown(at("a", 1), true) || !l.shown(at("b", 2), true) || len(l.gone()) != 0 {
		t.Error("the first survey delivers all")
	}
	if deliver, _ := l.heard(at("a", 3)); !deliver {
		t.Error("a write was not delivered")
	}
	l.begin()
	if l.shown(at("a", 3), false) || l.shown(at("b", 2), false) {
		t.Error("what is known was delivered twice")
	}
	if !l.shown(at("c", 4), false) || l.doubts {
		t.Error("a new key was not delivered")
	}
	l.begin()
	if !l.shown(at("a", 3), true) {
		t.Error("what is known was not repeated")
	}
}

// A late message does not replace the known state, but requests a survey.
func TestAnOlderWriteAsksForASurvey(t *testing.T) {
	l := newLedger()
	l.begin()
	l.shown(at("a", 5), true)
	if deliver, survey := l.heard(at("a", 3)); deliver || !survey {
		t.Errorf("delivered %v, survey %v", deliver, survey)
	}
	if deliver, survey := l.heard(at("a", 5)); deliver || survey {
		t.Errorf("the same again: delivered %v, survey %v", deliver, survey)
	}
}

// A write that is heard during a survey is newer than the state that the survey
// shows.
func TestASurveyThatWasOvertakenRaisesNoDoubt(t *testing.T) {
	l := newLedger()
	l.begin()
	l.shown(at("a", 5), true)
	l.begin()
	l.heard(at("a", 6))
	if l.shown(at("a", 5), true) || l.doubts {
		t.Error("the survey was believed against a write")
	}
}

// surveys shows the same in one survey after the other, and returns after how
// many it was believed; 0: never.
func surveys(l *ledger, judge func(), entries ...store.Entry) int {
	for n := 1; n < 40; n++ {
		l.begin()
		for _, e := range entries {
			if l.shown(e, false) {
				return n
			}
		}
		if len(l.gone()) > 0 {
			return n
		}
		if !l.doubts {
			return 0
		}
		judge()
	}
	return 0
}

func TestSurveyOverridesKnownEntriesIfOthersAgree(t *testing.T) {
	names := wire.NewNames("b", jetstream.DefaultAPIPrefix)
	leader := func(last uint64, subjects map[string]uint64) wire.State {
		info := &jetstream.StreamInfo{}
		info.State.LastSeq, info.State.Subjects = last, subjects
		return names.State(info)
	}
	for _, c := range []struct {
		name  string
		shown []store.Entry
		state *wire.State
		want  int
	}{
		{"an older state, and the leader does not say", []store.Entry{at("a", 3)}, nil, 0},
		{"nothing, and the leader does not say", nil, nil, 0},
		{"nothing, and the leader has it", nil, new(leader(9, map[string]uint64{"$KV.b.a": 1})), 0},
		{"nothing, and the leader has erased it", nil, new(leader(9, nil)), 2},
		{"nothing, and the leader lags itself", nil, new(leader(3, nil)), 5},
	} {
		l := newLedger()
		l.begin()
		l.shown(at("a", 5), true)
		got := surveys(l, func() {
			if c.state != nil {
				l.judge(*c.state)
			} else {
				l.unjudged()
			}
		}, c.shown...)
		if got != c.want {
			t.Errorf("%s: believed after %d surveys, want %d", c.name, got, c.want)
		}
	}
}

func TestSurveysThatTheLeaderDoesNotJudgeAreBelievedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.begin()
		l.shown(at("a", 5), true)
		begun := time.Now()
		if surveys(l, func() { l.unjudged(); time.Sleep(time.Second) }) == 0 {
			t.Error("they are never believed")
		}
		if after := time.Since(begun); after < watch.Leaderless || after > 2*watch.Leaderless {
			t.Errorf("they were believed after %v, want %v and a few surveys", after, watch.Leaderless)
		}
	})
}

// Doubts count only if they come in a row.
func TestASurveyThatAgreesEndsTheDoubts(t *testing.T) {
	l := newLedger()
	l.begin()
	l.shown(at("a", 5), true)
	for range 10 {
		l.begin()
		l.shown(at("a", 3), false)
		l.gone()
		l.begin()
		l.shown(at("a", 5), false)
		if gone := l.gone(); len(gone) != 0 {
			t.Fatalf("gone: %q", gone)
		}
	}
}

func TestAnotherStreamIsBelievedAtOnce(t *testing.T) {
	l := newLedger()
	l.begin()
	l.shown(at("a", 5), true)
	l.shown(at("b", 5), true)
	l.forget()
	l.begin()
	if !l.shown(at("a", 1), false) {
		t.Error("its records are doubted")
	}
	for range 4 {
		if len(l.gone()) != 0 {
			t.Error("one survey is enough")
		}
		l.begin()
		l.shown(at("a", 1), false)
	}
	if gone := l.gone(); !slices.Equal(gone, []string{"b"}) {
		t.Errorf("gone: %q", gone)
	}
}
