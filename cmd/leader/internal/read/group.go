package read

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// A Group is what ls and get print of a group, as JSON. A field that is not
// known is left out.
type Group struct {
	Group string `json:"group"`
	// Leader leads the group; without one the group is vacant. Term is its
	// term, or the last one. The holder of the record leads no more when the
	// server has stored no renewal for longer than the lease is good for, by
	// the clocks of the server and of this host. Where the store does not
	// report when it stored the record, the lease must have run out by the
	// leader's clock, and the record must not change while this command watches
	// it: for a third of the lease, or for as long as --timeout allows.
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term,omitempty"`
	// Last is who led last, in a vacant group of which that is known.
	Last string `json:"last_leader,omitempty"`
	// Transitions is how often the group had got another leader when that term
	// began, as far as its records show.
	Transitions uint64 `json:"transitions,omitempty"`
	// Since is when the term began or, in a vacant group, when the last one
	// ended. The first of these that knows it is the source: the history, the
	// store, if it reports when it stored a record, the leader, the record. The
	// last two go by the leader's wall clock.
	Since time.Time `json:"since,omitzero"`
	// LeaseLeft is for how many milliseconds nobody else leads if the leader
	// falls silent now, as seen from here. That is the lease as others honour
	// it: the leader itself trusts it for less, until its trust window closes.
	LeaseLeft int64 `json:"lease_left_ms"`
	// Renewed is when the server stored the latest renewal. Where the store
	// does not report that, it is the record's time, by the leader's wall
	// clock.
	Renewed time.Time `json:"renewed,omitzero"`
	// The leader's own statements.
	Priority int               `json:"priority,omitempty"`
	Version  string            `json:"version,omitempty"`
	Address  string            `json:"address,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	// ConnectionParams is what clients need in addition to the address,
	// according to the leader.
	ConnectionParams []byte `json:"connection_params,omitempty"`
	// Reason is the reason of the last change: why the last leader left or, if
	// that is not known, how the current leader came to lead. By and Why are
	// who requested it and for what reason, Successor who was asked to take
	// over.
	Reason    leader.Reason `json:"reason,omitempty"`
	By        string        `json:"by,omitempty"`
	Why       string        `json:"why,omitempty"`
	Successor string        `json:"successor,omitempty"`
	// Paused reports whether nobody leads until the group is resumed. PausedBy
	// and PausedWhy are by whose request and for what reason.
	Paused    bool   `json:"paused,omitempty"`
	PausedBy  string `json:"paused_by,omitempty"`
	PausedWhy string `json:"paused_why,omitempty"`
	// Correlation is the same in all logs, advisories and traces of the term.
	Correlation string `json:"correlation,omitempty"`

	// Stored reports whether Renewed is by the store's clock.
	Stored bool `json:"-"`

	// info is the content of the record.
	info leader.LeaderInfo
}

// groupOf is a group according to its record alone. Since is not set: others
// may know it better, and the first source that has it is believed.
func groupOf(info leader.LeaderInfo, now time.Time) Group {
	g := Group{
		Group: info.Group, Leader: info.ID, Term: info.Term, Transitions: info.Transitions,
		Priority: info.Priority, Version: info.Version, Address: info.Address, ConnectionParams: info.ConnectionParams, Meta: info.Meta,
		Reason: info.Reason, By: info.By, Why: info.Why, Successor: info.Successor, Correlation: info.Correlation,
		Renewed: renewedBy(info), info: info,
	}
	return g.asOf(now)
}

// renewedBy is when the leader renewed last, according to the record, also for
// a leader that fell silent.
func renewedBy(info leader.LeaderInfo) time.Time {
	if info.ID == "" && info.Reason != leader.ReasonExpired {
		return time.Time{}
	}
	return info.Renewed
}

// began is when a term started or ended, according to the record. The record of
// a leader which fell silent does not contain when it was gone.
func began(info leader.LeaderInfo) time.Time {
	switch {
	case info.ID != "":
		return info.Acquired
	case info.Reason == leader.ReasonExpired:
		return time.Time{}
	default:
		return info.Renewed
	}
}

// asOf recomputes what is left of the lease.
func (g Group) asOf(now time.Time) Group {
	g.LeaseLeft = 0
	if g.Leader != "" {
		g.LeaseLeft = max(0, g.info.Until.Sub(now).Milliseconds())
	}
	return g
}

// withStanding adds whether the holder of the record still leads and, if the
// store reports it, when it stored the record. The zero Standing adds nothing.
func (g Group) withStanding(s app.Standing, now time.Time) Group {
	stored := !s.StoredAt.IsZero()
	switch {
	case s.Group == "":
		return g
	case s.Last != "":
		dead := groupOf(s.LeaderInfo, now)
		dead.Last, dead.Since, dead.Stored = s.Last, s.Ended, stored
		return dead
	case s.ID != g.Leader, s.Term != g.Term:
		return groupOf(s.LeaderInfo, now) // it changed while it was watched
	case s.ID == "":
		return g.since(s.StoredAt)
	}
	g.info.Until, g.Stored = s.Until, stored
	if g.Renewed = renewedBy(s.LeaderInfo); stored {
		g.Renewed = s.StoredAt
	}
	g = g.asOf(now)
	if stored && s.Revision == g.Term {
		return g.since(s.StoredAt) // the latest write is the acquisition itself
	}
	return g
}

// since adds when the term began or ended. The first to know it is right.
func (g Group) since(at time.Time) Group {
	if g.Since.IsZero() && !at.IsZero() {
		g.Since = at.UTC()
	}
	return g
}

// withHistory adds the content of the group's latest advisories. Advisories of
// another term than the record's belong to an earlier term, or to a term that
// the record has not shown yet, and do not apply to this term. The reason for
// which the last leader left is more useful than the fact that the record was
// found vacant.
func (g Group) withHistory(promoted, demoted advisory.Advisory) Group {
	switch {
	case g.Leader == "" && demoted.Term == g.Term && g.Term != 0:
		g.Last = demoted.Instance
		return g.since(demoted.Time)
	case g.Leader != "" && promoted.Term == g.Term:
		g = g.since(promoted.Time)
		g.Reason = promoted.Reason
		if left(promoted.Reason) && demoted.Term != 0 && demoted.Term < g.Term {
			g.Reason, g.By, g.Why = demoted.Reason, demoted.By, demoted.Why
		}
	}
	return g
}

// left reports whether a reason for a promotion means only that the previous
// leader left.
func left(r leader.Reason) bool { return r == leader.ReasonVacant || r == leader.ReasonOffered }

// table returns the groups as they are printed.
func table(groups []Group, now time.Time) output.Result {
	r := output.Result{
		Value: groups,
		Head:  []string{"GROUP", "LEADER", "TERM", "SINCE", "LEASE", "PRIO", "VERSION", "ADDRESS", "CHANGE", "WHY", "RENEWED", "TRANSITIONS", "CORRELATION", "META"},
		Wide:  9,
		Minor: []string{"META", "CORRELATION", "TRANSITIONS", "PRIO", "VERSION", "RENEWED", "ADDRESS", "TERM", "CHANGE"},
		Tint:  tint,
	}
	for _, g := range groups {
		r.Names = append(r.Names, g.Group)
		change, why := g.stands()
		r.Rows = append(r.Rows, []string{
			g.Group, g.Leader, number(g.Term), age(g.Since, now), g.lease(), priority(g), g.Version, g.Address, change, why,
			ago(g.Renewed, now), number(g.Transitions), g.Correlation, pairs(g.Meta),
		})
	}
	return r
}

// tint highlights what is wrong: a group that nobody leads, unless somebody
// wants it so.
func tint(head, cell string) output.Tint {
	switch {
	case head == "LEADER" && cell == "-":
		return output.Bad
	case head == "CHANGE" && strings.HasPrefix(cell, string(leader.ReasonPaused)):
		return output.Caution
	case cell == "-":
		return output.Quiet
	}
	return output.Plain
}

// priority is the leader's; a vacancy has none.
func priority(g Group) string {
	if g.Leader == "" {
		return ""
	}
	return strconv.Itoa(g.Priority)
}

// lease is what is left of the lease; a vacancy has none.
func (g Group) lease() string {
	if g.Leader == "" {
		return ""
	}
	return fmt.Sprintf("%.1fs", float64(g.LeaseLeft)/1000)
}

// change describes why the group changed last.
func (g Group) change() string {
	s := string(g.Reason)
	// The word is the same in logs, metrics and advisories. Next to the name of
	// a leader these two would be riddles alone: they describe the record that
	// it found.
	switch {
	case g.Leader == "" && g.Reason == leader.ReasonExpired && g.Last != "":
		s += " (lease of " + g.Last + ")"
	case g.Leader == "":
	case g.Reason == leader.ReasonAbsent:
		s += " (first leader)"
	case left(g.Reason):
		s += " (last one left)"
	}
	if g.By != "" {
		s += " by " + g.By
	}
	return s
}

// stands explains the group's state: who paused it if it is paused, otherwise
// why its last leader left, or what change returns.
func (g Group) stands() (change, why string) {
	if !g.Paused {
		return g.change(), g.Why
	}
	change = strings.TrimSuffix(string(leader.ReasonPaused)+" by "+g.PausedBy, " by ")
	if g.Leader != "" {
		change += " (not obeyed yet)"
	}
	return change, g.PausedWhy
}

// number leaves a cell empty where there is none: 0 is not a term.
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// pairs are sorted, so that one list compares with the next.
func pairs(m map[string]string) string {
	var all []string
	for k, v := range m {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// parameters shows short text as it is, and else how much there is.
func parameters(b []byte) string {
	const short = 256
	if len(b) > short || !utf8.Valid(b) {
		return fmt.Sprintf("%d bytes", len(b))
	}
	return string(b)
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return age(t, now) + " ago"
}

// age is how long ago t was, or "" if that is not known.
func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return length(now.Sub(t))
}

// length describes d in two units at most. Clocks of two hosts may make it
// negative.
func length(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(0, d); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 2*day:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	default:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
}
