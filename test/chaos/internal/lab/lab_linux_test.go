package lab

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/mutant"
)

// schedule is what can be compared of a plan: functions cannot.
func schedule(p plan) (lines []any) {
	lines = append(lines, p.shape, p.ttl, p.timeout, p.candidates, p.rates)
	for _, e := range p.episodes {
		lines = append(lines, e.calm)
		for _, f := range e.faults {
			f.kind.run, f.kind.suits = nil, nil
			lines = append(lines, f.kind.name, f.at, f.length, f.leader, f.seat, f.dice)
		}
	}
	return lines
}

func TestEqualSeedsDrawEqualSchedules(t *testing.T) {
	for seed := range uint64(20) {
		a, b := schedule(draw(seed, 0, nil)), schedule(draw(seed, 0, nil))
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %v, and %v", seed, a, b)
		}
		if reflect.DeepEqual(a, schedule(draw(seed+uint64(len(shapes)), 0, nil))) {
			t.Errorf("seeds %d and %d draw the same", seed, seed+uint64(len(shapes)))
		}
	}
}

func TestAFullRoundDrawsEachKindThatSuitsItsShape(t *testing.T) {
	for seed := range uint64(len(shapes)) {
		p := draw(seed, 0, nil)
		drawn := p.faults(len(p.episodes))
		for _, k := range kinds {
			if k.suits(p.shape) != (drawn[k.name] > 0) {
				t.Errorf("%s: %s was drawn %d times", p.shape.name, k.name, drawn[k.name])
			}
		}
	}
}

func TestFaultsByWhichTheStoreForgetsAreDrawnOnlyWhereLeadersCoolDown(t *testing.T) {
	for _, k := range kinds {
		if k.name != "bucket deleted" && k.name != "store restored" && k.name != "full disk" {
			continue
		}
		for _, s := range shapes {
			if k.suits(s) && !s.coolsDown() {
				t.Errorf("%s on %s", k.name, s.name)
			}
		}
	}
}

// enoughOf is the outcome of a round in which everything that was planned
// happened.
func enoughOf(p plan) outcome {
	c := newCounts()
	c.played, c.faults, c.elapsed = len(p.episodes), p.faults(len(p.episodes)), time.Minute
	c.samples, c.terms, c.witnessed, c.writes, c.stale, c.atLeader, c.unknown, c.extremes = 1e5, 9, 9, 100, 10, 3, 1, 1
	return outcome{plan: p, counts: c}
}

func TestARunInWhichTooLittleHappenedHasNotPassed(t *testing.T) {
	p := draw(7, 0, nil)
	if err := (&Result{Full: true, Rounds: []outcome{enoughOf(p)}}).Verdict(); err != nil {
		t.Fatal(err)
	}
	for says, spoil := range map[string]func(*outcome){
		"samples":              func(o *outcome) { o.counts.samples = 100 },
		"has to lead":          func(o *outcome) { o.counts.terms = 2 },
		"as it was stored":     func(o *outcome) { o.counts.witnessed = 0 },
		"no stale write":       func(o *outcome) { o.counts.stale = 0 },
		"no write of a leader": func(o *outcome) { o.counts.writes = o.counts.stale },
		`faults "kill"`:        func(o *outcome) { o.counts.faults["kill"]-- },
		"met a leader":         func(o *outcome) { o.counts.atLeader = 0 },
		"without an answer":    func(o *outcome) { o.counts.unknown = 0 },
		"ran at":               func(o *outcome) { o.counts.wrongClocks = []string{"the clock of c0-1 ran at 1000"} },
		"a slow and a fast":    func(o *outcome) { o.counts.extremes = 0 },
		"could not be held":    func(o *outcome) { o.trouble = errors.New("x") },
		"1 violations":         func(o *outcome) { o.violations = []history.Violation{{Guarantee: "G1"}} },
	} {
		o := enoughOf(p)
		spoil(&o)
		err := (&Result{Full: true, Rounds: []outcome{o}}).Verdict()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	if err := (&Result{}).Verdict(); err == nil {
		t.Error("a run without rounds passed")
	}
}

func TestARunOnOneClockSaysSoAndIsNotAskedForTwo(t *testing.T) {
	p := draw(7, 0, nil)
	p.rates = nil
	o := enoughOf(p)
	o.counts.extremes = 0
	r := &Result{Full: true, Rounds: []outcome{o}, oneClock: errors.New("no such system")}
	if err := r.Verdict(); err != nil {
		t.Error(err)
	}
	if line := "| clocks that run at different rates | not covered: no such system |"; !strings.Contains(r.summary(), line) {
		t.Errorf("no %q in\n%s", line, r.summary())
	}
}

func TestAFaultThatCouldNotBeDoneIsNamedAndNotCounted(t *testing.T) {
	o := enoughOf(draw(6, 0, nil))
	o.counts.faults["slow disk"], o.counts.skipped["slow disk"] = 0, "mount: operation not permitted"
	r := &Result{Rounds: []outcome{o}}
	if err := r.Verdict(); err != nil {
		t.Error(err)
	}
	if line := "| 0, not covered: mount: operation not permitted |"; !strings.Contains(r.faultTable(), line) {
		t.Errorf("no %q in\n%s", line, r.faultTable())
	}
}

// grown is a series of a value a minute for half an hour.
func grown(perHour, noise float64) *series {
	rng := rand.New(rand.NewPCG(1, 2))
	s := &series{name: "x", unit: 1, limit: 3}
	for i := range 30 {
		at := float64(i) / 60
		s.at, s.value = append(s.at, at), append(s.value, 100+perHour*at+noise*(2*rng.Float64()-1))
	}
	return s
}

func TestWhatLeaksWithEachFaultGrows(t *testing.T) {
	for _, s := range []*series{grown(60, 0), grown(60, 2), grown(-60, 2), grown(0, 2), grown(1, 0.5), grown(0, 0)} {
		b, _, n := s.slope()
		if n != 24 {
			t.Errorf("%d values", n)
		}
		if want := b > 30; s.grows() != want {
			t.Errorf("slope %v: grows %v", b, s.grows())
		}
	}
}

func TestWhatGrowsOnlyInTheBeginningIsNoLeak(t *testing.T) {
	s := grown(0, 0)
	for i := range 6 {
		s.value[i] = float64(i)
	}
	if b, _, _ := s.slope(); math.Abs(b) > 1e-9 || s.grows() {
		t.Errorf("slope %v", b)
	}
}

func TestADiskCanBeSlowAndFull(t *testing.T) {
	dir := t.TempDir()
	d, err := newDisk(filepath.Join(dir, "backing"), filepath.Join(dir, "mount"))
	if err != nil {
		t.Skipf("no right to mount: %v", err)
	}
	defer d.close()
	file := filepath.Join(dir, "mount", "file")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	const delay = 50 * time.Millisecond
	d.slow(delay)
	begun := time.Now()
	if err := os.WriteFile(file, []byte("again"), 0o600); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < delay {
		t.Errorf("a write to the slow disk took %v", took)
	}
	d.slow(0)
	if err := d.fill(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mount", "more"), make([]byte, 1<<20), 0o600); err == nil {
		t.Error("the full disk takes more")
	}
	if err := d.empty(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Errorf("the disk has room again: %v", err)
	}
}

func TestPagesHaveNoHolesAndNoLongLines(t *testing.T) {
	o := enoughOf(draw(7, 0, nil))
	o.counts.begun["vacant"], o.counts.longest, o.counts.after = 9, time.Second, "kill"
	r := Result{Rounds: []outcome{o}}
	soak := SoakResult{Result: r, series: []*series{grown(0, 1)}}
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

func TestTheLineThatPlaysAScheduleAgainNamesFaultsThatThereAre(t *testing.T) {
	for _, k := range kinds {
		if err := Known([]string{k.name}); err != nil || strings.Contains(k.name, ",") { // it stands in a list
			t.Errorf("%q: %v", k.name, err)
		}
	}
	if Known([]string{"nothing of the kind"}) == nil {
		t.Error("no error")
	}
	p := draw(12, 3, []string{"pause", "herd"})
	if want := `go run ./test/chaos --seed 12 --rounds 1 --episodes 3 --only "pause,herd"`; p.command() != want {
		t.Errorf("got %s", p.command())
	}
	p.rates, p.mutant = nil, "one-shot"
	if want := `go run ./test/chaos --mutant one-shot --seed 12 --no-clocks`; p.command() != want {
		t.Errorf("got %s", p.command())
	}
}

func TestAMutantsFaultsAreFaults(t *testing.T) {
	for _, m := range mutant.All {
		if err := Known(m.Faults); err != nil || len(m.Faults) == 0 {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}
