package machine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

func TestTrustIsRoundedDownAndWaitUp(t *testing.T) {
	for _, c := range []struct {
		ttl         time.Duration
		drift       float64
		trust, wait time.Duration
	}{
		{3 * time.Second, 0.1, 2700 * time.Millisecond, 3300 * time.Millisecond},
		{10, 0.25, 7, 13},
		{1, 0.1, 0, 2},
		{time.Hour, 0, time.Hour, time.Hour},
	} {
		if got := Trust(c.ttl, c.drift); got != c.trust {
			t.Errorf("Trust(%v, %v) = %v, want %v", c.ttl, c.drift, got, c.trust)
		}
		if got := Wait(c.ttl, c.drift); got != c.wait {
			t.Errorf("Wait(%v, %v) = %v, want %v", c.ttl, c.drift, got, c.wait)
		}
	}
}

// The two windows must not overlap whatever the clocks' rates within the drift:
// the slowest holder's trust ends before the fastest follower's wait does.
func TestTrustOfTheSlowestEndsBeforeTheWaitOfTheFastest(t *testing.T) {
	r := random(t)
	for range 10000 {
		ttl, drift := time.Duration(1+r.Int64N(int64(time.Hour))), r.Float64()*0.5
		trust := float64(Trust(ttl, drift)) / (1 - drift)
		wait := float64(Wait(ttl, drift)) / (1 + drift)
		if trust > wait+1e-3 {
			t.Fatalf("ttl %v, drift %v: trust lasts %v, the wait %v", ttl, drift, trust, wait)
		}
	}
}

func TestEitherClockClosesAWindow(t *testing.T) {
	end := Instant{Mono: 10, Wall: 100}
	for _, c := range []struct {
		now  Instant
		want bool
	}{
		{Instant{9, 99}, false},
		{Instant{10, 99}, true},
		{Instant{9, 100}, true}, // after a suspension
		{Instant{10, 0}, true},  // after a leap of the wall clock backwards
	} {
		if got := end.Reached(c.now); got != c.want {
			t.Errorf("reached at %v: %v", c.now, got)
		}
	}
}

func TestRetriesGrowToTheirMaximumAndVaryByTheirJitter(t *testing.T) {
	r := Retry{Initial: 100, Max: 1000, Multiplier: 2}
	for n, want := range map[int]time.Duration{1: 100, 2: 200, 3: 400, 4: 800, 5: 1000, 250: 1000} {
		if got := r.after(n, 0); got != want {
			t.Errorf("after %d attempts: %v, want %v", n, got, want)
		}
	}
	r.Jitter = 0.5
	if lo, hi := r.after(1, 0), r.after(1, 1<<64-1); lo != 50 || hi < 149 || hi > 150 {
		t.Errorf("with a jitter of a half: %v to %v", lo, hi)
	}
}

func TestABelievedTTLIsBounded(t *testing.T) {
	m := unitMachine("a")
	for ttl, want := range map[time.Duration]time.Duration{1: 1, 20: 20, 21: 20, 1 << 60: 20} {
		if got := m.believed(ttl); got != want {
			t.Errorf("a TTL of %d is believed as %d, want %d", ttl, got, want)
		}
	}
}

// Content that no candidate wrote may hide our own lease, an observed lease, or
// a lease that ForeignTTL bounds: the longest counts.
func TestForeignRecordIsWaitedOutByItsLongestPossibleLease(t *testing.T) {
	for _, seen := range []Seen{
		{Kind: Malformed, Rev: 4}, {Kind: Held, Rev: 4, Rec: Record{ID: "x"}}, {Kind: Held, Rev: 4, Rec: Record{ID: "x", TTL: -5}},
	} {
		for _, c := range []struct{ foreign, held, want time.Duration }{
			{0, 0, 20}, {8, 0, 20}, {40, 0, 40}, {0, 60, 60}, {40, 60, 60}, {40, 8, 40}, {0, 8, 20},
		} {
			m := unitMachine("a")
			m.MaxTTL, m.ForeignTTL = 100, c.foreign
			p := &play{m: m}
			p.step(Event{Kind: Start})
			if c.held > 0 {
				p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 3, Rec: Record{ID: "b", Token: "b1", TTL: c.held}}})
			}
			p.step(Event{Kind: Observed, Seen: seen})
			if got := p.s.DueAt - p.now.Mono; got != int64(m.wait(c.want)) {
				t.Errorf("%v %+v: due after %d, want %d", seen.Kind, c, got, m.wait(c.want))
			}
			if p.s.HeldTTL != c.held {
				t.Errorf("%v: %v is known of candidates' leases, was %v", seen.Kind, p.s.HeldTTL, c.held)
			}
		}
	}
}

// random logs its seed.
func random(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// events makes a plausible event for s, and now and then an implausible one.
func randomEvent(r *rand.Rand, s State) Event {
	ev := Event{
		Kind: EventKind(r.IntN(len(eventNames))), Op: s.Write.Op, Outcome: Outcome(r.IntN(5)), Rev: s.View.Rev + uint64(r.IntN(3)),
		Term: s.Grant.Term, Token: tokenNames[0][r.IntN(64)], Rand: r.Uint64(),
	}
	if r.IntN(3) > 0 {
		ev.Kind = []EventKind{Observed, Written, Read, Drained, Tick}[r.IntN(5)]
	}
	if ev.Kind == StopLeave || ev.Kind == StopRelease {
		if r.IntN(20) > 0 {
			ev.Kind = Start
		}
	}
	ev.Seen = Seen{Kind: Kind(1 + r.IntN(5)), Rev: ev.Rev}
	if ev.Seen.Kind == Held || ev.Seen.Kind == Vacant {
		ev.Seen.Rec = Record{ID: "b", Token: "b1", TTL: 20}
		if r.IntN(2) == 0 {
			ev.Seen.Rec = Record{ID: "a", Token: s.Grant.Token, TTL: 20, Renewal: s.Grant.Renewal + uint64(r.IntN(2))}
		}
		if ev.Seen.Kind == Vacant {
			ev.Seen.Rec.ID = ""
		}
	}
	return ev
}

func randomMachine(r *rand.Rand) Machine {
	m := unitMachine("a")
	m.CoolDown = r.IntN(2) == 0
	m.DisconnectGrace = time.Duration(r.IntN(2) * 7)
	m.Retry.MaxAttempts = r.IntN(4)
	m.Grid = time.Duration(r.IntN(3))
	return m
}

// walk leads a machine through random events and calls visit with every state.
func walk(t *testing.T, visit func(m Machine, s State, now int64, r *rand.Rand)) {
	r := random(t)
	for range 300 {
		m := randomMachine(r)
		s, now := State{}, int64(0)
		for range 80 {
			now += int64(r.IntN(4))
			s, _ = m.Step(s, randomEvent(r, s), Instant{now, now})
			visit(m, s, now, r)
		}
	}
}

func TestStepIsAFunction(t *testing.T) {
	walk(t, func(m Machine, s State, now int64, r *rand.Rand) {
		ev := randomEvent(r, s)
		before := s
		a, as := m.Step(s, ev, Instant{now, now})
		b, bs := m.Step(s, ev, Instant{now, now})
		if a != b || len(as) != len(bs) || s != before {
			t.Fatalf("%v twice: %+v and %+v", ev.Kind, a, b)
		}
		for k := range as {
			if as[k] != bs[k] {
				t.Fatalf("%v twice: %v and %v", ev.Kind, as[k], bs[k])
			}
		}
	})
}

// Apply is Step in place, and leaves alone what is not its own.
func TestApplyIsStepInPlace(t *testing.T) {
	walk(t, func(m Machine, s State, now int64, r *rand.Rand) {
		ev, rules := randomEvent(r, s), m
		want, actions := m.Step(s, ev, Instant{now, now})
		said, first := ev, Action{Kind: Note, Note: NoteOverrun}
		out := m.Apply(&s, &said, Instant{now, now}, []Action{first})
		if s != want || out[0] != first || !slices.Equal(out[1:], actions) {
			t.Fatalf("%v: by Step %+v %+v, in place %+v %+v", ev.Kind, want, actions, s, out)
		}
		if said != ev || m != rules {
			t.Fatalf("%v: it has changed the event to %+v, the machine to %+v", ev.Kind, said, m)
		}
	})
}

// A step is made for every message of thousands of elections: it leaves no work
// to the garbage collector.
func TestAStepInPlaceAllocatesNothing(t *testing.T) {
	m, out := unitMachine("a"), make([]Action, 0, 4)
	for _, c := range scenes() {
		s := c.s
		if n := testing.AllocsPerRun(10, func() { s = c.s; m.Apply(&s, &c.ev, c.now, out) }); n > 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// The explorer leaves out answers to calls that were forgotten, on these
// grounds.
func TestStaleAnswersAreTicks(t *testing.T) {
	walk(t, func(m Machine, s State, now int64, r *rand.Rand) {
		ev := randomEvent(r, s)
		ev.Kind = []EventKind{Written, Read}[r.IntN(2)]
		ev.Op = s.Write.Op + 1
		stale, _ := m.Step(s, ev, Instant{now, now})
		ev.Kind = Tick
		if tick, _ := m.Step(s, ev, Instant{now, now}); stale != tick {
			t.Fatalf("a stale answer did what a tick does not:\n%+v\n%+v", stale, tick)
		}
	})
}

// The runtime sleeps until Wake, so nothing may fall due earlier.
func TestSteppingAtWakeIsSteppingAlways(t *testing.T) {
	walk(t, func(m Machine, s State, now int64, _ *rand.Rand) {
		wake := m.Wake(&s)
		for at := now; at < min(wake, now+60); at++ {
			u, actions := m.Step(s, Event{Kind: Tick, Token: "x"}, Instant{at, at})
			if u != s || len(actions) > 0 {
				t.Fatalf("Wake returns %d, and at %d a tick does %v:\n%+v\n%+v", wake, at, actions, s, u)
			}
		}
	})
}

// A due tick must make its cause go away, or the runtime would spin.
func TestATickIsNotDueAgainAtOnce(t *testing.T) {
	walk(t, func(m Machine, s State, now int64, _ *rand.Rand) {
		at := max(m.Wake(&s), now)
		if at > now+1000 {
			return
		}
		u, _ := m.Step(s, Event{Kind: Tick, Token: "x"}, Instant{at, at})
		if m.Wake(&u) <= at {
			t.Fatalf("at %d Wake still returns %d:\n%+v\n%+v", at, m.Wake(&u), s, u)
		}
	})
}

func TestStoppedCandidateStaysStopped(t *testing.T) {
	walk(t, func(m Machine, s State, now int64, r *rand.Rand) {
		if s.Phase != Stopped {
			s, _ = m.Step(s, Event{Kind: StopLeave}, Instant{now, now})
			s, _ = m.Step(s, Event{Kind: Drained}, Instant{now, now})
		}
		u, actions := m.Step(s, randomEvent(r, s), Instant{now, now})
		if u.Phase != Stopped || len(actions) > 0 || m.Wake(&u) != Never {
			t.Fatalf("a stopped candidate does %v and is %+v", actions, u)
		}
	})
}

// A record that somebody wrote by hand may lack a token, and a candidate that
// never claimed has none either. That does not make the record its own.
func TestRecordWithoutATokenIsNotAnOwnRemnant(t *testing.T) {
	m := unitMachine("a")
	s, _ := m.Step(State{}, Event{Kind: Start}, Instant{})
	s, actions := m.Step(s, Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 7, Rec: Record{ID: "b", TTL: 20}}, Token: "a1"}, Instant{})
	if len(actions) != 0 || s.DueAt < int64(m.wait(20)) || s.Public() != Follower {
		t.Fatalf("a live record without a token is challenged at %d: %v", s.DueAt, actions)
	}
}

func TestNamesOfEverything(t *testing.T) {
	names := map[string]bool{}
	add := func(s string) {
		if s == "" || names[s] {
			t.Errorf("name %q is empty or used twice", s)
		}
		names[s] = true
	}
	for k := range phaseNames {
		add("phase " + Phase(k).String())
	}
	for k := range kindNames {
		add("kind " + Kind(k).String())
	}
	for k := range eventNames {
		add("event " + EventKind(k).String())
	}
	for k := range actionNames {
		add("action " + ActionKind(k).String())
	}
	for k := range noteNames {
		add("note " + NoteKind(k).String())
	}
	for k := range outcomeNames {
		add("outcome " + Outcome(k).String())
	}
	for k := range writeNames {
		add("write " + WriteKind(k).String())
	}
}

func TestSizeOfAState(t *testing.T) {
	t.Logf("a State is %d bytes, a Machine %d, a Record %d", unsafe.Sizeof(State{}), unsafe.Sizeof(Machine{}), unsafe.Sizeof(Record{}))
	if n := unsafe.Sizeof(State{}); n > 1024 {
		t.Errorf("a State is %d bytes: 1,000 elections of one process each hold several", n)
	}
}

// A store that comes back in the second half of what is left of the window
// finds the holder trying.
func TestRetryDelaysShrinkWithTheRestOfTheWindow(t *testing.T) {
	m := Machine{
		ID: "a", TTL: 15 * time.Second, Heartbeat: 5 * time.Second, MaxTTL: time.Hour, Drift: 0.1,
		Settings: Settings{Retry: Retry{Initial: 50 * time.Millisecond, Max: 5 * time.Second, Multiplier: 100}},
	}
	now := Instant{}
	s, _ := m.Step(State{}, Event{Kind: Start}, now)
	s, _ = m.Step(s, Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a"}, now)
	s, _ = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Rev: 1}, now)
	for s.Phase == Holding {
		at := m.Wake(&s)
		if left := s.Grant.Trust.Mono - now.Mono; now.Mono > 0 && at < s.Grant.Trust.Mono && at-now.Mono > max(left/2, int64(m.Retry.Initial)) {
			t.Fatalf("at %v the next attempt is at %v, the window closes at %v",
				time.Duration(now.Mono), time.Duration(at), time.Duration(s.Grant.Trust.Mono))
		}
		now = now.Add(time.Duration(at - now.Mono))
		s, _ = m.Step(s, Event{Kind: Tick}, now)
		s, _ = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Outcome: Transient}, now)
	}
	if tries := s.Grant.Trust.Mono - now.Mono; tries > 0 {
		t.Errorf("gave up %v before the window closed", time.Duration(tries))
	}
}
