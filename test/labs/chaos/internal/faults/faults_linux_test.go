package faults

import (
	"reflect"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/mutant"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// lines are what can be compared of a plan: functions cannot.
func lines(p schedule.Plan) (all []any) {
	all = append(all, p.Shape, p.TTL, p.Timeout, p.Candidates, p.Rates, p.ServerRate, p.Settings, p.Expiry)
	for _, e := range p.Episodes {
		all = append(all, e.Calm)
		for _, f := range e.Faults {
			all = append(all, f.Kind.Name, f.At, f.Length, f.Leader, f.Contender, f.Dice)
		}
	}
	return all
}

func TestEqualSeedsDrawEqualSchedules(t *testing.T) {
	for seed := range uint64(20) {
		a, b := lines(schedule.Draw(seed, 0, Kinds(), nil)), lines(schedule.Draw(seed, 0, Kinds(), nil))
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %v, and %v", seed, a, b)
		}
		if reflect.DeepEqual(a, lines(schedule.Draw(seed+uint64(len(schedule.Shapes)), 0, Kinds(), nil))) {
			t.Errorf("seeds %d and %d draw the same", seed, seed+uint64(len(schedule.Shapes)))
		}
	}
}

func TestAFullRoundDrawsEachKindThatSuitsItsShape(t *testing.T) {
	for seed := range 4 * uint64(len(schedule.Shapes)) {
		p := schedule.Draw(seed, 0, Kinds(), nil)
		drawn := p.Faults(len(p.Episodes))
		for _, k := range Kinds() {
			if p.Suits(k) != (drawn[k.Name] > 0) {
				t.Errorf("%s: %s was drawn %d times", p.Shape.Name, k.Name, drawn[k.Name])
			}
		}
	}
}

func TestFaultsByWhichTheStoreForgetsAreDrawnOnlyWhereLeadersCoolDown(t *testing.T) {
	for _, k := range Kinds() {
		if hides := strings.HasPrefix(k.Name, "key ") || k.Name == "bucket deleted" || k.Name == "store restored"; hides != k.Hides {
			t.Errorf("%s: Hides is %v", k.Name, k.Hides)
		}
		if k.Name != "bucket deleted" && k.Name != "store restored" && k.Name != "full disk" {
			continue
		}
		for _, s := range schedule.Shapes {
			if k.Suits(s) && !s.CoolsDown() {
				t.Errorf("%s on %s", k.Name, s.Name)
			}
		}
	}
}

func TestTheLineThatPlaysAScheduleAgainNamesFaultsThatThereAre(t *testing.T) {
	for _, k := range Kinds() {
		if err := Known([]string{k.Name}); err != nil || strings.Contains(k.Name, ",") { // it is an element of a list
			t.Errorf("%q: %v", k.Name, err)
		}
	}
	if Known([]string{"nothing of the kind"}) == nil {
		t.Error("no error")
	}
	p := schedule.Draw(12, 3, Kinds(), []string{"pause", "herd"})
	if want := `go run ./test/labs/chaos --seed 12 --rounds 1 --episodes 3 --only "pause,herd"`; p.Command() != want {
		t.Errorf("got %s", p.Command())
	}
	p.Rates, p.Mutant = nil, "one-shot"
	if want := `go run ./test/labs/chaos --mutant one-shot --seed 12 --no-clocks`; p.Command() != want {
		t.Errorf("got %s", p.Command())
	}
}

func TestAMutantsFaultsAreFaults(t *testing.T) {
	for _, m := range mutant.All {
		if err := Known(m.Faults); err != nil || len(m.Faults) == 0 {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}
