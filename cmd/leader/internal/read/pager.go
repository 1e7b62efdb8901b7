package read

import (
	"fmt"
	"io"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// A pager shows lines on the whole terminal. The first line is a head, which
// stays when the other lines scroll.
type pager struct {
	bare          bool // there is no head
	lines         []string
	from          int // how many lines are scrolled away
	width, height int
}

// A screenful replaces what the pager shows.
type screenful []string

// newPager returns the program of a pager, which ends with q or Ctrl-C where
// the standard input is a terminal. Signals are left to the caller.
func newPager(std app.Streams, bare bool) *tea.Program {
	var keys io.Reader
	if in, ok := std.In.(*os.File); ok && term.IsTerminal(in.Fd()) {
		keys = in
	}
	return tea.NewProgram(&pager{bare: bare, width: 80, height: 24}, tea.WithInput(keys), tea.WithOutput(std.Out), tea.WithoutSignalHandler())
}

// Init implements [tea.Model].
func (*pager) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (p *pager) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case screenful:
		p.lines = msg
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return p, tea.Quit
		case "down", "j":
			p.from++
		case "up", "k":
			p.from--
		case "pgdown", "space":
			p.from += p.room()
		case "pgup", "b":
			p.from -= p.room()
		case "home", "g":
			p.from = 0
		case "end", "G":
			p.from = len(p.lines)
		}
	}
	p.from = max(0, min(p.from, len(p.lines)-p.heads()-p.room()))
	return p, nil
}

func (p *pager) heads() int {
	if p.bare {
		return 0
	}
	return 1
}

// room returns the number of lines between the head and the last line, which
// counts the hidden ones.
func (p *pager) room() int { return max(1, p.height-1-p.heads()) }

// more returns the last line, with the number of hidden lines above and below.
func more(before, after int) string {
	return fmt.Sprintf("… %d more above, %d below (arrows, Page Up and Down; q ends)", before, after)
}

// View implements [tea.Model].
func (p *pager) View() tea.View {
	var shown []string
	if len(p.lines) > 0 {
		rest := p.lines[p.heads()+p.from:]
		shown = append(shown, p.lines[:p.heads()]...)
		shown = append(shown, rest[:min(len(rest), p.room())]...)
		if hidden := len(p.lines) - len(shown); hidden > 0 {
			shown = append(shown, more(p.from, hidden-p.from))
		}
	}
	for i, line := range shown {
		shown[i] = ansi.Truncate(line, p.width, "…")
	}
	v := tea.NewView(strings.Join(shown, "\n"))
	v.AltScreen = true
	return v
}
