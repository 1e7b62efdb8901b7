package history_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
)

const ms = int64(time.Millisecond)

// A story is a history of two processes, a and b, in milliseconds.
type story struct{ round history.Round }

func tell() *story {
	s := &story{history.Round{DemoteTimeout: 5 * time.Second, Settle: 4 * time.Second}}
	for _, name := range []string{"a", "b"} {
		s.round.Processes = append(s.round.Processes, history.Process{Name: name + "-1", IDs: []string{name}})
	}
	return s
}

func (s *story) process(id string) *history.Process {
	return &s.round.Processes[map[string]int{"a": 0, "b": 1}[id]]
}

// says lets a candidate give one answer from one instant to another, each
// sample of which takes a millisecond.
func (s *story) says(id string, a history.Answer, from, to int64) {
	p := s.process(id)
	p.Runs = append(p.Runs, history.Run{
		Answer: a, Count: uint64(to - from), MaxGap: ms,
		First: history.Sample{T0: from * ms, T1: (from + 1) * ms},
		Last:  history.Sample{T0: (to - 1) * ms, T1: to * ms},
	})
}

func (s *story) event(id, kind string, at int64, change ...func(*history.Event)) {
	e := history.Event{At: at * ms, Kind: kind}
	for _, f := range change {
		f(&e)
	}
	p := s.process(id)
	p.Events = append(p.Events, e)
}

func of(term uint64) func(*history.Event) {
	return func(e *history.Event) { e.Term, e.Correlation = term, string('A'+rune(term%26)) }
}

// leadership is a whole term as it should be: its work stops after it, and then
// it is released.
func (s *story) leadership(id string, term uint64, from, to int64) {
	s.event(id, history.EventTransition, from, of(term), func(e *history.Event) { e.To, e.Reason = "LEADER", "vacant" })
	s.event(id, history.EventPromoteBegin, from, of(term))
	s.says(id, history.Answer{Leader: term, Ctx: term, Work: term}, from, to)
	s.event(id, history.EventPromoteEnd, to, of(term))
	s.event(id, history.EventDemoteBegin, to, of(term))
	s.says(id, history.Answer{Work: term}, to, to+10)
	s.event(id, history.EventDemoteEnd, to+10, of(term))
	s.release(id, term, to+11)
	s.says(id, history.Answer{}, to+10, to+20)
	s.round.Stored = append(s.round.Stored, history.Stored{Revision: term, ID: id})
}

func (s *story) release(id string, term uint64, at int64) { s.call("release", id, term, at) }

func (s *story) call(kind, id string, term uint64, at int64) {
	s.event(id, history.EventCall, at+1, of(term), func(e *history.Event) {
		e.Call, e.Sent, e.Outcome = kind, at*ms, "ok"
	})
}

func (s *story) wait(from, led int64, limit time.Duration) {
	s.round.Waits = append(s.round.Waits, history.Wait{After: "a kill", From: from * ms, Led: led * ms, Limit: limit})
}

// good is a history in which nothing is wrong.
func good() *story {
	s := tell()
	s.leadership("a", 10, 1000, 2000)
	s.leadership("b", 20, 2020, 3000)
	s.leadership("a", 30, 3050, 4000)
	s.wait(2000, 2021, time.Second)
	s.round.Resources = []history.Resource{{Name: "ledger", Accepted: []history.Write{{10, "a-1"}, {20, "b-1"}, {30, "a-1"}}, Stale: 3, Total: 9}}
	s.event("a", history.EventStopped, 5000)
	return s
}

func TestAGoodHistoryIsNotCondemned(t *testing.T) {
	for _, v := range history.Judge(good().round) {
		t.Error(v)
	}
}

// Each history breaks one promise, and is condemned for that.
func TestABadHistoryIsCondemned(t *testing.T) {
	for name, c := range map[string]struct {
		guarantee, says string
		tell            func(*story)
	}{
		"two answer that they lead": {"G1", "two leaders for at least 97ms", func(s *story) {
			s.says("a", history.Answer{Leader: 40}, 6000, 6200)
			s.says("b", history.Answer{Leader: 41}, 6101, 6300)
		}},
		"two answer that they lead, one of them in no term": {"G1", "two leaders", func(s *story) {
			s.says("a", history.Answer{Leader: history.Unknown}, 6000, 6200)
			s.says("b", history.Answer{Leader: 41}, 6101, 6300)
		}},
		"two contexts live": {"G1", "two leaders", func(s *story) {
			s.says("a", history.Answer{Ctx: 40}, 6000, 6200)
			s.says("b", history.Answer{Ctx: 41}, 6101, 6300)
		}},
		"a context lives beside a leader": {"G1", "two leaders", func(s *story) {
			s.says("a", history.Answer{Ctx: 40}, 6000, 6200)
			s.says("b", history.Answer{Leader: 41}, 6101, 6300)
		}},
		"a leader within another's long leadership, after a short one": {"G1", "two leaders", func(s *story) {
			s.says("a", history.Answer{Leader: 40}, 6000, 9000)
			s.says("b", history.Answer{}, 6000, 6200)
			s.says("b", history.Answer{Leader: 41}, 8000, 8100)
		}},
		"the gap of a stopped process is part of its leadership": {"G1", "two leaders", func(s *story) {
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.says("a", history.Answer{Leader: 40, Work: 40}, 9000, 9100)
			s.says("b", history.Answer{Leader: 41}, 7000, 7100)
		}},
		"a term goes back": {"G2", "after a later term had started", func(s *story) {
			s.says("b", history.Answer{Leader: 25}, 6000, 6100)
		}},
		"one term for two": {"G2", "one term, two leaders", func(s *story) {
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.says("b", history.Answer{Leader: 40}, 6200, 6300)
		}},
		"a term goes back long after the store forgot": {"G2", "after a later term had started", func(s *story) {
			s.round.Forgot, s.round.Settle = []history.Sample{{T0: 100 * ms, T1: 200 * ms}}, 100*time.Millisecond
			s.says("b", history.Answer{Leader: 25}, 6000, 6100)
		}},
		"a term that was over comes back": {"G3", "began again", func(s *story) {
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.says("a", history.Answer{}, 6100, 6200)
			s.says("a", history.Answer{Leader: 40}, 6200, 6300)
		}},
		"a term that was over comes back where the store forgot": {"G3", "began again", func(s *story) {
			s.round.Forgot = []history.Sample{{T0: 5000 * ms, T1: 5100 * ms}}
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.says("a", history.Answer{}, 6100, 6200)
			s.says("a", history.Answer{Leader: 40}, 6200, 6300)
		}},
		"promoted twice in a row": {"G3", "where promote-end had to come", func(s *story) {
			s.event("a", history.EventPromoteBegin, 6000, of(40))
			s.event("a", history.EventPromoteBegin, 6100, of(41))
		}},
		"demoted without a promotion": {"G3", "where promote-begin had to come", func(s *story) {
			s.event("a", history.EventDemoteBegin, 6000, of(40))
		}},
		"demoted while the promotion runs": {"G3", "where promote-end had to come", func(s *story) {
			s.event("a", history.EventPromoteBegin, 6000, of(40))
			s.event("a", history.EventDemoteBegin, 6100, of(40))
		}},
		"promoted for the same term again": {"G3", "promoted twice", func(s *story) {
			s.event("a", history.EventPromoteBegin, 6000, of(30))
		}},
		"the same claim promoted again where the store forgot": {"G3", "promoted twice", func(s *story) {
			s.round.Forgot = []history.Sample{{T0: 5000 * ms, T1: 5100 * ms}}
			s.event("a", history.EventPromoteBegin, 6000, of(30))
		}},
		"another claim promoted in the term of one, long after the store forgot": {"G3", "promoted twice", func(s *story) {
			s.round.Forgot, s.round.Settle = []history.Sample{{T0: 100 * ms, T1: 200 * ms}}, 100*time.Millisecond
			s.event("a", history.EventPromoteBegin, 6000, of(30), func(e *history.Event) { e.Correlation = "other" })
		}},
		"promoted when the term was over": {"G3", "which was over", func(s *story) {
			s.says("a", history.Answer{}, 4020, 6000)
			s.event("a", history.EventPromoteBegin, 6000, of(40), func(e *history.Event) { e.Over = true })
		}},
		"released while the work runs": {"G4", "released term 40 while its work was running", func(s *story) {
			s.event("a", history.EventPromoteBegin, 6000, of(40))
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.event("a", history.EventPromoteEnd, 6100, of(40))
			s.event("a", history.EventDemoteBegin, 6100, of(40))
			s.release("a", 40, 6105)
			s.event("a", history.EventDemoteEnd, 6110, of(40))
		}},
		"released, and the work never ends": {"G4", "while its work was running", func(s *story) {
			s.event("a", history.EventPromoteBegin, 6000, of(40))
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.release("a", 40, 6105)
		}},
		"succeeded while the work of the one that released runs": {"G4", "began while the work", func(s *story) {
			s.leadership("a", 40, 6000, 6100)
			s.says("b", history.Answer{Leader: 41}, 6103, 6200)
			s.event("b", history.EventTransition, 6103, of(41), func(e *history.Event) { e.To, e.Reason = "LEADER", "vacant" })
		}},
		"offered while the work runs": {"G4", "released term 40 while its work was running", func(s *story) {
			s.event("a", history.EventPromoteBegin, 6000, of(40))
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.event("a", history.EventPromoteEnd, 6100, of(40))
			s.event("a", history.EventDemoteBegin, 6100, of(40))
			s.call("offer", "a", 40, 6105)
			s.event("a", history.EventDemoteEnd, 6110, of(40))
		}},
		"succeeded while the work of the one that offered runs": {"G4", "began while the work", func(s *story) {
			s.event("a", history.EventTransition, 6000, of(40), func(e *history.Event) { e.To, e.Reason = "LEADER", "vacant" })
			s.event("a", history.EventPromoteBegin, 6000, of(40))
			s.says("a", history.Answer{Leader: 40, Ctx: 40, Work: 40}, 6000, 6100)
			s.event("a", history.EventPromoteEnd, 6100, of(40))
			s.event("a", history.EventDemoteBegin, 6100, of(40))
			s.event("a", history.EventDemoteEnd, 6110, of(40))
			s.call("offer", "a", 40, 6111)
			s.says("a", history.Answer{}, 6110, 6120)
			s.says("b", history.Answer{Leader: 41}, 6103, 6200)
			s.event("b", history.EventTransition, 6103, of(41), func(e *history.Event) { e.To, e.Reason = "LEADER", "offered" })
		}},
		"nobody leads after a fault": {"G5", "nobody led after a kill", func(s *story) { s.wait(6000, 0, time.Second) }},
		"somebody leads too late":    {"G5", "which is more than 1s", func(s *story) { s.wait(6000, 7001, time.Second) }},
		"a goroutine is left": {"G5", "outlived Stop", func(s *story) {
			s.event("b", history.EventStopped, 6000, func(e *history.Event) { e.Left = []string{"goroutine 7"} })
		}},
		"a stop fails": {"G5", "could not stop", func(s *story) {
			s.event("b", history.EventStopped, 6000, func(e *history.Event) { e.Error = "timeout" })
		}},
		"the term is another's claim": {"G6", "which the store gave to b", func(s *story) {
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.round.Stored = append(s.round.Stored, history.Stored{Revision: 40, ID: "b"})
		}},
		"a process dies": {"G7", "ended by itself: exit status 2", func(s *story) { s.process("b").Died = "exit status 2" }},
		"a stale write is accepted": {"G8", "in term 20 after one of a-1 in term 30", func(s *story) {
			r := &s.round.Resources[0]
			r.Accepted = append(r.Accepted, history.Write{Term: 20, From: "b-1"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			c.tell(s)
			found := history.Judge(s.round)
			if !slices.ContainsFunc(found, func(v history.Violation) bool {
				return v.Guarantee == c.guarantee && strings.Contains(v.Text, c.says)
			}) {
				t.Errorf("want %s with %q, found %v", c.guarantee, c.says, found)
			}
			for _, v := range found {
				// A candidate's own term that is recorded only in part may
				// break the order of callbacks, nothing else.
				if v.Guarantee != c.guarantee {
					t.Errorf("condemned for %v too", v)
				}
			}
		})
	}
}

// A history that the protocol allows must not be condemned, however strange it
// looks.
func TestAllowedHistoriesAreNotCondemned(t *testing.T) {
	for name, tell := range map[string]func(*story){
		"a process stopped in the middle of its first and of its last sample": func(s *story) {
			p := s.process("a")
			p.Runs = append(p.Runs, history.Run{
				Answer: history.Answer{Leader: 40, Ctx: 40}, Count: 2,
				First: history.Sample{T0: 6000 * ms, T1: 6500 * ms}, Last: history.Sample{T0: 6501 * ms, T1: 9000 * ms},
			})
			s.says("b", history.Answer{Leader: 41, Ctx: 41}, 6600, 6700)
		},
		"terms that go back where the store forgot": func(s *story) {
			s.round.Forgot = []history.Sample{{T0: 5000 * ms, T1: 5100 * ms}}
			s.says("b", history.Answer{Leader: 15}, 12000, 12100)
		},
		"a revision given twice to one candidate, where the store forgot": func(s *story) {
			s.round.Forgot = []history.Sample{{T0: 5000 * ms, T1: 5100 * ms}}
			s.leadership("a", 30, 9500, 9600)
			events := s.process("a").Events
			for i := range events {
				if events[i].At >= 9500*ms {
					events[i].Correlation = "other"
				}
			}
		},
		"a claim of before the store forgot, promoted after it": func(s *story) {
			s.round.Forgot = []history.Sample{{T0: 5000 * ms, T1: 5100 * ms}}
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.says("b", history.Answer{Leader: 15}, 12000, 12100)
		},
		"a promotion in a process that was stopped before it": func(s *story) {
			s.says("a", history.Answer{}, 4020, 4100)
			s.event("a", history.EventPromoteBegin, 6000, of(40), func(e *history.Event) { e.Over = true })
		},
		"a release after the time for the work was spent": func(s *story) {
			s.event("a", history.EventPromoteBegin, 6000, of(40))
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
			s.event("a", history.EventPromoteEnd, 6100, of(40))
			s.event("a", history.EventDemoteBegin, 6100, of(40))
			s.release("a", 40, 11200)
		},
		"a release of a claim that was never promoted": func(s *story) { s.release("a", 40, 6000) },
		"a claim that the lab did not see": func(s *story) {
			s.says("a", history.Answer{Leader: 40}, 6000, 6100)
		},
		"a process killed in the middle of its term": func(s *story) {
			s.says("b", history.Answer{Leader: 40, Ctx: 40, Work: 40}, 6000, 6100)
			s.event("b", history.EventPromoteBegin, 6000, of(40))
			s.says("a", history.Answer{Leader: 41}, 7200, 7300)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			tell(s)
			for _, v := range history.Judge(s.round) {
				t.Error(v)
			}
		})
	}
}

func TestRunsOfAFileOfSamplesAreReadBack(t *testing.T) {
	file := make([]byte, history.HeaderBytes+3*history.RunWords*8)
	binary.NativeEndian.PutUint64(file, 3)
	for i := range 2 * history.RunWords { // the third was started and not written
		binary.NativeEndian.PutUint64(file[history.HeaderBytes+8*i:], uint64(i+1))
	}
	runs, err := history.Runs(file)
	want := []history.Run{
		{Who: 1, Answer: history.Answer{Leader: 2, Ctx: 3, Work: 4}, First: history.Sample{T0: 5, T1: 6}, Last: history.Sample{T0: 7, T1: 8}, Count: 9, MaxGap: 10},
		{Who: 11, Answer: history.Answer{Leader: 12, Ctx: 13, Work: 14}, First: history.Sample{T0: 15, T1: 16}, Last: history.Sample{T0: 17, T1: 18}, Count: 19, MaxGap: 20},
	}
	if err != nil || !slices.Equal(runs, want) {
		t.Errorf("%+v, %v", runs, err)
	}
}

func TestFullFileOfSamplesIsAnError(t *testing.T) {
	file := make([]byte, history.HeaderBytes)
	binary.NativeEndian.PutUint64(file, history.MaxRuns)
	if _, err := history.Runs(file); err == nil {
		t.Error("no error")
	}
}

func TestALineThatWasCutOffIsLeftOut(t *testing.T) {
	events, err := history.Events(bytes.NewBufferString("{\"at\":1,\"kind\":\"started\"}\n{\"at\":2,\"ki"))
	if err != nil || len(events) != 1 || events[0].At != 1 {
		t.Errorf("%+v, %v", events, err)
	}
	if _, err := history.Events(bytes.NewBufferString("nonsense\n")); err == nil {
		t.Error("a whole line that is not an event gives no error")
	}
}

func TestTwoTermsAreCondemnedOnce(t *testing.T) {
	s := good()
	s.says("a", history.Answer{Leader: 40, Ctx: 40}, 6000, 6200)
	s.says("b", history.Answer{Leader: 41, Ctx: 41}, 6101, 6300)
	if found := history.Judge(s.round); len(found) != 1 {
		t.Errorf("%v", found)
	}
}
