package demo

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/seed-ff2cb582/leader"
)

// An entry of the help is a word of the view and what it means.
type entry struct{ word, means string }

// keyHelp describes the keys.
func keyHelp(st *stage) []entry {
	all := []entry{
		{"c", "crash: kill the leader (SIGKILL); another worker takes its place later"},
		{"f", "freeze: stop the leader in mid-run (SIGSTOP) for 2 × TTL"},
		{"n", "cut network: nothing passes between the leader and the server, for 2 × TTL"},
		{"r", "resign: the leader stops its work and hands over"},
		{"d", "delete key: as an operator's nats kv del, under the leader"},
		{"s", "restart server: also while nobody leads"},
		{"m", "kill member: a server of the quorum stops. Somebody leads as long as two of three are left"},
		{"b", "bring back: a member that was killed starts again"},
		{"v", "all events, or only those about leadership"},
		{"↑ ↓", "scroll the events; End goes back to the latest"},
		{"q", "quit; again: at once"},
	}
	return slices.DeleteFunc(all, func(e entry) bool {
		return slices.ContainsFunc(bindings(), func(b binding) bool { return b.key == e.word && !st.offers(b.fault) })
	})
}

// lineHelp describes the lines of the view.
func lineHelp() []entry {
	return []entry{
		{"trust", "how long IsLeader may say yes without another renewal. The others wait longer than that"},
		{"term", "a number that only grows: give it to what must refuse a stale leader"},
		{"two leaders", "IsLeader is asked every 2 ms in each worker; what counts is proven, not guessed"},
		{leader.StateInit, "its process runs, and it has not begun to take part"},
		{leader.StateFollower, "another leads, and it waits"},
		{leader.StateCandidate, "it claims the record, or is about to"},
		{leader.StateLeader, "its claim was acknowledged, and its trust window is open"},
		{leader.StateDemoted, "it led, and its work is ending"},
	}
}

// reasonHelp explains the reasons of changes, in the order in which a user
// meets them.
func reasonHelp() []entry {
	of := func(r leader.Reason, means string) entry { return entry{string(r), means} }
	return []entry{
		of(leader.ReasonStarted, "it began to take part"),
		of(leader.ReasonAbsent, "there is no record: nobody has led yet"),
		of(leader.ReasonFollow, "another holds the record"),
		of(leader.ReasonVacant, "the leader before released the record"),
		of(leader.ReasonOffered, "the leader before gave it the record without a release, as earlier versions did"),
		of(leader.ReasonExpired, "the leader before fell silent, and its lease ran out"),
		of(leader.ReasonUnowned, "the record was deleted or unreadable for a whole lease"),
		of(leader.ReasonRemnant, "the record is its own, of an earlier claim"),
		of(leader.ReasonLostRace, "another was faster"),
		of(leader.ReasonStandBack, "it left on purpose, and lets the others go first"),
		of(leader.ReasonResigned, "its program called Resign"),
		of(leader.ReasonTrustExpired, "no renewal was acknowledged before its trust window closed"),
		of(leader.ReasonSuperseded, "another's record took the place of its own"),
		of(leader.ReasonDeleted, "somebody deleted the record"),
		of(leader.ReasonOverwritten, "somebody wrote over the record"),
		of(leader.ReasonLateGrant, "the claim was acknowledged too late to lead by it"),
		of(leader.ReasonStopped, "it was stopped"),
		of(leader.ReasonTransferred, "it handed over to a named successor"),
		of(leader.ReasonSteppedDown, "an operator asked it to leave"),
		of(leader.ReasonPaused, "an operator paused the group"),
		of(leader.ReasonDisconnected, "its connection was down for too long"),
		of(leader.ReasonRetriesSpent, "too many renewals in a row failed"),
		of(leader.ReasonUnhealthy, "its health checks failed"),
		of(leader.ReasonOutranked, "a preferred candidate asked to take over"),
		of(leader.ReasonDrained, "an operator drained its instance"),
		of(leader.ReasonBalanced, "its role went to an instance that leads fewer"),
		of(leader.ReasonFull, "its instance leads as many roles as it may"),
		of(leader.ReasonPanicked, "its work panicked"),
		of(leader.ReasonCrashed, "the library panicked in it"),
		of(leader.ReasonClosed, "its connection was closed for good"),
		of(leader.ReasonVacated, "an operator ended the record of a holder that was gone"),
		of(leader.ReasonForgotten, "an operator marked the group as gone"),
	}
}

// drawHelp fills exactly the height with the help, or the part of it that was
// scrolled to.
func (m *model) drawHelp(l look) string {
	var lines []string
	section := func(title string, entries []entry) {
		lines = append(lines, l.strong.Render(title))
		for _, e := range entries {
			lines = append(lines, wrapped(l, e, m.width-2)...)
		}
		lines = append(lines, "")
	}
	section("Keys", keyHelp(m.st))
	section("What is shown", lineHelp())
	section("Reasons, in events and in the column REASON", reasonHelp())
	room := max(1, m.height-1)
	m.from = min(m.from, max(0, len(lines)-room))
	shown := lines[m.from:min(len(lines), m.from+room)]
	foot := "? back"
	if rest := len(lines) - m.from - len(shown); rest > 0 || m.from > 0 {
		foot += fmt.Sprintf("  ↑ ↓ scroll (%d more below)", rest)
	}
	clip := lipgloss.NewStyle().MaxWidth(m.width)
	out := make([]string, 0, room+1)
	for _, line := range shown {
		out = append(out, clip.Render(" "+line))
	}
	for len(out) < room {
		out = append(out, "")
	}
	return strings.Join(append(out, clip.Render(" "+l.quiet.Render(foot))), "\n")
}

// wordWidth is the width of the column of words.
const wordWidth = 15

// wrapped sets an entry in lines of the given width, without breaking words.
func wrapped(l look, e entry, width int) (lines []string) {
	head := l.info.Render(fmt.Sprintf("%-*s", wordWidth, e.word))
	text := lipgloss.NewStyle().Width(max(10, width-wordWidth)).Render(e.means)
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, head+strings.TrimRight(line, " "))
		head = strings.Repeat(" ", wordWidth)
	}
	return lines
}
