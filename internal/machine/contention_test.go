package machine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The window at a vacancy is the candidate's own. At a lease that ran out it is
// 50 ms, or a sixtieth of the lease, at least. Where candidates differ it lets
// the preferred ones go first.
func TestTheWindowsThatSpreadCandidates(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		ttl             time.Duration
		s               State
		vacancy, expiry time.Duration
	}{
		"no race lost":                     {time.Minute, State{}, 0, 50 * ms},
		"no race lost, a short lease":      {600 * ms, State{}, 0, 10 * ms},
		"a race lost":                      {time.Minute, State{Window: 24 * ms}, 24 * ms, 50 * ms},
		"a race lost on a slow store":      {time.Minute, State{Window: 640 * ms}, 640 * ms, 640 * ms},
		"a race lost, a short lease":       {600 * ms, State{Window: 24 * ms}, 24 * ms, 24 * ms},
		"a wide window behind the favored": {time.Minute, State{Window: 640 * ms, Ranked: true}, 20 * ms, 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			s := step{m: &Machine{ID: "a", TTL: c.ttl, Yield: 40 * ms}, s: &c.s, ev: &Event{Rand: math.MaxUint64}}
			near := func(got, want time.Duration) bool { return got <= want && got >= want-time.Microsecond }
			if got := s.vacancyDelay(); !near(got, c.vacancy) {
				t.Errorf("at a vacancy up to %v, want %v", got, c.vacancy)
			}
			if got := s.expirySpread(); !near(got, c.expiry) {
				t.Errorf("after an expiry up to %v, want %v", got, c.expiry)
			}
		})
	}
}

// A refused claim widens the window to eight round trips of that race, and to
// twice what it was. That of a start does not.
func TestALostRaceWidensTheWindow(t *testing.T) {
	const ms = time.Millisecond
	held := Seen{Kind: Held, Rev: 3, Rec: Record{ID: "b", Token: "b1", TTL: time.Second, Term: 3}}
	vacancy := Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1", Reason: ReasonResigned}}
	for name, c := range map[string]struct {
		before []Seen
		window time.Duration
		took   time.Duration
		want   time.Duration
	}{
		"at a start":             {[]Seen{{Kind: Absent}}, 0, 2 * ms, 0},
		"at a start, a vacancy":  {[]Seen{vacancy}, 0, 2 * ms, 0},
		"at a vacancy":           {[]Seen{held, vacancy}, 0, 2 * ms, 16 * ms},
		"again, and as fast":     {[]Seen{held, vacancy}, 16 * ms, 2 * ms, 32 * ms},
		"again, and slower":      {[]Seen{held, vacancy}, 16 * ms, 6 * ms, 48 * ms},
		"in a store that hangs":  {[]Seen{held, vacancy}, 0, 5 * time.Second, time.Minute / 20},
		"as often as one likes":  {[]Seen{held, vacancy}, 2900 * ms, 2 * ms, time.Minute / 20},
		"won by nobody we heard": {[]Seen{held, vacancy, {Kind: Bare, Rev: 5}}, 0, 2 * ms, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := unitMachine("a")
			m.TTL, m.MaxTTL = time.Minute, time.Hour
			p := &play{m: m}
			p.step(Event{Kind: Start})
			p.s.Window = c.window
			var late *Seen
			for i, seen := range c.before {
				if i == 2 {
					late = &c.before[i]
					break
				}
				p.step(Event{Kind: Observed, Seen: seen})
			}
			if p.s.Phase != Claiming {
				t.Fatalf("it is %v", p.s.Phase)
			}
			winner := Seen{Kind: Held, Rev: 9, Rec: Record{ID: "c", Token: "c1", TTL: time.Second, Term: 9}}
			if late != nil {
				winner = *late
			}
			p.now = p.s.Write.Sent.Add(c.took - 1) // a play's step takes a nanosecond
			p.step(Event{Kind: Observed, Seen: winner})
			if p.s.Window != c.want {
				t.Errorf("the window is %v, want %v", p.s.Window, c.want)
			}
		})
	}
}

// A candidate that hears of the winner before it has claimed had too wide a
// window if half of the window was over. Half a millisecond is too short to
// count.
func TestAWinnerThatComesLateNarrowsTheWindow(t *testing.T) {
	const ms = time.Millisecond
	held := Seen{Kind: Held, Rev: 3, Rec: Record{ID: "b", Token: "b1", TTL: time.Second, Term: 3}}
	renewal := held
	renewal.Rev, renewal.Rec.Renewal = 4, 1
	vacancy := Seen{Kind: Vacant, Rev: 5, Rec: Record{Token: "b1", Reason: ReasonResigned}}
	winner := Seen{Kind: Held, Rev: 6, Rec: Record{ID: "c", Token: "c1", TTL: time.Second, Term: 6}}
	expired := 1100 * ms
	for name, c := range map[string]struct {
		window time.Duration
		before []Seen
		after  time.Duration // the last of them
		then   Seen
		want   time.Duration
	}{
		"late":                            {16 * ms, []Seen{held, vacancy}, 8 * ms, winner, 8 * ms},
		"early":                           {16 * ms, []Seen{held, vacancy}, 8*ms - 1, winner, 16 * ms},
		"late in a narrow one":            {900 * time.Microsecond, []Seen{held, vacancy}, ms / 2, winner, 0},
		"late, after an expiry":           {16 * ms, []Seen{held}, expired + 8*ms, winner, 8 * ms},
		"early, after an expiry":          {16 * ms, []Seen{held}, expired + 7*ms, winner, 16 * ms},
		"at a vacancy of which we missed": {16 * ms, []Seen{held}, 500 * ms, winner, 16 * ms},
		"a renewal that comes late":       {16 * ms, []Seen{held}, expired + 9*ms, renewal, 16 * ms},
		"the vacancy that comes late":     {16 * ms, []Seen{held}, expired + 9*ms, vacancy, 16 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			m := unitMachine("a")
			m.TTL, m.MaxTTL, m.Drift = time.Second, time.Hour, 0.1
			p := &play{m: m}
			p.step(Event{Kind: Start})
			p.s.Window = c.window
			for _, seen := range c.before {
				p.step(Event{Kind: Observed, Seen: seen, Rand: math.MaxUint64})
			}
			p.now = p.now.Add(c.after - 1)
			p.step(Event{Kind: Observed, Seen: c.then, Rand: math.MaxUint64})
			if p.s.Window != c.want {
				t.Errorf("the window is %v, want %v", p.s.Window, c.want)
			}
		})
	}
}

// A herd is a group of many in virtual time, on one store that handles requests
// one after another. News of a write takes longer to reach all, the more they
// are.
type herd struct {
	rng   *rand.Rand
	queue agenda
	now   int64
	m     Machine
	cs    []State
	keep  func(*State) // what a candidate's windows are made after each step; nil leaves them

	reg    Seen
	busy   int64 // until when the store is
	claims int
	led    int64 // when the latest term began
	leader int
}

func newHerd(rng *rand.Rand, n int, keep func(*State)) *herd {
	m := unitMachine("a")
	m.TTL, m.Heartbeat, m.MaxTTL, m.Drift = 2*time.Second, 600*time.Millisecond, time.Hour, 0.1
	m.DrainBudget, m.Retry = time.Second, Retry{Initial: 20 * time.Millisecond, Max: time.Second, Multiplier: 2}
	h := &herd{rng: rng, m: m, cs: make([]State, n), keep: keep, reg: Seen{Kind: Absent}}
	for i := range h.cs {
		h.enter(i)
	}
	h.run(200 * time.Millisecond)
	return h
}

// enter restarts a candidate.
func (h *herd) enter(i int) {
	h.cs[i] = State{}
	h.step(i, Event{Kind: Start})
	h.deliver(i)
}

func (h *herd) trip() int64 {
	return int64(50*time.Microsecond) + h.rng.Int64N(int64(100*time.Microsecond))
}

// deliver brings what the register holds to a candidate.
func (h *herd) deliver(i int) {
	seen := h.reg
	h.queue.add(h.now+h.trip()+h.rng.Int64N(int64(len(h.cs))*int64(20*time.Microsecond)), func() {
		if s := &h.cs[i]; s.Phase != Idle && seen.Rev >= s.View.Rev {
			h.step(i, Event{Kind: Observed, Seen: seen})
		}
	})
}

func (h *herd) step(i int, ev Event) {
	h.m.ID = fmt.Sprint("c", i)
	ev.Rand, ev.Token, ev.Nonce = h.rng.Uint64(), fmt.Sprint(h.m.ID, "-", h.now), h.rng.Uint64()
	s, actions := h.m.Step(h.cs[i], ev, Instant{h.now, h.now})
	if h.keep != nil {
		h.keep(&s)
	}
	h.cs[i] = s
	for _, a := range actions {
		switch a.Kind {
		case Send:
			h.send(i, a)
		case Look:
			h.queue.add(h.now+2*h.trip(), func() { h.step(i, Event{Kind: Read, Op: a.Op, Seen: h.reg}) })
		case Promote:
			h.led, h.leader = h.now, i
		case Demote:
			h.queue.add(h.now, func() { h.step(i, Event{Kind: Drained}) })
		default:
		}
	}
	h.m.ID = fmt.Sprint("c", i)
	if wake := h.m.Wake(&h.cs[i]); wake != Never {
		h.queue.add(max(wake, h.now), func() {
			h.m.ID = fmt.Sprint("c", i)
			if h.m.Wake(&h.cs[i]) <= h.now {
				h.step(i, Event{Kind: Tick})
			}
		})
	}
}

func (h *herd) send(i int, a Action) {
	if a.Write == Acquire {
		h.claims++
	}
	h.busy = max(h.busy, h.now+h.trip()) + int64(50*time.Microsecond)
	h.queue.add(h.busy, func() {
		ev := Event{Kind: Written, Op: a.Op, Outcome: Conflict}
		if a.Expected == h.reg.Rev {
			kind := Held
			if a.Write == Release {
				kind = Vacant
			}
			h.reg = Seen{Kind: kind, Rev: h.reg.Rev + 1, Rec: a.Rec}
			ev.Outcome, ev.Rev = OK, h.reg.Rev
			for j := range h.cs {
				h.deliver(j)
			}
		}
		h.queue.add(h.now+h.trip(), func() { h.step(i, ev) })
	})
}

// run lets time pass.
func (h *herd) run(d time.Duration) {
	end := h.now + int64(d)
	for {
		at, do, ok := h.queue.next(end)
		if !ok {
			h.now = end
			return
		}
		h.now = at
		do()
	}
}

// successions are what some ends of terms in a row cost, in the median.
type successions struct {
	claims int
	took   time.Duration
}

// leave has one leader after another resign, or stop and be replaced.
func (h *herd) leave(stop bool) successions {
	return h.successions(func(i int) {
		if !stop {
			h.step(i, Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
			return
		}
		h.step(i, Event{Kind: StopRelease})
		h.queue.add(h.now+int64(100*time.Millisecond), func() { h.enter(i) })
	}, 200*time.Millisecond, 0)
}

// die makes one leader after another die and be replaced. The successor's delay
// is counted from the end of the lease.
func (h *herd) die() successions {
	return h.successions(func(i int) {
		h.cs[i] = State{}
		h.queue.add(h.now+int64(3*time.Second), func() { h.enter(i) })
	}, 4*time.Second, h.m.wait(h.m.TTL))
}

func (h *herd) successions(end func(leader int), settle, lease time.Duration) successions {
	const rounds = 15
	var claims []int
	var took []time.Duration
	for range rounds {
		h.claims = 0
		began := h.now
		if lease > 0 {
			began = h.cs[h.leader].Grant.Sent.Mono
		}
		end(h.leader)
		h.run(settle)
		claims, took = append(claims, h.claims), append(took, time.Duration(h.led-began)-lease)
	}
	slices.Sort(claims)
	slices.Sort(took)
	return successions{claims[rounds/2], took[rounds/2]}
}

// However many candidates a leader leaves behind, few of them claim, and soon.
// Two or three wait for nobody. The other runs show what for: without windows
// all claim at once, and with windows that nothing narrows two wait for nobody.
func TestFewClaimHoweverMany(t *testing.T) {
	rng := random(t)
	for _, n := range []int{2, 3, 20, 200} {
		h := newHerd(rng, n, nil)
		resign, stop, die := h.leave(false), h.leave(true), h.die()
		t.Logf("%d candidates: resignations %+v, stops %+v, crashes %+v", n, resign, stop, die)
		most, slowest := 60, 25*time.Millisecond
		if n <= 3 {
			most, slowest = 2, 2*time.Millisecond
		}
		for what, got := range map[string]successions{"resignations": resign, "stops": stop} {
			if got.claims > most || got.took > slowest {
				t.Errorf("%d candidates, %s: %+v", n, what, got)
			}
		}
		// With equal chances for all delays, 7 to 9 of 200 claim at a crash.
		if die.claims > 4 || die.took > 60*time.Millisecond {
			t.Errorf("%d candidates, crashes: %+v", n, die)
		}
	}
	none := newHerd(rng, 200, func(s *State) { s.Window = 0 }).leave(false)
	wide := newHerd(rng, 3, func(s *State) { s.Window = 30 * time.Millisecond }).leave(false)
	t.Logf("200 candidates without windows: %+v; 3 whose windows never narrow: %+v", none, wide)
	if none.claims < 90 || wide.took < 10*time.Millisecond {
		t.Errorf("windows are good for nothing here: 200 without: %+v, 3 whose windows never narrow: %+v", none, wide)
	}
}
