package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// WatchCommand prints changes as they come.
type WatchCommand struct {
	app.Target

	Pattern    string `arg:"" optional:"" default:">" help:"Which groups, as NATS subjects are matched: 'jobs.*', 'jobs.>'. All if not given."`
	Output     string `short:"o" enum:"lines,json" default:"lines" placeholder:"FORMAT" help:"How to print: lines, json."`
	Advisories bool   `help:"Print what candidates publish, of whatever they do, in place of what the records show."`
	All        bool   `short:"a" help:"With the groups that are marked as gone (leader forget)."`
	Count      int    `short:"n" placeholder:"N" help:"End after so many lines."`
}

// Help describes the command.
func (WatchCommand) Help() string {
	return `Prints a line for each change of who leads, as the records show it: first who leads at present (event "present"), then "acquired"
when a candidate takes the record, "vacant" when it is released, deleted or its lease has run out. Renewals are no
changes. Changes in quick succession may be shown as one.

With --advisories it prints the messages that candidates publish on leader-advisory.<bucket>.>, if they are made to: each transition of each
candidate, with the same words as their logs. They contain more and promise less: what was published while nobody
listened is in leader history alone.

With --dev a leader changes every five seconds, so that there is something to see.

With -o json there is one object a line: time, group, event, leader, term, address, since, renewed, reason, by, why, successor,
correlation; with --advisories the message as it was sent. since and renewed are when the term began (or, of a vacancy, ended) and when
its leader renewed last, as the record shows by its writer's clock; time is by the clock of this host.

Exit status: 0 when it is interrupted or has printed --count lines; 5 if the bucket is missing or may not be read.

Examples:
  leader watch --dev
  leader watch 'jobs.>' -o json
  leader watch reports --advisories
  leader watch reports -n 1`
}

// Validate checks what the parser cannot.
func (c WatchCommand) Validate() error {
	errs := []error{c.Target.Validate(), validPattern(c.Pattern)}
	if c.Advisories && c.All {
		errs = append(errs, errors.New("--all: not with --advisories, which prints whatever candidates publish, also of groups that are marked as gone"))
	}
	if c.Count < 0 {
		errs = append(errs, fmt.Errorf("--count %d: must not be negative", c.Count))
	}
	return errors.Join(errs...)
}

// Run prints changes until ctx is done. The rights of an observer of the
// pattern suffice: the store watches no more than that.
func (c WatchCommand) Run(ctx context.Context, std app.Streams) error {
	s, err := c.OpenLive("watch")
	if err != nil {
		return err
	}
	defer s.Close()
	p := &printer{out: std.Out, json: c.Output == "json", left: c.Count, hidden: hides(c.Pattern, c.All)}
	if c.Advisories {
		return c.listen(ctx, s, std, p)
	}
	st, err := s.Store()
	if err != nil {
		return err
	}
	return observe(ctx, st, c.Pattern, std.Err, p.run)
}

// listen prints advisories. A message that cannot be read is reported and does
// not end it: anybody may publish there.
func (c WatchCommand) listen(ctx context.Context, s *app.Session, std app.Streams, p *printer) error {
	var failure error
	if s.Elsewhere() != nil {
		return s.NeedsNATS("--advisories")
	}
	for a, err := range advisory.Subscribe(ctx, s.NC, advisory.Subject(c.Bucket, "*", c.Pattern)) {
		if failure = err; err != nil {
			app.Say(std.Err, err)
			continue
		}
		if done, err := p.print(a, lineOfAdvisory(a)); done || err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return failure // the last one: the subscription is over
}

// A printer prints lines until it has printed enough.
type printer struct {
	out     io.Writer
	json    bool
	left    int // how many more; none left means no end, if there was none at the beginning
	present bool
	// hidden reports whether a group that is there at the beginning is left
	// out.
	hidden func(leader.LeaderInfo) bool
}

// run prints the observer's reports. A group that is marked as gone is left out
// of the initial state alone: a later mark, or its return, is a change.
func (p *printer) run(ctx context.Context, seen <-chan observed) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case x := <-seen:
			if x.present || x.renewed {
				p.present = p.present || x.present
				continue
			}
			if !p.present && p.hidden(x.info) {
				continue
			}
			c := changeOf(x, p.present)
			if done, err := p.print(c, c.line()); done || err != nil {
				return err
			}
		}
	}
}

// print prints one line, and reports whether it was the last.
func (p *printer) print(value any, l line) (done bool, err error) {
	if p.json {
		err = output.WriteLine(p.out, value)
	} else {
		err = l.write(p.out)
	}
	p.left--
	return p.left == 0, err
}

// A Change is a line of watch, as JSON.
type Change struct {
	Time  time.Time `json:"time"` // when it was seen
	Group string    `json:"group"`
	// Event is present, acquired or vacant.
	Event string `json:"event"`
	// Leader and Term are who leads now; without a leader it is the last term.
	Leader  string `json:"leader,omitempty"`
	Term    uint64 `json:"term,omitempty"`
	Address string `json:"address,omitempty"`
	// Since is when the term started or, for a vacancy, when that was written.
	// Renewed is when the leader has written its record last. Both come from
	// the record, by its writer's wall clock; left out if the record lacks
	// them.
	Since   time.Time `json:"since,omitzero"`
	Renewed time.Time `json:"renewed,omitzero"`
	// Reason, By, Why and Successor explain why nobody leads.
	Reason      leader.Reason `json:"reason,omitempty"`
	By          string        `json:"by,omitempty"`
	Why         string        `json:"why,omitempty"`
	Successor   string        `json:"successor,omitempty"`
	Correlation string        `json:"correlation,omitempty"`
}

// changeOf is what is printed of something seen, at the beginning or
// afterwards.
func changeOf(x observed, afterwards bool) Change {
	c := Change{
		Time: x.at.UTC(), Group: x.info.Group, Leader: x.info.ID, Term: x.info.Term, Address: x.info.Address,
		Since: began(x.info), Renewed: renewedBy(x.info),
		Reason: x.info.Reason, By: x.info.By, Why: x.info.Why, Successor: x.info.Successor, Correlation: x.info.Correlation,
	}
	switch {
	case !afterwards:
		c.Event = "present"
	case c.Leader != "":
		c.Event = "acquired"
	default:
		c.Event = "vacant"
	}
	return c
}

// line is the change for people.
func (c Change) line() line {
	return line{c.Time, c.Group, c.Event, c.Leader, c.Term, []string{
		string(c.Reason), told("by ", c.By), c.Why, told("successor ", c.Successor), c.Address,
	}}
}

// lineOf is a group as leader ls --watch prints its changes where it cannot
// draw.
func lineOf(g Group, now time.Time) line {
	event := "leads"
	if g.Leader == "" {
		event = "vacant"
	}
	since := ""
	if !g.Since.IsZero() {
		since = "since " + g.Since.Local().Format(time.DateTime)
	}
	change, why := g.stands()
	return line{now, g.Group, event, g.Leader, g.Term, []string{since, change, why, told("successor ", g.Successor), g.Address}}
}

// lineOfAdvisory is a candidate's report on itself. A candidate that does not
// lead names the leader that it follows.
func lineOfAdvisory(a advisory.Advisory) line {
	who, term, led := a.Instance, a.Term, ""
	// Only then: of one that leads or led, the term is its own.
	if term == 0 && a.Leader != "" {
		led = fmt.Sprintf("leader %s, term %d", a.Leader, a.LeaderTerm)
	}
	return line{a.Time, a.Group, string(a.Event), who, term, []string{
		string(a.Reason), led, told("by ", a.By), a.Why, told(a.Note+": ", a.Text),
	}}
}

// told is s with a word before it, if there is any.
func told(what, s string) string {
	if s == "" {
		return ""
	}
	return what + s
}

// A line is one event for people.
type line struct {
	at    time.Time
	group string
	event string
	who   string
	term  uint64
	rest  []string // what is not empty is separated by semicolons
}

// write writes the line in columns, so that the eye finds a group. Text of
// others must not steer the terminal.
func (l line) write(w io.Writer) error {
	who := l.who
	if who == "" {
		who = "-"
	}
	term := "-"
	if l.term != 0 {
		term = fmt.Sprintf("term %d", l.term)
	}
	var rest []string
	for _, s := range l.rest {
		if s != "" {
			rest = append(rest, s)
		}
	}
	s := fmt.Sprintf("%s  %-16s  %-11s  %-12s  %-21s  %s",
		l.at.Local().Format("15:04:05.000"), l.group, l.event, who, term, strings.Join(rest, "; "))
	_, err := fmt.Fprintln(w, strings.TrimRight(output.Printable(s), " "))
	return err
}
