package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/seed-ff2cb582/leader"
)

// A look is the styles of the view. Each colour has a contrast of at least 4.5
// to white and to black alike, so that it reads on any background; important
// things are shown in words as well, for NO_COLOR.
type look struct {
	good, bad, warn, info, quiet, strong, chip, alarm lipgloss.Style
}

func newLook() look {
	fg := func(c string) lipgloss.Style { return lipgloss.NewStyle().Foreground(lipgloss.Color(c)) }
	const green, red, amber, blue, gray = "#1d8740", "#df2f22", "#a46904", "#1f75d8", "#71767f"
	return look{
		good: fg(green), bad: fg(red), warn: fg(amber), info: fg(blue), quiet: fg(gray),
		strong: lipgloss.NewStyle().Bold(true),
		chip:   lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("#ffffff")).Background(lipgloss.Color(green)),
		alarm:  lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("#ffffff")).Background(lipgloss.Color(red)),
	}
}

// A binding is a key and what it does.
type binding struct {
	key, name, short string
	fault            Fault
}

func bindings() []binding {
	return []binding{
		{"c", "crash", "crash", Crash}, {"f", "freeze", "freeze", Freeze}, {"n", "cut network", "cut", Cut},
		{"r", "resign", "resign", Resign}, {"d", "delete key", "delete", Delete}, {"s", "restart server", "restart", Restart},
		{"m", "kill member", "kill", Kill}, {"b", "bring back", "back", Return},
		{"v", "all events", "all", ""}, {"?", "help", "help", ""}, {"q", "quit", "quit", ""},
	}
}

// View draws the whole terminal.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	v.WindowTitle = "leader demo"
	return v
}

// draw fills exactly the height, and no line is wider than the width.
func (m *model) draw() string {
	l := newLook()
	switch {
	case m.scene == nil:
		return l.quiet.Render(" starting …")
	case m.help:
		return m.drawHelp(l)
	}
	head := slices.Concat([]string{m.title(l), ""}, m.leaderLines(l), m.memberLine(l))
	foot := []string{m.verdict(l), m.keys(l)}
	room := m.height - len(head) - len(foot)
	table := m.table(l, room-minLog-3)
	body := slices.Concat([]string{""}, table, []string{""})
	if rest := room - len(body); rest > 0 {
		body = append(body, m.journal(l, rest-1)...)
		body = append(body, "")
	}
	lines := slices.Concat(head, body)
	lines = append(lines[:min(len(lines), max(0, m.height-len(foot)))], foot...)
	clip := lipgloss.NewStyle().MaxWidth(m.width)
	for i := range lines {
		lines[i] = clip.Render(" " + lines[i])
	}
	return strings.Join(lines, "\n")
}

// minLog is how many lines the log keeps when the workers need more than there
// are.
const minLog = 4

// title names what is played where. A narrow terminal still shows its
// beginning.
func (m *model) title(l look) string {
	c := m.st.plan
	where := m.st.url
	if n := len(m.st.members); n > 0 {
		where = fmt.Sprintf("a quorum of %d servers", n)
	}
	title := l.strong.Render("leader demo") + "  " + l.info.Render(where) +
		l.quiet.Render(fmt.Sprintf("  group %s · TTL %v", c.Key, c.TTL))
	bucket := l.quiet.Render(" · bucket " + c.Bucket)
	if c.Store != "" || lipgloss.Width(title+bucket) > m.width-2 {
		return title
	}
	return title + bucket
}

// leaderLines are the two lines about who leads. There are always two, so that
// the table below does not jump.
func (m *model) leaderLines(l look) []string {
	s := m.scene
	switch {
	case s.ours:
		return []string{
			l.chip.Render(fmt.Sprintf(" %s leads ", s.leader)) + fmt.Sprintf("  for %s", clock(s.since)) +
				l.quiet.Render(fmt.Sprintf("  term %d", s.term)),
			m.trust(l),
		}
	case s.leader != "":
		return []string{
			l.strong.Render(s.leader+" leads") + l.quiet.Render(fmt.Sprintf(", not a worker of this demo  term %d", s.term)),
			l.quiet.Render("trust  known to it alone"),
		}
	case s.silent != "":
		return []string{
			l.warn.Bold(true).Render("nobody leads") + l.quiet.Render("  the others wait out the lease of "+s.silent),
			m.trust(l),
		}
	case !s.led && !s.leaving:
		return []string{l.strong.Render("starting") + l.quiet.Render("  "+s.starting(m.st.plan)), l.quiet.Render("trust  nobody has led yet")}
	default:
		return []string{l.warn.Bold(true).Render("nobody leads"), m.trust(l)}
	}
}

// memberLine is the line about the members of a quorum.
func (m *model) memberLine(l look) []string {
	if len(m.scene.members) == 0 {
		return nil
	}
	var parts []string
	for _, r := range m.scene.members {
		style := l.quiet
		if r.gone {
			style = l.warn
		}
		parts = append(parts, l.strong.Render(r.id)+" "+style.Render(r.state))
	}
	return []string{l.quiet.Render("members ") + " " + strings.Join(parts, l.quiet.Render(" · "))}
}

// starting describes what a demo is still waiting for: with two hundred workers
// it takes many seconds.
func (s *scene) starting(p plan) string {
	switch {
	case len(s.rows) < s.workers:
		return fmt.Sprintf("%d of %s started", len(s.rows), plural(s.workers, "worker"))
	case s.joined < s.workers:
		return fmt.Sprintf("%d of %s connected", s.joined, plural(s.workers, "worker"))
	case !p.NoSplay:
		return fmt.Sprintf("%s connected; the first campaigns within %v", plural(s.workers, "worker"), p.TTL)
	default:
		return plural(s.workers, "worker") + " connected; they wait for the bucket"
	}
}

// trust draws what is left of the trust window. The time goes by on the
// machine's clock, so that the bar moves between two reports.
func (m *model) trust(l look) string {
	window := m.st.window()
	left := max(0, time.Duration(m.scene.until-m.scene.now))
	width := min(50, max(8, m.width-36))
	full := min(width, int(float64(width)*float64(left)/float64(window)+0.5))
	style := l.good
	switch {
	case left < window/5:
		style = l.bad
	case left < window/2:
		style = l.warn
	}
	return "trust  " + style.Render(strings.Repeat("█", full)) + l.quiet.Render(strings.Repeat("░", width-full)) +
		fmt.Sprintf("  %4.2f s", left.Seconds()) + l.quiet.Render(fmt.Sprintf(" of %.2f s", window.Seconds()))
}

func clock(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Truncate(time.Second).String()
}

// A column of the table of workers.
type column struct {
	name  string
	width int
	cell  func(r row, l look) (string, lipgloss.Style)
}

// columns are those for which there is room.
func columns(width int) []column {
	cols := []column{
		{"WORKER", 9, func(r row, l look) (string, lipgloss.Style) { return r.id, l.emphasis(r) }},
		{"STATE", 11, stateCell},
		{"REASON", 15, ofLiving(func(r row) string { return r.reason })},
		{"TERM SEEN", 18, ofLiving(func(r row) string { return number(r.seen) })},
		{"CONNECTION", 14, connCell},
		{"IsLeader", 8, leaderCell},
	}
	if width < 70 { // what a narrow terminal can do without
		cols = slices.Delete(cols, 2, 4)
	}
	return cols
}

// ofLiving leaves a cell empty whose worker is gone: its last report no longer
// holds.
func ofLiving(say func(row) string) func(row, look) (string, lipgloss.Style) {
	return func(r row, l look) (string, lipgloss.Style) {
		if r.gone || r.fault == Crash {
			return "-", l.quiet
		}
		return say(r), l.quiet
	}
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func (l look) emphasis(r row) lipgloss.Style {
	if r.leading {
		return l.good.Bold(true)
	}
	return lipgloss.NewStyle()
}

func stateCell(r row, l look) (string, lipgloss.Style) {
	switch {
	case r.fault == Crash || r.gone:
		return "KILLED", l.bad
	case r.fault == Freeze:
		return "FROZEN", l.warn
	case r.state == "":
		return "starting", l.quiet
	case r.state == leader.StateCandidate, r.state == leader.StateDemoted:
		return r.state, l.warn
	default:
		return r.state, l.emphasis(r)
	}
}

// connCell shows CUT OFF before the worker itself notices: its connection looks
// well until it misses an answer.
func connCell(r row, l look) (string, lipgloss.Style) {
	switch {
	case r.gone || r.fault == Crash || r.conn == "":
		return "-", l.quiet
	case r.fault == Cut:
		return "CUT OFF", l.warn
	case r.conn != "CONNECTED":
		return r.conn, l.warn
	default:
		return r.conn, l.quiet
	}
}

func leaderCell(r row, l look) (string, lipgloss.Style) {
	switch {
	case r.gone || r.fault == Crash || r.fault == Freeze:
		return "-", l.quiet // it cannot be asked
	case r.leading:
		return "yes", l.good.Bold(true)
	default:
		return "no", l.quiet
	}
}

// table draws the workers in at most height lines.
func (m *model) table(l look, height int) []string {
	rows := m.scene.rows
	cols := columns(m.width)
	var head strings.Builder
	for _, c := range cols {
		fmt.Fprintf(&head, "%-*s", c.width, c.name)
	}
	lines := []string{l.quiet.Render(head.String())}
	hidden := 0
	if limit := max(1, height-1); len(rows) > limit {
		rows, hidden = interesting(rows, limit-1), len(rows)-limit+1
	}
	for _, r := range rows {
		var b strings.Builder
		for _, c := range cols {
			text, style := c.cell(r, l)
			b.WriteString(style.Render(fmt.Sprintf("%-*s", c.width, text)))
		}
		lines = append(lines, b.String())
	}
	if hidden > 0 {
		lines = append(lines, l.quiet.Render(fmt.Sprintf("… and %d more", hidden)))
	}
	return lines
}

// interesting picks the n most informative rows, in their order.
func interesting(rows []row, n int) []row {
	rank := func(r row) int {
		switch {
		case r.leading:
			return 0
		case r.fault != "" || r.gone:
			return 1
		default:
			return 2
		}
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(rows[a]) - rank(rows[b]) })
	order = order[:min(n, len(order))]
	slices.Sort(order)
	picked := make([]row, len(order))
	for i, at := range order {
		picked[i] = rows[at]
	}
	return picked
}

// journal draws the end of the log, or what was scrolled to, in exactly height
// lines.
func (m *model) journal(l look, height int) []string {
	if height <= 0 {
		return nil
	}
	events := m.logged()
	end := len(events) - min(m.back, max(0, len(events)-height))
	lines := make([]string, 0, height)
	for _, e := range events[max(0, end-height):end] {
		if e.Kind == EventEnd || e.Kind == EventBegin { // the title shows it
			continue
		}
		lines = append(lines, l.quiet.Render(fmt.Sprintf("%8.3f  ", e.T))+l.event(e).Render(e.String()))
	}
	for len(lines) < height {
		lines = append(lines, "")
	}
	return lines
}

// event is how an event is drawn. Those about leadership are to be found among
// the others, and two leaders at once.
func (l look) event(e Event) lipgloss.Style {
	switch e.Kind {
	default:
		return lipgloss.NewStyle()
	case EventFault:
		return l.warn.Bold(true)
	case EventFailover, EventKept:
		return l.good
	case EventTwoLeaders:
		return l.alarm
	case EventHealed, EventWoke:
		return l.info
	case EventTransition:
		if e.Term != 0 {
			return lipgloss.NewStyle()
		}
		return l.quiet
	case EventExit:
		return l.bad
	case EventJoin, EventBegin:
		return l.quiet
	}
}

// verdict is the line that must never change.
func (m *model) verdict(l look) string {
	s := m.scene
	count := l.good.Bold(true).Render("0")
	if s.double > 0 {
		count = l.alarm.Render(fmt.Sprintf(" %d ", s.double))
	}
	line := "instants with two leaders: " + count + l.quiet.Render(fmt.Sprintf(" (of %s samples)", thousands(s.samples)))
	extra := ""
	switch {
	case s.leaving:
		extra = l.warn.Render("stopping …")
	case s.server != "":
		extra = l.warn.Render(s.server)
	case s.last != nil && s.last.Kept:
		extra = l.quiet.Render(fmt.Sprintf("%s: term kept", s.last.Fault))
	case s.last != nil:
		extra = l.quiet.Render(fmt.Sprintf("%s: %s to failover", s.last.Fault, ms(s.last.Took)))
	}
	gap := m.width - 2 - lipgloss.Width(line) - lipgloss.Width(extra)
	if gap < 2 {
		return line
	}
	return line + strings.Repeat(" ", gap) + extra
}

// keys draws what can be pressed, short where the terminal is narrow.
func (m *model) keys(l look) string {
	var long, short []string
	for _, b := range bindings() {
		if !m.st.offers(b.fault) {
			continue
		}
		name := b.name
		if b.key == "v" && m.all {
			name = "fewer events"
		}
		long = append(long, l.strong.Render(b.key)+" "+name)
		short = append(short, l.strong.Render(b.key)+" "+b.short)
	}
	line := strings.Join(long, "  ")
	if lipgloss.Width(line) > m.width-2 {
		line = strings.Join(short, " ")
	}
	return line
}
