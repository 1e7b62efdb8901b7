package machine

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var updateShapes = flag.Bool("update.shapes", false, "add the lists of actions that are seen to testdata/actions.txt")

// shapesFile holds the shape of every list of actions that Step was seen to
// emit. The runtime's own tests perform each of them.
const shapesFile = "testdata/actions.txt"

// shapes counts lists of actions by what they ask of the runtime.
type shapes map[string]int

// shapeOf describes in one line what a step asks of the runtime: the phases
// before and after, and the actions in order. The content of notes is left out,
// since notes ask for nothing.
func shapeOf(before, after *State, actions []Action) string {
	var b strings.Builder
	b.WriteString(before.Phase.String() + " to " + after.Phase.String() + ":")
	for _, a := range actions {
		switch a.Kind {
		case Send, Look:
			b.WriteString(" " + a.Kind.String() + "(" + a.Write.String() + ")")
		case Note:
			if !strings.HasSuffix(b.String(), " note") {
				b.WriteString(" note")
			}
		default:
			b.WriteString(" " + a.Kind.String())
		}
	}
	return b.String()
}

func (s shapes) saw(before, after *State, actions []Action) {
	if len(actions) > 0 {
		s[shapeOf(before, after, actions)]++
	}
}

func (s shapes) add(o shapes) {
	for k, n := range o {
		s[k] += n
	}
}

// knownShapes reads the file.
func knownShapes(t *testing.T) map[string]bool {
	t.Helper()
	b, err := testdata.ReadFile(shapesFile)
	if *updateShapes { // another test of this run may have added to it
		b, err = os.ReadFile(shapesFile)
	}
	if err != nil && !*updateShapes {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			known[line] = true
		}
	}
	return known
}

// demandKnown fails t for every shape that the file does not have: the runtime
// was never tested with it.
func (s shapes) demandKnown(t *testing.T) {
	t.Helper()
	known := knownShapes(t)
	if !*updateShapes {
		for shape := range s {
			if !known[shape] {
				t.Errorf("a list of actions that %s does not have (add it by -update.shapes): %s", shapesFile, shape)
			}
		}
		return
	}
	for shape := range s {
		known[shape] = true
	}
	text := "# Every list of actions that Step was seen to emit, written by\n" +
		"#   go test -run 'TestExplore$|TestSimulation$' -p 1 ./internal/machine -args -update.shapes\n" +
		strings.Join(slices.Sorted(maps.Keys(known)), "\n") + "\n"
	if err := os.WriteFile(shapesFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What Step emits in answer to events that no world has is known, too, as far
// as no term begins and ends in one step.
func TestNoStepBeginsATermOnlyToEndIt(t *testing.T) {
	r := random(t)
	for range 300 {
		m := randomMachine(r)
		s, now := State{}, int64(0)
		for range 80 {
			now += int64(r.IntN(4))
			ev := randomEvent(r, s)
			if r.IntN(8) == 0 {
				ev.Kind = []EventKind{ConnDown, ConnUp}[r.IntN(2)]
			}
			before := s
			var actions []Action
			s, actions = m.Step(s, ev, Instant{now, now})
			if shape := shapeOf(&before, &s, actions); strings.Contains(shape, "promote") && strings.Contains(shape, "demote") {
				t.Fatalf("%v: %s", ev.Kind, shape)
			}
		}
	}
}
