package demo

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devnats"
)

func TestTheHelpFitsEveryTerminalAndCanBeScrolledToItsEnd(t *testing.T) {
	for _, width := range []int{1, 20, 40, 80, 250} {
		for _, height := range []int{1, 5, 24, 80} {
			m := painted(3, width, height)
			m.key("?")
			for range 30 {
				lines := strings.Split(m.draw(), "\n")
				if len(lines) > max(height, 2) {
					t.Fatalf("%d×%d: %d lines", width, height, len(lines))
				}
				for _, l := range lines {
					if w := lipgloss.Width(l); w > width {
						t.Fatalf("%d×%d: a line is %d wide: %q", width, height, w, l)
					}
				}
				m.key("pgdown")
			}
			if text := ansi.Strip(m.draw()); width >= 80 && height > 1 && !strings.Contains(text, "an operator marked the group as gone") {
				t.Errorf("%d×%d: the end is not in sight:\n%s", width, height, text)
			}
		}
	}
}

func TestTheHelpIsShownAndHidden(t *testing.T) {
	m := painted(3, 80, 24)
	shown := func() bool { return strings.Contains(ansi.Strip(m.draw()), "crash: kill the leader") }
	m.key("?")
	if !shown() {
		t.Errorf("no help:\n%s", ansi.Strip(m.draw()))
	}
	if cmd := m.key("esc"); cmd != nil || shown() { // it would quit the demo otherwise
		t.Errorf("the help stays, or the demo ends:\n%s", ansi.Strip(m.draw()))
	}
	m.key("?")
	m.key("?")
	if shown() {
		t.Error("the help stays")
	}
}

// The reasons come from reason.go.
func TestTheHelpKnowsEveryReason(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../../reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known, count := reasonHelp(), 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for _, name := range spec.Names {
			if strings.HasPrefix(name.Name, "Reason") {
				count++
			}
		}
		return true
	})
	if count == 0 || len(known) != count {
		t.Errorf("%d reasons are explained, and there are %d", len(known), count)
	}
	var words []string
	for _, e := range known {
		if slices.Contains(words, e.word) || len(e.word) >= wordWidth {
			t.Errorf("%q is listed twice, or is too long", e.word)
		}
		words = append(words, e.word)
	}
}

func TestTheStartShowsItsProgress(t *testing.T) {
	for _, c := range []struct {
		rows, joined int
		led          bool
		want         string
	}{
		{3, 0, false, "3 of 10 workers started"},
		{10, 4, false, "4 of 10 workers connected"},
		{10, 10, false, "the first campaigns within 2s"},
		{10, 10, true, "nobody leads"},
	} {
		m := painted(c.rows, 80, 24)
		m.scene.workers, m.scene.joined, m.scene.led = 10, c.joined, c.led
		m.scene.leader, m.scene.ours = "", false
		if text := ansi.Strip(m.draw()); !strings.Contains(text, c.want) {
			t.Errorf("no %q in:\n%s", c.want, text)
		}
	}
}

// Two hundred processes take many seconds to start. The view has something to
// show before the first.
func TestWorkersAreStartedWhileTheDemoRuns(t *testing.T) {
	c := demoOf(t, "fail")
	c.Workers = 200
	st := newStage(c.plan())
	st.tell = func(Event) {}
	st.begin()
	if s := st.scene.Load(); s == nil || s.workers != 200 || len(s.rows) != 0 {
		t.Errorf("the first scene: %+v", s)
	}
	st.leaving = true
	st.bear()
	if st.unborn != 200 || len(st.processes) != 0 {
		t.Errorf("a demo that is left starts %d workers", len(st.processes))
	}
}

func TestTheServerIsRestartedWhileNobodyLeads(t *testing.T) {
	c := demoOf(t, "fail")
	st := newStage(c.plan())
	var events []Event
	st.tell = func(e Event) { events = append(events, e) }
	if err := st.strike(Restart); !errors.Is(err, errNoLeader) {
		t.Errorf("of another's server: %v", err)
	}
	srv, err := devnats.Start(0)
	if err != nil {
		t.Fatal(err)
	}
	st.server = srv
	defer func() {
		if err := st.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := st.strike(Crash); !errors.Is(err, errNoLeader) {
		t.Errorf("there is nobody to crash: %v", err)
	}
	if err := st.strike(Restart); err != nil {
		t.Fatal(err)
	}
	if err := st.strike(Restart); err == nil {
		t.Error("it was restarted twice at once")
	}
	(<-st.posted)() // it is back
	p := &process{id: "w1"}
	st.processes = append(st.processes, p)
	st.report(p, report{Kind: reportTransition, At: st.now() + int64(time.Second), To: leader.StateLeader, Reason: "absent", Term: 5})
	st.tellOutcomes(true)
	sum := st.summary()
	if sum.Terms != 1 || len(sum.Outcomes) != 1 || sum.Outcomes[0].Leader != "w1" || !strings.HasPrefix(sum.Outcomes[0].String(), "nobody → w1 ") {
		t.Errorf("%v", &sum)
	}
	said := ""
	for _, e := range events {
		said += e.String() + "\n"
	}
	for _, want := range []string{"goes down under nobody", "the server is back", "w1 leads, "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
}

// A fault that could not be done is waited for by nobody, and has no effect
// that the summary could report.
func TestAFaultThatCouldNotBeDoneIsOver(t *testing.T) {
	r := rehearse(1, 2)
	first := r.processes[0]
	r.report(first, reportsOf(truth{term: 5, from: r.clock, to: r.clock})[0])
	r.trial(Resign, first)
	r.report(first, report{Kind: reportFailed, At: r.clock, Text: "not the leader"})
	if r.open() {
		t.Error("it is still waited for")
	}
	r.report(r.processes[1], reportsOf(truth{term: 6, from: r.clock + 1, to: r.clock + 1})[0])
	r.tellOutcomes(true)
	if sum := r.summary(); !strings.Contains(sum.String(), "w1    was not hit: not the leader") || sum.Terms != 2 {
		t.Errorf("%v", &sum)
	}
}
