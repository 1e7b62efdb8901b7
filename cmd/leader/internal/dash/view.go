package dash

import (
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/inspect"
)

// A message is what the page is sent. Times are milliseconds since 1970 by this
// machine's clock, which Now lets the page translate; durations are
// milliseconds.
type message struct {
	Now     int64     `json:"now"`
	Whole   bool      `json:"whole,omitempty"` // Groups are all there are
	About   *about    `json:"about,omitempty"`
	Status  status    `json:"status"`
	Drains  []drain   `json:"drains,omitempty"` // with each status that is new
	Groups  []view    `json:"groups,omitempty"`
	Gone    []string  `json:"gone,omitempty"`
	Renewed []renewal `json:"renewed,omitempty"`
}

type about struct {
	Bucket  string `json:"bucket"`
	Server  string `json:"server"`
	Control bool   `json:"control"`
}

type status struct {
	Connected bool   `json:"connected"`
	Complete  bool   `json:"complete"`
	Failure   string `json:"failure,omitempty"`
	Ignored   int    `json:"ignored,omitempty"`
	Drained   string `json:"drained,omitempty"` // which instances are, in words
	Past      past   `json:"past"`
}

// A drain is an instance that campaigns for nothing.
type drain struct {
	Instance string `json:"instance"`
	Words    string `json:"words"` // by whom it is drained, and why
}

// drains are the orders as the page is sent them, with a button for each.
func drains(orders []inspect.Drain) (all []drain) {
	for _, o := range orders[:min(len(orders), app.ShownDrains)] {
		all = append(all, drain{o.Instance, app.DrainWords(o.By, o.Reason)})
	}
	return all
}

// A renewal is of a group of which nothing else is new.
type renewal struct {
	Group  string `json:"group"`
	Left   int64  `json:"left"`
	Window int64  `json:"window"`
}

// A view is a group as the page shows it. Term numbers are below 2^53 on NATS;
// they travel as text all the same, for a record may contain anything.
type view struct {
	Group    string            `json:"group"`
	Leader   string            `json:"leader,omitempty"`
	Term     uint64            `json:"term,string"`
	Priority int               `json:"priority,omitempty"`
	Version  string            `json:"version,omitempty"`
	Address  string            `json:"address,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	Left     int64             `json:"left"`
	Window   int64             `json:"window"`
	// Unconfirmed reports whether only a record of unknown age was seen of the
	// leader. Renewed, if it is not 0, is when the store took the latest
	// renewal. Own reports whether Renewed is by the leader's clock.
	Unconfirmed bool  `json:"unconfirmed,omitempty"`
	Renewed     int64 `json:"renewed,omitempty"`
	Own         bool  `json:"own,omitempty"`
	// Since is when the term began or, in a vacant group, ended; 0 if that was
	// before the command started, and nobody knows when.
	Since     int64  `json:"since,omitempty"`
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by,omitempty"`
	Why       string `json:"why,omitempty"`
	Successor string `json:"successor,omitempty"`
	Paused    *pause `json:"paused,omitempty"`
	Hidden    bool   `json:"hidden,omitempty"` // an operator marked it as gone permanently
	Terms     []term `json:"terms"`
}

type pause struct {
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

type term struct {
	Number uint64 `json:"number,string"`
	Leader string `json:"leader"`
	Began  int64  `json:"began"`
	Older  bool   `json:"older,omitempty"` // it may have started at any time before
	Ended  int64  `json:"ended,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	Why    string `json:"why,omitempty"`
}

// views are the groups as the page is sent them.
func views(groups []board.Group, now time.Time) []view {
	all := make([]view, len(groups))
	for i, g := range groups {
		all[i] = viewOf(g, now)
	}
	return all
}

// viewOf picks what the page shows of a group, and turns times into what a
// script computes with.
func viewOf(g board.Group, now time.Time) view {
	v := view{
		Group: g.Group, Leader: g.ID, Term: g.Term, Priority: g.Priority, Version: g.Version, Address: g.Address, Meta: g.Meta,
		Left: left(g, now), Window: g.Window.Milliseconds(),
		Since: unix(g.Since()), Reason: string(g.Reason), By: g.By, Why: g.Why, Successor: g.Successor, Terms: make([]term, len(g.Terms)),
		Hidden: g.Forgotten(),
	}
	if g.ID != "" {
		v.Unconfirmed, v.Renewed, v.Own = !g.Confirmed, unix(g.Renewed), g.Own
	}
	if g.Paused {
		v.Paused = &pause{By: g.PausedBy, Why: g.PauseWhy}
	}
	for i, t := range g.Terms {
		v.Terms[i] = term{
			Number: t.Number, Leader: t.Leader, Began: unix(t.Began), Older: t.Older, Ended: unix(t.Ended),
			Reason: string(t.Reason), By: t.By, Why: t.Why,
		}
	}
	return v
}

// unix is t in milliseconds since 1970, 0 for the zero time.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func renewals(groups []board.Group, now time.Time) []renewal {
	all := make([]renewal, len(groups))
	for i, g := range groups {
		all[i] = renewal{Group: g.Group, Left: left(g, now), Window: g.Window.Milliseconds()}
	}
	return all
}

// left is how long the lease is still good for, in milliseconds. It is a
// duration, so that the page can count it down by its own clock, which may be
// wrong.
func left(g board.Group, now time.Time) int64 {
	if g.ID == "" {
		return 0
	}
	return max(0, g.Until.Sub(now).Milliseconds())
}
