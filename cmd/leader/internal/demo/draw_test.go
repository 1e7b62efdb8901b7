package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// painted returns a view of n workers.
func painted(n, width, height int) *model {
	c := &Command{Workers: n, Key: "demo", Bucket: "demo-elections", TTL: 2 * time.Second}
	st := newStage(c.plan())
	st.url = "nats://127.0.0.1:40000"
	st.server = struct{ app.Server }{}
	s := &scene{
		now: 5e9, until: 6e9, leader: "w1", ours: true, term: 1795199376065603, samples: 12345,
		members: []row{{id: "a", state: "up to date"}, {id: "b", state: "does not answer", gone: true}, {id: "c", state: "12 writes behind"}},
	}
	for i := range n {
		r := row{id: fmt.Sprintf("w%d", i+1), state: "FOLLOWER", reason: "following", conn: "CONNECTED", seen: s.term}
		switch i {
		case 0:
			r.state, r.leading = "LEADER", true
		case n - 1:
			r.fault = Freeze
		}
		s.rows = append(s.rows, r)
	}
	m := &model{st: st, log: &journal{}, scene: s, width: width, height: height}
	for i := range 30 {
		m.lines = append(m.lines, Event{T: float64(i), Kind: EventNote, Text: strings.Repeat("wide ", 40)})
	}
	return m
}

func TestTheViewFitsEveryTerminal(t *testing.T) {
	for _, width := range []int{1, 20, 40, 69, 70, 80, 100, 250} {
		for _, height := range []int{1, 5, 10, 16, 24, 30, 80} {
			for _, workers := range []int{1, 2, 10, 100} {
				m := painted(workers, width, height)
				lines := strings.Split(m.draw(), "\n")
				if len(lines) > max(height, 2) {
					t.Errorf("%d×%d, %d workers: %d lines", width, height, workers, len(lines))
				}
				for _, l := range lines {
					if w := lipgloss.Width(l); w > width {
						t.Errorf("%d×%d, %d workers: a line is %d wide: %q", width, height, workers, w, l)
					}
				}
			}
		}
	}
}

func TestASmallTerminalShowsWhatMatters(t *testing.T) {
	m := painted(100, 80, 24)
	text := ansi.Strip(m.draw())
	for _, want := range []string{
		"nats://127.0.0.1:40000", "w1 leads", "1.00 s", "LEADER", "FROZEN", "more", "instants with two leaders: 0", "q quit",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestTwoLeadersShowInTheView(t *testing.T) {
	m := painted(3, 80, 24)
	m.scene.double = 7
	if text := ansi.Strip(m.draw()); !strings.Contains(text, "two leaders:  7 ") {
		t.Error(text)
	}
}

func TestTheLogHidesTheRaceOfFollowersUntilAsked(t *testing.T) {
	m := painted(3, 80, 24)
	m.lines = []Event{
		{Kind: EventTransition, Worker: "w2", From: "FOLLOWER", To: "CANDIDATE"},
		{Kind: EventTransition, Worker: "w2", From: "CANDIDATE", To: "LEADER", Term: 7},
	}
	if n := len(m.logged()); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	m.key("v")
	if n := len(m.logged()); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}
