package results

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// kinds are some kinds of faults.
var kinds = []schedule.Kind{
	{Name: "kill", Does: "it is killed", Suits: schedule.Everywhere},
	{Name: "pause", Does: "it is stopped", Suits: schedule.Everywhere},
	{Name: "cut", Does: "its connections are closed", Suits: schedule.Everywhere},
	{Name: "slow disk", Does: "writes are slow", AtServers: true, Suits: schedule.OnDisk},
	{Name: "server kill", Does: "the server is killed", AtServers: true, Suits: schedule.Everywhere},
}

func drawn(seed uint64) schedule.Plan { return schedule.Draw(seed, 0, kinds, nil) }

// enoughOf is the outcome of a round in which everything that was planned
// happened.
func enoughOf(p schedule.Plan) Outcome {
	c := NewCounts()
	c.Played, c.faults, c.Elapsed = len(p.Episodes), p.Faults(len(p.Episodes)), time.Minute
	c.samples, c.terms, c.witnessed, c.writes, c.stale, c.atLeader, c.unknown, c.extremes = 1e5, 9, 9, 100, 10, 3, 1, 1
	return Outcome{Plan: p, Counts: c}
}

func TestARunInWhichTooLittleHappenedHasNotPassed(t *testing.T) {
	p := drawn(7)
	if err := (&Result{Full: true, Rounds: []Outcome{enoughOf(p)}}).Verdict(); err != nil {
		t.Fatal(err)
	}
	for says, spoil := range map[string]func(*Outcome){
		"samples":              func(o *Outcome) { o.Counts.samples = 100 },
		"has to lead":          func(o *Outcome) { o.Counts.terms = 2 },
		"as it was stored":     func(o *Outcome) { o.Counts.witnessed = 0 },
		"no stale write":       func(o *Outcome) { o.Counts.stale = 0 },
		"no write of a leader": func(o *Outcome) { o.Counts.writes = o.Counts.stale },
		`faults "kill"`:        func(o *Outcome) { o.Counts.faults["kill"]-- },
		"met a leader":         func(o *Outcome) { o.Counts.atLeader = 0 },
		"without an answer":    func(o *Outcome) { o.Counts.unknown = 0 },
		"ran at":               func(o *Outcome) { o.Counts.wrongClocks = []string{"the clock of c0-1 ran at 1000"} },
		"a slow and a fast":    func(o *Outcome) { o.Counts.extremes = 0 },
		"could not be held":    func(o *Outcome) { o.Trouble = errors.New("x") },
		"ended 1 of 1":         func(o *Outcome) { o.Stuck = errors.New("x") },
		"1 violations":         func(o *Outcome) { o.Violations = []history.Violation{{Guarantee: "G1"}} },
	} {
		o := enoughOf(p)
		spoil(&o)
		err := (&Result{Full: true, Rounds: []Outcome{o}}).Verdict()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	if err := (&Result{}).Verdict(); err == nil {
		t.Error("a run without rounds passed")
	}
}

// Many rounds together must show the events that a single round may lack.
func TestALongRunHasShownWhatIsRareInARound(t *testing.T) {
	p := drawn(7)
	p.Settings[0].Version = "1.0.0" // some are preferred to others
	p.Expiry.MaxAge = p.TTL         // the bucket drops records
	run := func(spoil func(*Outcome)) *Result {
		r := &Result{Full: true}
		for range manyRounds {
			o := enoughOf(p)
			o.Counts.resolved, o.Counts.margins, o.Counts.expired = 2, 2, 2
			o.Counts.ended = map[string]int{"unhealthy": 1, "outranked": 1}
			spoil(&o)
			r.Rounds = append(r.Rounds, o)
		}
		return r
	}
	if err := run(func(*Outcome) {}).Verdict(); err != nil {
		t.Fatal(err)
	}
	for says, spoil := range map[string]func(*Outcome){
		"found applied": func(o *Outcome) { o.Counts.resolved = 0 },
		"expired":       func(o *Outcome) { o.Counts.expired = 0 },
		"waited out":    func(o *Outcome) { o.Counts.margins = 0 },
		"was not well":  func(o *Outcome) { delete(o.Counts.ended, "unhealthy") },
		"is preferred":  func(o *Outcome) { delete(o.Counts.ended, "outranked") },
	} {
		if err := run(spoil).Verdict(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

func TestServersMayEndFewRounds(t *testing.T) {
	p := drawn(7)
	r := &Result{Rounds: []Outcome{{Plan: p, Counts: NewCounts(), Stuck: errors.New("no writes")}}}
	for range few - 1 {
		r.Rounds = append(r.Rounds, enoughOf(p))
	}
	if err := r.Verdict(); err != nil {
		t.Error(err)
	}
	if line := "| of them ended early by the servers | 1 |"; !strings.Contains(r.summary(), line) {
		t.Errorf("no %q in\n%s", line, r.summary())
	}
	r.Rounds[0].Violations = []history.Violation{{Guarantee: "G1"}}
	if r.Verdict() == nil {
		t.Error("a violation before the end of the round was not judged")
	}
	r.Rounds[0].Violations, r.Rounds[1].Stuck = nil, errors.New("no writes")
	if err := r.Verdict(); err == nil || !strings.Contains(err.Error(), "2 of 10 rounds") {
		t.Errorf("two of ten ended: %v", err)
	}
}

func TestARunOnOneClockReportsItAndNeedsNoSecond(t *testing.T) {
	p := drawn(7)
	p.Rates = nil
	o := enoughOf(p)
	o.Counts.extremes = 0
	r := &Result{Full: true, Rounds: []Outcome{o}, OneClock: errors.New("no such system")}
	if err := r.Verdict(); err != nil {
		t.Error(err)
	}
	if line := "| clocks that run at different rates | not covered: no such system |"; !strings.Contains(r.summary(), line) {
		t.Errorf("no %q in\n%s", line, r.summary())
	}
}

func TestAFaultThatCouldNotBeDoneIsNamedAndNotCounted(t *testing.T) {
	o := enoughOf(drawn(6))
	o.Counts.faults["slow disk"], o.Counts.skipped["slow disk"] = 0, "mount: operation not permitted"
	r := &Result{Kinds: kinds, Rounds: []Outcome{o}}
	if err := r.Verdict(); err != nil {
		t.Error(err)
	}
	if line := "| 0, not covered: mount: operation not permitted |"; !strings.Contains(r.faultTable(), line) {
		t.Errorf("no %q in\n%s", line, r.faultTable())
	}
}

// grown is a series of a value a minute for half an hour.
func grown(perHour, noise float64) *Series {
	rng := rand.New(rand.NewPCG(1, 2))
	s := &Series{Name: "x", Unit: 1, Limit: 3}
	for i := range 30 {
		at := float64(i) / 60
		s.Add(at, 100+perHour*at+noise*(2*rng.Float64()-1))
	}
	return s
}

func TestALeakWithEachFaultIsGrowth(t *testing.T) {
	for _, s := range []*Series{grown(60, 0), grown(60, 2), grown(-60, 2), grown(0, 2), grown(1, 0.5), grown(0, 0)} {
		b, _, n := s.slope()
		if n != 24 {
			t.Errorf("%d values", n)
		}
		if want := b > 30; s.grows() != want {
			t.Errorf("slope %v: grows %v", b, s.grows())
		}
	}
}

func TestGrowthOnlyInTheBeginningIsNotALeak(t *testing.T) {
	s := grown(0, 0)
	for i := range 6 {
		s.value[i] = float64(i)
	}
	if b, _, _ := s.slope(); math.Abs(b) > 1e-9 || s.grows() {
		t.Errorf("slope %v", b)
	}
}

func TestPagesHaveNoHolesAndNoLongLines(t *testing.T) {
	o := enoughOf(drawn(7))
	o.Counts.begun["vacant"], o.Counts.longest, o.Counts.after = 9, time.Second, "kill"
	r := Result{Rounds: []Outcome{o}}
	soak := SoakResult{Result: r, Series: []*Series{grown(0, 1)}}
	for name, write := range map[string]func(io.Writer, string) error{"chaos": r.Page, "soak": soak.Page} {
		var page strings.Builder
		if err := write(&page, "make "+name); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page.String(), "make "+name) || !strings.Contains(page.String(), "vacant 9") {
			t.Errorf("%s: the page lacks something:\n%s", name, page.String())
		}
		for line := range strings.Lines(page.String()) {
			if strings.Contains(line, "<no value>") || len([]rune(line)) > 121 && !strings.HasPrefix(line, "|") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
