package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store"
)

// GetCommand shows one group.
type GetCommand struct {
	app.Target
	output.Format

	Group string `arg:"" help:"The group."`
}

// Help describes the command.
func (GetCommand) Help() string {
	return `Shows one group in full: what leader ls shows of it, whether it is paused, what its leader has been asked for and has not obeyed yet,
and its candidates. These are asked on leader-rollcall.<bucket>.<group>; those that take part answer (candidates of this command do, programs
with the hooks of package rollcall), and cost nothing otherwise. LAG is the age of the latest renewal that a candidate has sent or heard of. STATE is
LEADER, FOLLOWER, CANDIDATE or DEMOTED, with why it does not campaign at present, if something keeps it: unhealthy, paused, or drained, by which
operator and why (leader drain; that takes the right to read the order).
Of a quorum (--store quorum://…) it also shows what each member holds of the group: the version of its record, how many versions it lags,
and in words whether it answers or refuses, is up to date and has memory. A member that refuses lacks a right, or holds the group of another
quorum: the error contains which. A member without memory was wiped, or was away when the group began; the
leader's next renewal heals it.

With -o json there is one object: the object of leader ls, with pending, candidates, drained (instance, by, why of each candidate that is
drained) and members of a quorum.

Exit status: 0; 4 if neither the bucket nor any candidate knows the group; 5 if the bucket is missing or may not be read; 6
if the server did not answer in time.

Examples:
  leader get reports --dev
  leader get jobs.eu -o wide
  leader get reports -o json | jq '.candidates[].instance'`
}

// Validate checks what the parser cannot.
func (c GetCommand) Validate() error {
	return errors.Join(c.Target.Validate(), app.ValidGroup(c.Group))
}

// A Detail is what get prints, as JSON.
type Detail struct {
	Group
	// Pending is what the leader has been asked for and has not obeyed yet.
	Pending *Pending `json:"pending,omitempty"`
	// Candidates are those that answered.
	Candidates []rollcall.Candidate `json:"candidates"`
	// Drained are the orders by which some of them are drained, as far as they
	// can be read.
	Drained []Drained `json:"drained,omitempty"`
	// Members are what each member of a quorum holds of the group.
	Members []app.Member `json:"members,omitempty"`
}

// A Drained is an instance that is drained.
type Drained struct {
	Instance string `json:"instance"`
	By       string `json:"by,omitempty"`
	Why      string `json:"why,omitempty"`
}

// A Pending is a request to the leader of a term.
type Pending struct {
	Op        leader.Operation `json:"op"`
	Term      uint64           `json:"term"`
	Successor string           `json:"successor,omitempty"`
	By        string           `json:"by,omitempty"`
	Why       string           `json:"why,omitempty"`
}

// Run shows the group. The record, the control record and the candidates are
// asked at the same time, since each may be silent for long. Only the record
// decides whether there is an answer; of the others the user hears what is
// missing.
func (c GetCommand) Run(ctx context.Context, std app.Streams) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	s, err := c.Open("get")
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := s.Store()
	if err != nil {
		return err
	}
	d := Detail{Group: neverLed(c.Group), Candidates: []rollcall.Candidate{}}
	// With room: if the record cannot be read, nobody takes it.
	asked := make(chan error, 1)
	go func() { asked <- ask(ctx, s, st, &d) }()
	groups, err := gather(ctx, s, st, c.Group)
	if err != nil {
		return err
	}
	if err := <-asked; err != nil {
		app.Say(std.Err, err)
	}
	if d.Members, err = app.Members(ctx, st, c.Group); err != nil {
		app.Say(std.Err, err)
	}
	if len(groups) == 1 {
		g := groups[0]
		g.Paused, g.PausedBy, g.PausedWhy = d.Paused, d.PausedBy, d.PausedWhy
		d.Group = g
	}
	if len(groups) == 0 && len(d.Candidates) == 0 && !d.Paused {
		return noGroup(c.Group, s.Bucket)
	}
	return c.print(std.Out, d, time.Now())
}

// ask fills in the control record and the candidates' answers. The user may
// lack the right to either: the error states that, and the rest is shown.
func ask(ctx context.Context, s *app.Session, st store.Store, d *Detail) error {
	called := make(chan error, 1)
	go func() {
		all, err := s.RollCall(ctx, d.Group.Group)
		d.Candidates = append(d.Candidates, all...)
		called <- err
	}()
	err := askControl(ctx, st, d)
	err = errors.Join(err, <-called)
	askDrains(ctx, st, d)
	return err
}

// askDrains reads who drained the candidates that answered that they are. It
// needs a right that few users have: without it the reason is shown alone.
func askDrains(ctx context.Context, st store.Store, d *Detail) {
	c, err := leader.NewControlWithStore(st, "leader get")
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*enough)
	defer cancel()
	for _, candidate := range d.Candidates {
		if candidate.Barred != leader.ReasonDrained {
			continue
		}
		s, err := c.DrainState(ctx, candidate.Instance)
		if err != nil {
			return
		}
		if s.Drained {
			d.Drained = append(d.Drained, Drained{Instance: s.Instance, By: s.By, Why: s.Why})
		}
	}
}

// barred describes why a candidate does not campaign.
func (d Detail) barred(c rollcall.Candidate) string {
	if c.Barred != leader.ReasonDrained {
		return string(c.Barred)
	}
	for _, order := range d.Drained {
		if order.Instance == c.Instance {
			return app.DrainWords(order.By, order.Why)
		}
	}
	return app.DrainWords("", "")
}

// askControl reads the control record. It has a separate time limit: a server
// does not answer a read that it denies, and the rest is to be shown soon.
func askControl(ctx context.Context, st store.Store, d *Detail) error {
	c, err := leader.NewControlWithStore(st, "leader get")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*enough)
	defer cancel()
	state, err := c.State(ctx, d.Group.Group)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("whether the group is paused is not known: %w: the right to read its control record may be missing"+
			" (leader doctor --group %s --role operator examines it)", err, d.Group.Group)
	case err != nil:
		return fmt.Errorf("whether the group is paused is not known: %w", err)
	}
	d.Paused, d.PausedBy, d.PausedWhy = state.Paused, state.PausedBy, state.PausedWhy
	if p := state.Pending; p.Op != "" {
		d.Pending = &Pending{Op: p.Op, Term: p.Term, Successor: p.Successor, By: p.By, Why: p.Why}
	}
	return nil
}

// print prints the group and, for people, its candidates below. It states if
// nobody answered, since an empty table would look like a group without
// candidates.
func (c GetCommand) print(w io.Writer, d Detail, now time.Time) error {
	if c.Output != "table" && c.Output != "wide" {
		return c.Write(w, output.Result{Value: d, Names: []string{d.Group.Group}})
	}
	if err := c.Write(w, d.table(now)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if len(d.Members) > 0 {
		if err := c.Write(w, members(d.Members)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if !c.OnNATS() {
		_, err := fmt.Fprintln(w, "Candidates cannot be asked: the roll call needs NATS.")
		return err
	}
	if len(d.Candidates) == 0 {
		_, err := fmt.Fprintln(w, "No candidate answered the roll call. Candidates within programs answer if they have the hooks of package rollcall: a missing answer is not a sign of an outage.")
		return err
	}
	return c.Write(w, candidates(d, now))
}

// table is what is known of the group, a line each.
func (d Detail) table(now time.Time) output.Result {
	lines := [][2]string{
		{"Leader:", d.Leader}, {"Led last:", d.Last}, {"Term:", number(d.Term)}, {"Since:", moment(d.Since, now)},
		{"Lease left:", d.lease()}, {"Renewed:", moment(d.Renewed, now)},
		{"Priority:", priority(d.Group)}, {"Version:", d.Version}, {"Address:", d.Address}, {"Parameters:", parameters(d.ConnectionParams)}, {"Meta:", pairs(d.Meta)},
		{"Last change:", d.change()}, {"Because:", d.Why}, {"Successor:", d.Successor},
		{"Paused:", d.paused()}, {"Asked for:", d.pending()}, {"Correlation:", d.Correlation},
	}
	r := output.Result{Head: []string{"Group:", d.Group.Group}}
	for _, l := range lines {
		if l[1] != "" || l[0] == "Leader:" {
			r.Rows = append(r.Rows, l[:])
		}
	}
	return r
}

// moment is a time and how long ago that was, nothing if it is not known.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", t.Local().Format(time.RFC3339), ago(t, now))
}

// paused describes who paused the group and why.
func (d Detail) paused() string {
	if !d.Paused {
		return ""
	}
	return strings.TrimSpace("by " + d.PausedBy + " " + bracketed(d.PausedWhy))
}

// pending describes the request to the leader: its content, its author and its
// reason.
func (d Detail) pending() string {
	if d.Pending == nil {
		return ""
	}
	p := d.Pending
	s := string(p.Op)
	if p.Successor != "" {
		s += " to " + p.Successor
	}
	return strings.TrimSpace(s + " by " + p.By + " " + bracketed(p.Why))
}

func bracketed(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// members shows the members of a quorum.
func members(all []app.Member) output.Result {
	r := output.Result{
		Head: []string{"MEMBER", "VERSION", "LAG", "STATE", "ERROR"},
		Tint: func(head, cell string) output.Tint {
			if head == "STATE" && app.MemberState(cell).Troubled() || head == "ERROR" && cell != "-" {
				return output.Caution
			}
			return output.Plain
		},
	}
	for _, m := range all {
		row := []string{m.Name, number(m.Version), "", string(m.State), m.Error}
		if m.Memory {
			row[2] = fmt.Sprint(m.Lag)
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// candidates are the candidates that answered. A candidate that follows another
// term than the record's lags, or is cut off.
func candidates(d Detail, now time.Time) output.Result {
	r := output.Result{
		Head:  []string{"CANDIDATE", "STATE", "SINCE", "FOLLOWS", "LAG", "PRIO", "VERSION", "ADDRESS", "CONNECTION", "REASON", "ERROR"},
		Wide:  8,
		Minor: []string{"ERROR", "CONNECTION", "REASON", "PRIO", "VERSION", "ADDRESS"},
		Tint: func(head, cell string) output.Tint {
			switch {
			case head == "STATE" && cell == leader.StateLeader:
				return output.Good
			case head == "STATE" && strings.Contains(cell, "("), head == "ERROR" && cell != "-":
				return output.Caution
			case cell == "-":
				return output.Quiet
			}
			return output.Plain
		},
	}
	for _, c := range d.Candidates {
		state, lag, follows := c.State, "", c.Leader
		if c.Barred != "" {
			state += " (" + d.barred(c) + ")"
		}
		if c.Leader != "" {
			lag = length(time.Duration(c.Lag) * time.Millisecond)
		}
		if c.Leader != "" && c.Term != d.Term {
			follows += " (term " + number(c.Term) + ")"
		}
		r.Rows = append(r.Rows, []string{
			c.Instance, state, age(c.Since, now), follows, lag, fmt.Sprint(c.Priority), c.Version, c.Address, c.Connection, string(c.Reason), c.Error,
		})
	}
	return r
}
