package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/store"
)

// ListCommand lists groups.
type ListCommand struct {
	app.Target
	output.Format

	Pattern string `arg:"" optional:"" default:">" help:"Which groups, as NATS subjects are matched: 'jobs.*', 'jobs.>'. All if not given."`
	Watch   bool   `short:"w" help:"Follow live: on a terminal the table, which scrolls, else a line for each change."`
	Vacant  bool   `help:"Only groups that nobody leads."`
	Sort    string `enum:",group,leader,since,term,trouble" default:"" placeholder:"COLUMN" help:"What to sort by: group, leader, since (the latest change first), term (the highest first), trouble (first the groups that nobody leads, then those that are paused). Default: group, and trouble with --watch on a terminal."`
	Bare    bool   `name:"no-headers" help:"Leave out the first line of a table."`
	All     bool   `short:"a" help:"With the groups that are marked as gone (leader forget)."`
}

// Help describes the command.
func (ListCommand) Help() string {
	return `Lists the groups of a bucket with their leaders. Nothing is written, and no candidate is disturbed.

SINCE is when the term began or, of a vacant group, when the last one ended. It is known from the history (leader history
enable), from the store if it reports when it stored a record (NATS does) and nobody has written it since, from the leader if it answers
(leader get shows who does), and else from the record. These last two go by the leader's clock. LEASE is how long nobody else would lead if the leader fell silent now. A leader whose lease has run out leads no more, whatever
its record contains: by the clocks of the server and of this host, if the store reports when it stored the record. Other stores do not, and
the leader's clock may be wrong. If the lease has run out by that clock, the command watches the record: for a third of
the lease, or for as long as --timeout allows. If the record does not change, its holder leads no more. CHANGE is why the last
leader left, if the history or the record contains that, or else why the current leader leads, if it answers the roll call, and otherwise -; for a
paused group, who paused it.

Columns of -o wide: why (in the words of who asked for the change, or who paused the group), the latest renewal (by the clock of the store if it reports that,
and else by the leader's), how often the group had got another leader
when the term began (as far as its records show), the correlation id of logs and traces, meta.

A list of all groups also names the instances that are drained (leader drain), on the standard error.

With --watch and -o json there is one object a line, and SINCE of a change that is seen to happen is when it was seen.

Exit status: 0; 4 if a group was named that does not exist; 5 if the bucket is missing or may not be read; 6 if the
server did not answer in time.

Examples:
  leader ls --dev
  leader ls 'jobs.>' -o wide
  leader ls -w
  leader ls --vacant -o name
  leader ls --sort since --no-headers
  leader ls -o json | jq -r '.[] | select(.leader == null) | .group'`
}

// Validate checks what the parser cannot.
func (c ListCommand) Validate() error {
	errs := []error{c.Target.Validate(), validPattern(c.Pattern)}
	if c.Watch && (c.Output == "yaml" || c.Output == "name") {
		errs = append(errs, fmt.Errorf("--output %s: not with --watch, which prints table, wide or json", c.Output))
	}
	return errors.Join(errs...)
}

// validPattern returns what is wrong with a pattern.
func validPattern(pattern string) error {
	if !store.ValidPattern(pattern) {
		return fmt.Errorf("pattern %q: must be a group's name, in which * matches a part and > the last parts", pattern)
	}
	return nil
}

// Run prints the list. A name without a group is an error, and a pattern that
// matches nothing is an empty list: a user who names a group expects it to be
// there.
func (c ListCommand) Run(ctx context.Context, std app.Streams) error {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	open := c.Open
	if c.Watch {
		open = c.OpenLive
	}
	s, err := open("ls")
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := s.Store()
	if err != nil {
		return err
	}
	if c.Watch {
		return c.follow(ctx, std, s, st)
	}
	paused, stop := watchPauses(limited, st, c.Pattern)
	defer stop()
	all, err := gather(limited, s, st, c.Pattern)
	if err == nil {
		all = withPauses(all, paused.now(limited))
		for _, line := range paused.drains.Lines() {
			fmt.Fprintln(std.Err, "leader: "+output.Printable(line))
		}
	}
	groups := c.shown(slices.Clone(all))
	switch {
	case err != nil:
		return err
	case len(groups) == 0 && !store.Wild(c.Pattern):
		return noGroup(c.Pattern, s.Bucket)
	case len(groups) == 0: // before --vacant is looked at
		fmt.Fprintf(std.Err, "leader: bucket %q has no groups%s\n", s.Bucket, c.matching(len(all) > 0))
		if c.Output == "table" || c.Output == "wide" {
			return nil
		}
	}
	return c.Write(std.Out, c.table(groups, time.Now()))
}

// table returns the requested groups, in the requested order. Equal groups are
// ordered by their names, so that lines do not jump when the list is drawn
// again.
func (c ListCommand) table(groups []Group, now time.Time) output.Result {
	if c.Vacant {
		groups = slices.DeleteFunc(groups, func(g Group) bool { return g.Leader != "" })
	}
	slices.SortFunc(groups, func(a, b Group) int {
		var order int
		switch c.Sort {
		case "leader":
			order = cmp.Compare(a.Leader, b.Leader)
		case "since":
			order = b.Since.Compare(a.Since)
		case "term":
			order = cmp.Compare(b.Term, a.Term)
		case "trouble":
			order = cmp.Compare(a.trouble(), b.trouble())
		}
		return cmp.Or(order, cmp.Compare(a.Group, b.Group))
	})
	r := table(groups, now)
	r.Bare = c.Bare
	return r
}

// trouble ranks how much the group needs the user's attention, the most urgent
// first.
func (g Group) trouble() int {
	switch {
	case g.Paused:
		return 1
	case g.Leader == "":
		return 0
	default:
		return 2
	}
}

// matching describes which groups are meant, unless it is all, and whether some
// are hidden.
func (c ListCommand) matching(hidden bool) (s string) {
	if c.Pattern != ">" {
		s = " that match " + c.Pattern
	}
	switch {
	case hidden:
		s += " but forgotten ones, which --all shows"
	case c.Pattern == ">":
		s = " yet: the first candidate of a group makes it"
	}
	return s
}

// noGroup is the error for a name that nobody has.
func noGroup(group, bucket string) error {
	return fmt.Errorf("%w: group %q: the bucket %q knows nothing of it", app.ErrNotFound, group, bucket)
}
