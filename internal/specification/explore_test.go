package specification

import (
	"flag"
	"testing"
	"time"
)

var large = flag.Bool("spec.large", false, "explore the larger worlds, and replay more schedules")

// two is the world of a slow and a fast clock, whichever leads.
func two(name string) Bounds {
	return Bounds{Name: name, Candidates: 2, Slow: [3]bool{true, false, false}, Lag: 4, Trust: 1, Wait: 2}
}

// with returns b changed by f.
func with(b Bounds, f func(*Bounds)) Bounds {
	f(&b)
	return b
}

// smallWorlds are explored at each run, to the last state.
func smallWorlds() []Bounds {
	return []Bounds{
		with(two("handovers"), func(b *Bounds) { b.Graceful = true }),
		with(two("a crash"), func(b *Bounds) { b.Crashes = 1 }),
		with(two("an operator"), func(b *Bounds) { b.Operators = 1 }),
		with(two("a write repeated"), func(b *Bounds) { b.Repeats = 1 }),
		with(two("a write given up"), func(b *Bounds) { b.GivenUp = 1 }),
		with(two("a claim vacated"), func(b *Bounds) { b.Vacates = 1 }),
	}
}

// largeWorlds are the rest. Those with a bound stop there, and report that.
func largeWorlds() []Bounds {
	longer := func(b *Bounds) { b.Trust, b.Wait = 2, 4 }
	return []Bounds{
		with(two("longer windows: handovers"), func(b *Bounds) { longer(b); b.Graceful = true }),
		with(two("longer windows: an operator"), func(b *Bounds) { longer(b); b.Operators = 1 }),
		with(two("longer windows: a write repeated"), func(b *Bounds) { longer(b); b.Repeats = 1 }),
		with(two("longer windows: a crash"), func(b *Bounds) { longer(b); b.Crashes = 1 }),
		with(two("handovers, an operator"), func(b *Bounds) { b.Graceful, b.Operators = true, 1 }),
		with(two("handovers, a crash"), func(b *Bounds) { b.Graceful, b.Crashes = true, 1 }),
		with(two("an operator twice"), func(b *Bounds) { b.Operators = 2 }),
		with(two("both slow, handovers"), func(b *Bounds) { b.Slow[1], b.Graceful = true, true }),
		with(two("both fast, handovers"), func(b *Bounds) { b.Slow[0], b.Graceful = false, true }),
		with(two("nothing left out: handovers"), func(b *Bounds) { b.Exact, b.Graceful, b.MaxWorld = true, true, 8_000_000 }),
		with(two("nothing left out: an operator"), func(b *Bounds) { b.Exact, b.Operators, b.MaxWorld = true, 1, 8_000_000 }),
		with(two("rollback, all hear of it"), func(b *Bounds) { b.Rollbacks, b.Told, b.Revs = 1, true, 2 }),
		with(two("rollback, all cool down"), func(b *Bounds) { b.Rollbacks, b.Grace, b.Once, b.Revs, b.MaxWorld = 1, true, true, 3, 8_000_000 }),
		with(two("leads by what is lost"), func(b *Bounds) {
			b.Rollbacks, b.Grace, b.Once, b.Revs, b.MaxWorld, b.start = 1, true, true, 4, 8_000_000, leadsByWhatIsLost(1)
		}),
		with(two("a record vanishes, and vacancies are settled"), func(b *Bounds) {
			b.Expiries, b.Grace, b.Graceful, b.Lag, b.MaxWorld = 1, true, true, 2, 4_000_000
		}),
		with(two("leads by what has vanished"), func(b *Bounds) {
			b.Expiries, b.Grace, b.Graceful, b.Lag, b.Revs, b.MaxWorld, b.start = 2, true, true, 2, 7, 4_000_000, leadsByWhatIsGone
		}),
		with(two("three candidates"), func(b *Bounds) { b.Candidates, b.MaxWorld = 3, 8_000_000 }),
		with(two("three candidates, an operator"), func(b *Bounds) { b.Candidates, b.Operators, b.MaxWorld = 3, 1, 8_000_000 }),
	}
}

func TestEveryWorldOfTheSpecificationKeepsItsGuarantees(t *testing.T) {
	worlds := smallWorlds()
	switch {
	case *large:
		worlds = append(worlds, largeWorlds()...)
	case raceDetector, testing.Short():
		worlds = worlds[:1] // one goroutine explores: the race detector only slows it down
	}
	total := 0
	for _, b := range worlds {
		t.Run(b.Name, func(t *testing.T) {
			start := time.Now()
			r := Explore(b, Rules{})
			total += r.Worlds
			t.Logf("%d worlds, %d steps deep, in %v", r.Worlds, r.Depth, time.Since(start).Round(time.Millisecond))
			report(t, r)
			if r.Truncated {
				t.Logf("stopped at %d worlds: there are more", b.MaxWorld)
			}
			if r.Overlooked > 0 {
				t.Errorf("%d worlds have more writes in flight than fit", r.Overlooked)
			}
		})
	}
	t.Logf("%d worlds in all", total)
}

func report(t *testing.T, r Result) {
	t.Helper()
	if r.Broken == "" {
		return
	}
	t.Errorf("%s is broken:", r.Broken)
	for _, line := range r.Trace {
		t.Log(line)
	}
}

func TestEverySafeguardIsNeeded(t *testing.T) {
	graceful := with(two(""), func(b *Bounds) { b.Graceful = true })
	operator := with(two(""), func(b *Bounds) { b.Operators = 1 })
	repeat := with(two(""), func(b *Bounds) { b.Repeats = 1 })
	longer := func(b Bounds) Bounds { return with(b, func(b *Bounds) { b.Trust, b.Wait = 2, 4 }) }
	grace := with(two(""), func(b *Bounds) { b.Rollbacks, b.Grace, b.Once, b.Revs = 1, true, true, 5 })
	lost := with(longer(grace), func(b *Bounds) { b.Revs, b.start = 6, almostCool })
	gone := with(two(""), func(b *Bounds) {
		b.Expiries, b.Grace, b.Graceful, b.Lag, b.Revs, b.start = 1, true, true, 2, 6, leadsByWhatIsGone
	})
	told := with(two(""), func(b *Bounds) { b.Rollbacks, b.Told, b.Revs = 1, true, 2 })
	for name, c := range map[string]struct {
		world  Bounds
		rules  Rules
		breaks string
	}{
		"rule 1: trust one unit longer":            {two(""), Rules{TrustLonger: 1}, "G1"},
		"rule 1: trust one unit of two longer":     {longer(two("")), Rules{TrustLonger: 1}, "G1"},
		"rule 1: trust from the reply":             {two(""), Rules{TrustFromReply: true}, "G1"},
		"rule 3: late answers count":               {two(""), Rules{LateAnswersCount: true}, "G1"},
		"rule 4: read back as the latest attempt":  {longer(repeat), Rules{ReadBackFromLatest: true}, "G1"},
		"rule 5: one unit less":                    {two(""), Rules{WaitShorter: 1}, "G1"},
		"rule 5: one unit of four less":            {longer(two("")), Rules{WaitShorter: 1}, "G1"},
		"rule 5: a renewal does not start it over": {longer(two("")), Rules{WaitFromFirstEntry: true}, "G1"},
		"rule 5: claims expect nothing":            {two(""), Rules{BlindClaims: true}, "G1"},
		"rule 7: one unit less":                    {operator, Rules{MarkerWaitShorter: 1}, "G1"},
		"rule 7: the remaining wait at a marker":   {operator, Rules{MarkerKeepsWait: true}, "G1"},
		"rule 7: a marker is permission":           {operator, Rules{MarkerIsVacancy: true}, "G1"},
		"rule 7: garbage is permission":            {operator, Rules{GarbageIsVacancy: true}, "G1"},
		"rule 8: clears any marker":                {operator, Rules{ClearAnyMarker: true}, "G1"},
		"rule 9: released while working, G4":       {graceful, Rules{ReleaseBeforeStopped: true}, "G4"},
		"rule 9: released while working, G1":       {graceful, Rules{ReleaseBeforeStopped: true}, "G1"},
		"rule 10: back after a release":            {graceful, Rules{WayBackFromRelease: true}, "G1"},
		"rule 11: a new claim keeps the old term":  {graceful, Rules{OldTermKept: true}, "G2"},
		"rule 12: a regress means nothing":         {told, Rules{RegressIgnored: true}, "G1"},
		"cool-down: none":                          {grace, Rules{NoGrace: true}, "G1"},
		"cool-down: ended by an older renewal":     {lost, Rules{GraceByOldRenewal: true}, "G1"},
		"cool-down: any vacancy spares it":         {gone, Rules{AnyVacancySettles: true}, "G1"},
		"cool-down: an empty register spares it":   {gone, Rules{NothingSettles: true}, "G1"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			c.world.MaxWorld = 3_000_000
			r := Explore(c.world, c.rules, c.breaks)
			t.Logf("%d steps, among %d worlds, in %v", len(r.Trace), r.Worlds, time.Since(start).Round(time.Millisecond))
			if r.Broken != c.breaks {
				t.Errorf("no counterexample in %d worlds (truncated: %v)", r.Worlds, r.Truncated)
			}
		})
	}
}

// hear has candidate i's write applied, and acknowledged at once.
func hear(m *model, w *world, i int8) {
	for _, msg := range w.Writes {
		if msg.Used && msg.Pending && msg.Owner == i {
			msg.Applied = m.apply(w, msg.Content)
			m.answered(w, i, msg)
			w.Ghosts[i].Right = m.Trust
		}
	}
}

// leadsByWhatIsLost lets X lead by the nth renewal, which the register has lost
// with all before it. No other candidate has seen any of it.
func leadsByWhatIsLost(n int) func(*model, *world) {
	return func(m *model, w *world) {
		w.Candidates[0].HasSeen = true
		m.claim(w, 0)
		hear(m, w, 0)
		w.Candidates[0].Cool = 0
		for range n {
			m.renew(w, 0)
			hear(m, w, 0)
		}
		m.promote(w, 0)
		m.rollback(w, 0)
	}
}

// leadsByWhatIsGone lets X lead by a renewal that the register has dropped. No
// other candidate has seen any of it.
func leadsByWhatIsGone(m *model, w *world) {
	w.Candidates[0].HasSeen = true
	m.claim(w, 0)
	hear(m, w, 0)
	w.Candidates[0].Cool = 0
	m.renew(w, 0) // by which it is promoted
	hear(m, w, 0)
	w.Expiries, w.Gone = 1, true
}

// almostCool lets X lead by a renewal at revision 5 that is lost, while Y
// claimed at once, and has cooled down but for one tick. Its next but one
// renewal makes the revision that X's next one expects.
func almostCool(m *model, w *world) {
	leadsByWhatIsLost(4)(m, w)
	w.Candidates[1].HasSeen = true
	m.claim(w, 1)
	hear(m, w, 1)
	for range 2 {
		m.tick(w)
		m.renew(w, 1)
		hear(m, w, 1)
	}
	m.tick(w)
}
