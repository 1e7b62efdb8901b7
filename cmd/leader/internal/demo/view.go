package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
)

// terminal reports whether a live view can be drawn, and keys read.
func terminal(std app.Streams, env environ.Env) bool {
	in, ok := std.In.(*os.File)
	out, both := std.Out.(*os.File)
	return ok && both && term.IsTerminal(in.Fd()) && term.IsTerminal(out.Fd()) && env.Get("TERM") != "dumb"
}

// view plays the demo under a live view of the whole terminal, and prints the
// summary after it. Signals are left to ctx, since the demo has to take its
// workers with it. The summary is printed on the previous screen, where it
// stays.
func view(ctx context.Context, st *stage, std app.Streams) error {
	var log journal
	program := tea.NewProgram(&model{st: st, log: &log, width: 80, height: 24},
		tea.WithInput(std.In), tea.WithOutput(std.Out), tea.WithoutSignalHandler(), tea.WithFPS(30))
	// With room: the end of the demo has to reach the view, which ends Run,
	// before anybody takes this.
	played := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		played <- st.play(ctx, log.add)
		program.Send(playedMsg{})
	}()
	_, err := program.Run()
	cancel() // the view may have failed, and the demo must not go on without it
	err = errors.Join(<-played, err)
	if end, ok := log.end(); ok {
		fmt.Fprintln(std.Out, end)
	}
	return err
}

// A journal is the events so far. The stage adds to it and must not wait for
// the view. It is never shortened: events are few, and positions in it stay.
type journal struct {
	mu     sync.Mutex
	events []Event
}

func (j *journal) add(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func (j *journal) since(n int) []Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.events[n:len(j.events):len(j.events)]
}

// end returns the summary, if the demo came to it.
func (j *journal) end() (Event, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.events); n > 0 && j.events[n-1].Kind == EventEnd {
		return j.events[n-1], true
	}
	return Event{}, false
}

type (
	tickMsg   struct{}
	playedMsg struct{} // the demo is over
)

// frame is the time between two looks at the stage.
const frame = 50 * time.Millisecond

func nextFrame() tea.Cmd { return tea.Tick(frame, func(time.Time) tea.Msg { return tickMsg{} }) }

// A model is the view's state. It shows the stage's scene and the journal.
type model struct {
	st    *stage
	log   *journal
	scene *scene
	lines []Event // of the journal
	all   bool    // show every event, not just those about leadership
	back  int     // how many lines of the log are below the last one shown
	help  bool    // the help is shown in place of all else
	from  int     // the first line of the help that is shown

	width, height int
}

// Init begins the ticking.
func (m *model) Init() tea.Cmd { return nextFrame() }

// Update takes a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		m.look()
		return m, nextFrame()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		cmd := m.key(msg.String())
		return m, cmd
	case playedMsg:
		return m, tea.Quit
	}
	return m, nil
}

// look takes in what the stage has published since. Only this goroutine, the
// view's, touches the model.
func (m *model) look() {
	m.scene = m.st.scene.Load()
	m.lines = append(m.lines, m.log.since(len(m.lines))...)
}

// key obeys a key. While the help is shown, those that scroll are its own.
func (m *model) key(key string) tea.Cmd {
	if m.help && m.helpKey(key) {
		return nil
	}
	switch key {
	case "?", "h":
		m.help, m.from = true, 0
	case "q", "ctrl+c", "esc":
		return m.quit()
	case "v":
		m.all, m.back = !m.all, 0
	case "up", "k", "pgup":
		m.back = min(m.back+logStep(key), max(0, len(m.logged())-1))
	case "down", "j", "pgdown":
		m.back = max(0, m.back-logStep(key))
	case "end":
		m.back = 0
	default:
		for _, b := range bindings() {
			if b.key == key && b.fault != "" {
				return m.strike(b.fault)
			}
		}
	}
	return nil
}

// helpKey takes a key while the help is shown, and reports whether it was for
// that. Faults strike all the same.
func (m *model) helpKey(key string) bool {
	switch key {
	case "?", "h", "esc":
		m.help = false
	case "up", "k", "pgup":
		m.from = max(0, m.from-logStep(key))
	case "down", "j", "pgdown":
		m.from += logStep(key)
	default:
		return false
	}
	return true
}

func logStep(key string) int {
	if key == "pgup" || key == "pgdown" {
		return 10
	}
	return 1
}

// quit ends the demo; asked again, at once.
func (m *model) quit() tea.Cmd {
	return m.onStage(func() {
		if m.st.leaving {
			m.st.abort()
			return
		}
		m.st.leave()
	})
}

// strike has the stage do a fault. The reason that prevents it is shown among
// the events, since the user who pressed the key looks there.
func (m *model) strike(f Fault) tea.Cmd {
	return m.onStage(func() {
		if err := m.st.strike(f); err != nil {
			m.st.emit(Event{Kind: EventNote, Text: fmt.Sprintf("%s: %v", f, err)})
		}
	})
}

// onStage has f called by the stage's goroutine. The view does not wait for it.
func (m *model) onStage(f func()) tea.Cmd {
	return func() tea.Msg {
		m.st.post(f)
		return nil
	}
}

// logged are the events that are shown: all, or those about leadership.
func (m *model) logged() []Event {
	if m.all {
		return m.lines
	}
	var shown []Event
	for _, e := range m.lines {
		// Ten followers that race for a vacancy are twenty transitions.
		if e.Kind != EventTransition || e.Term != 0 {
			shown = append(shown, e)
		}
	}
	return shown
}
