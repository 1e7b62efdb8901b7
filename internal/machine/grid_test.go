package machine

import (
	"math/rand/v2"
	"testing"
	"time"
)

// gridded is a machine that holds the record, by a claim that left at now.
func gridded(t *testing.T, m Machine, now Instant) State {
	t.Helper()
	s, _ := m.Step(State{}, Event{Kind: Start}, now)
	s, _ = m.Step(s, Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a"}, now)
	s, _ = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Rev: 1}, now)
	if s.Phase != Holding {
		t.Fatalf("%+v", s)
	}
	return s
}

func TestARenewalIsDueOnTheGridAndNoLaterThanAHeartbeat(t *testing.T) {
	r := random(t)
	for range 10_000 {
		heartbeat := time.Second + time.Duration(r.Int64N(int64(time.Second)))
		m := Machine{
			ID: "a", TTL: 15 * time.Second, Heartbeat: heartbeat, Grid: time.Duration(1 + r.Int64N(int64(heartbeat/8))), MaxTTL: time.Hour,
			Drift: 0.1,
		}
		now := Instant{Mono: r.Int64N(int64(time.Hour)), Wall: r.Int64()}
		s := gridded(t, m, now)
		due := time.Duration(m.Wake(&s))
		after := due - time.Duration(now.Mono)
		if due%m.Grid != 0 || after > heartbeat || after <= heartbeat-m.Grid {
			t.Fatalf("a renewal is due %v after a claim at %v, with a heartbeat of %v and a grid of %v", after, time.Duration(now.Mono), heartbeat, m.Grid)
		}
		m.Grid = 0
		if due := m.Wake(&s); due != now.Mono+int64(heartbeat) {
			t.Fatalf("without a grid, %v after the claim instead of %v", time.Duration(due-now.Mono), heartbeat)
		}
	}
}

// The runtime skips events for which Echoes is true, because it reads the clock
// when it is due to.
func TestEchoCountsAsATick(t *testing.T) {
	echoes := 0
	walk(t, func(m Machine, s State, now int64, r *rand.Rand) {
		seen := s.View
		seen.Behind, seen.Ranked = uint8(r.UintN(3)), r.IntN(2) == 0
		if !s.Echoes(&seen) {
			return
		}
		echoes++
		ev := Event{Kind: Observed, Seen: seen, Token: "x", Rand: r.Uint64(), Nonce: 1 + r.Uint64N(1<<50)}
		heard, did := m.Step(s, ev, Instant{now, now})
		ev.Kind = Tick
		ticked, does := m.Step(s, ev, Instant{now, now})
		if heard != ticked || len(did) != len(does) {
			t.Fatalf("an echo did what a tick does not:\n%+v %v\n%+v %v", heard, did, ticked, does)
		}
	})
	if echoes < 100 {
		t.Errorf("%d echoes", echoes)
	}
}
