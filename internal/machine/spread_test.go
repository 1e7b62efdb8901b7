package machine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// follower returns a candidate that has just seen a holder's record of revision
// 7.
func follower(m Machine, behind uint8, ranked bool) *play {
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: holderSeen(behind, ranked, AnyTurn)})
	return p
}

func holderSeen(behind uint8, ranked bool, turn Turn) Seen {
	return Seen{
		Kind: Held, Rev: 7, Rec: Record{ID: "b", Token: "b1", TTL: time.Second, Term: 4, Renewal: 1},
		Behind: behind, Ranked: ranked, Turn: turn,
	}
}

func spreadMachine() Machine {
	m := unitMachine("a")
	m.TTL, m.MaxTTL, m.Drift, m.Yield = time.Second, time.Hour, 0.1, 50*time.Millisecond
	return m
}

// Who was nominated goes as soon as the lease has run out. The others leave the
// lease to it for long enough, and those who are preferred to others still go
// before them.
func TestANomineeGoesFirst(t *testing.T) {
	const ms, expiry = time.Millisecond, 1100 * time.Millisecond
	for name, c := range map[string]struct {
		turn        Turn
		behind      uint8
		ranked      bool
		least, most time.Duration // after the lease
	}{
		"nobody was nominated":              {AnyTurn, 0, false, 0, 10 * ms},
		"the nominee":                       {OurTurn, 0, false, 0, 0},
		"another":                           {TheirTurn, 0, false, 100 * ms, 200 * ms},
		"another, of several standings":     {TheirTurn, 0, true, 100 * ms, 125 * ms},
		"another, of a standing behind one": {TheirTurn, 1, true, 150 * ms, 175 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []uint64{0, math.MaxUint64} {
				p := follower(spreadMachine(), c.behind, c.ranked)
				seen := p.s.ViewAt
				p.now = p.now.Add(time.Millisecond)
				p.step(Event{Kind: Observed, Seen: holderSeen(c.behind, c.ranked, c.turn), Rand: r})
				// The watch may say the same again.
				p.step(Event{Kind: Observed, Seen: holderSeen(c.behind, c.ranked, AnyTurn), Rand: r})
				if d := time.Duration(p.s.DueAt - seen - int64(expiry)); d < c.least || d > c.most {
					t.Errorf("due %v after the lease, want %v to %v", d, c.least, c.most)
				}
			}
		})
	}
}

// Whatever is said of nominees, a lease is waited out (rule 5).
func TestANominationNeverShortensTheWait(t *testing.T) {
	turns := 0
	walk(t, func(m Machine, s State, _ int64, _ *rand.Rand) {
		if s.Phase != Watching || s.View.Kind != Held || s.ours(&s.View) {
			return
		}
		if s.View.Turn == OurTurn {
			turns++
		}
		if s.DueAt < s.ViewAt+int64(m.wait(s.HeldTTL)) {
			t.Fatalf("due %d after an observation whose wait is %d: %+v", s.DueAt-s.ViewAt, m.wait(s.HeldTTL), s)
		}
	})
	if turns == 0 {
		t.Error("nobody was nominated")
	}
}

// A nomination is for those who would claim at once, and while nobody may.
func TestOnlyWhoWouldClaimNominatesItself(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Machine, *State)
		want  bool
	}{
		"a follower":                    {func(*Machine, *State) {}, true},
		"one that knows of a nominee":   {func(_ *Machine, s *State) { s.View.Turn = TheirTurn }, false},
		"one that is not preferred":     {func(_ *Machine, s *State) { s.Behind = 1 }, false},
		"one that backs off":            {func(m *Machine, s *State) { m.Backoff, s.Passed = time.Second, 1 }, false},
		"one that is paused":            {func(_ *Machine, s *State) { s.Barred = Paused }, false},
		"one that stands back":          {func(_ *Machine, s *State) { s.StandBackUntil = math.MaxInt64 }, false},
		"one that is cut off":           {func(_ *Machine, s *State) { s.Down = true }, false},
		"one whose work has not ended":  {func(_ *Machine, s *State) { s.Undrained = true }, false},
		"one that sees its own remnant": {func(_ *Machine, s *State) { s.Grant.Token = "b1" }, false},
		"one that sees a vacancy":       {func(_ *Machine, s *State) { s.View.Kind = Vacant }, false},
		"a holder":                      {func(_ *Machine, s *State) { s.Phase = Holding }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := follower(spreadMachine(), 0, false)
			c.spoil(&p.m, &p.s)
			first, last := p.m.NominateAt(&p.s, 0), p.m.NominateAt(&p.s, math.MaxUint64)
			if !c.want {
				if first != Never || last != Never {
					t.Errorf("nominates itself at %v", time.Duration(first))
				}
				return
			}
			if d := time.Duration(first - p.s.ViewAt); d != 700*time.Millisecond {
				t.Errorf("nominates itself %v after an observation at the earliest", d)
			}
			if d := time.Duration(last - p.s.ViewAt); d < 949*time.Millisecond || d > 950*time.Millisecond {
				t.Errorf("nominates itself %v after an observation at the latest", d)
			}
		})
	}
}

// A crowdRun is a group whose leader has died, in virtual time. News of any
// write takes longer to reach all of them, the more they are.
type crowdRun struct {
	rng   *rand.Rand
	queue agenda
	now   int64
	m     Machine
	cs    []State

	nominate  func(Machine, State, uint64) int64
	nominee   int // -1 for none yet
	nominated int // attempts
	deaf      bool
	claims    int
	leads     int64 // since when a successor does, 0 without one
}

// trip is that of one request or answer.
func (r *crowdRun) trip() int64 {
	return int64(100*time.Microsecond) + r.rng.Int64N(int64(200*time.Microsecond))
}

// news delivers something to all.
func (r *crowdRun) news(to func(i int)) {
	for i := range r.cs {
		r.queue.add(r.now+r.trip()+r.rng.Int64N(int64(len(r.cs))*int64(20*time.Microsecond)), func() { to(i) })
	}
}

func (r *crowdRun) step(i int, ev Event) {
	ev.Rand, ev.Token = r.rng.Uint64(), fmt.Sprint("c", i)
	s, actions := r.m.Step(r.cs[i], ev, Instant{r.now, r.now})
	r.cs[i] = s
	if len(actions) > 0 && actions[0].Kind == Send {
		r.claims++
		r.queue.add(r.now+r.trip(), r.claimed)
		return
	}
	if wake := r.m.Wake(&s); s.Phase == Watching && wake != Never {
		r.queue.add(max(wake, r.now), func() {
			if r.cs[i].Phase == Watching && r.m.Wake(&r.cs[i]) <= r.now {
				r.step(i, Event{Kind: Tick})
			}
		})
	}
}

// claimed is the arrival of a claim at the store, which takes the first.
func (r *crowdRun) claimed() {
	if r.leads != 0 {
		return
	}
	r.leads = r.now + r.trip()
	r.news(func(j int) {
		if r.cs[j].Phase == Watching {
			r.step(j, Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 9, Rec: Record{ID: "x", Token: "x", TTL: time.Second, Term: 9, Renewal: 1}}})
		}
	})
}

// named is the arrival of a nomination at the store, which takes the first.
func (r *crowdRun) named(i int) {
	if r.nominee >= 0 {
		return
	}
	r.nominee = i
	r.news(func(j int) {
		turn := TheirTurn
		if i == j {
			turn = OurTurn
		}
		if r.deaf && i == j {
			r.cs[j] = State{} // it has died since
			return
		}
		if r.cs[j].Phase == Watching {
			r.step(j, Event{Kind: Observed, Seen: holderSeen(0, false, turn)})
		}
	})
}

// run lets the lease run out, and returns how long nobody led after it.
func (r *crowdRun) run() time.Duration {
	r.nominee = -1
	for i := range r.cs {
		r.step(i, Event{Kind: Start})
	}
	r.news(func(i int) {
		r.step(i, Event{Kind: Observed, Seen: holderSeen(0, false, AnyTurn)})
		at := r.nominate(r.m, r.cs[i], r.rng.Uint64())
		if at == Never {
			return
		}
		r.queue.add(at, func() {
			if r.m.NominateAt(&r.cs[i], 0) != Never {
				r.nominated++
				r.queue.add(r.now+r.trip(), func() { r.named(i) })
			}
		})
	})
	for {
		at, do, ok := r.queue.next(int64(10 * time.Second))
		if !ok || at > int64(1900*time.Millisecond) { // before the successor's lease runs out
			return time.Duration(r.leads) - 1100*time.Millisecond
		}
		r.now = at
		do()
	}
}

// A crowdResult is what many expiries cost.
type crowdResult struct {
	claims, nominations int           // in the median
	mean                time.Duration // without a leader, beyond the lease
}

func expire(rng *rand.Rand, n int, deaf bool, nominate func(Machine, State, uint64) int64) (out crowdResult) {
	const rounds = 21
	var claims, nominations []int
	for range rounds {
		r := &crowdRun{rng: rng, m: spreadMachine(), cs: make([]State, n), deaf: deaf, nominate: nominate}
		out.mean += r.run() / rounds
		claims, nominations = append(claims, r.claims), append(nominations, r.nominated)
	}
	slices.Sort(claims)
	slices.Sort(nominations)
	out.claims, out.nominations = claims[rounds/2], nominations[rounds/2]
	return out
}

// However many candidates a leader leaves behind, few of them go for its
// record, and soon; a thousand as few as ten. The others show what for: without
// nominations all would claim, and with nominations at any time alike dozens
// would nominate themselves.
func TestFewGoForAnExpiredLeaseHoweverMany(t *testing.T) {
	rng := random(t)
	never := func(Machine, State, uint64) int64 { return Never }
	nominates := func(m Machine, s State, rand uint64) int64 { return m.NominateAt(&s, rand) }
	uniformly := func(m Machine, s State, r uint64) int64 {
		at := m.NominateAt(&s, 0)
		return at + int64(unit(r)*float64(s.HeldTTL/4))
	}
	for _, n := range []int{1, 2, 19, 199, 999} {
		got := expire(rng, n, false, nominates)
		t.Logf("%d candidates: %+v", n, got)
		if got.claims > 10 || got.nominations > 10 || got.mean > 20*time.Millisecond {
			t.Errorf("%d candidates: %+v", n, got)
		}
		if n <= 2 && got.mean > 2*time.Millisecond {
			t.Errorf("%d candidates are without a leader for %v", n, got.mean)
		}
		dead := expire(rng, n, true, nominates)
		t.Logf("%d candidates, and the nominee dies: %+v", n, dead)
		if n > 1 && (dead.claims > 10 || dead.mean > 220*time.Millisecond) {
			t.Errorf("%d candidates, and the nominee dies: %+v", n, dead)
		}
		alone, even := expire(rng, n, false, never), expire(rng, n, false, uniformly)
		t.Logf("%d candidates without nominations: %+v, with nominations by equal chances: %+v", n, alone, even)
		if n >= 199 && alone.claims <= 10 || n > 199 && even.nominations <= 10 {
			t.Errorf("%d candidates need no nominations (%+v), or none that are skewed (%+v)", n, alone, even)
		}
	}
}
