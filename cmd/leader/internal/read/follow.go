package read

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/inspect"
)

// A board is the groups as they are seen at present. It belongs to the
// goroutine of follow. hidden is asked with each change, since a group may be
// marked as gone, or return, while it is shown.
type board struct {
	cmd     ListCommand
	out     io.Writer
	screen  *tea.Program // the pager; nil if the output is no terminal
	details *details
	hidden  func(leader.LeaderInfo) bool // reports whether a group is left out
	pauses  *pauses
	paused  map[string]inspect.Pause // those that are shown
	groups  map[string]Group
	left    map[string]bool // the groups that are hidden
	present bool
}

// follow shows the groups until ctx is done.
//
// On a terminal it redraws the table, trouble first. In a file or a pipe the
// output would grow without end, so each change is a line.
func (c ListCommand) follow(ctx context.Context, std app.Streams, s *app.Session, st app.Registers) error {
	d := newDetails(s)
	d.patience = 2 * enough // in which nothing is shown
	b := &board{cmd: c, out: std.Out, details: d, hidden: hides(c.Pattern, c.All), groups: make(map[string]Group), left: make(map[string]bool)}
	var stop func()
	b.pauses, stop = watchPauses(ctx, st, c.Pattern)
	defer stop()
	f, ok := std.Out.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) || c.Output == "json" || c.Env.Get("TERM") == "dumb" {
		return observe(ctx, st, c.Pattern, std.Err, b.run)
	}
	b.screen = newPager(std, c.Bare)
	b.cmd.Sort = cmp.Or(b.cmd.Sort, "trouble")
	ctx, cancel := context.WithCancel(ctx)
	observed := make(chan error, 1)
	go func() {
		observed <- observe(ctx, st, c.Pattern, std.Err, b.run)
		b.screen.Quit()
	}()
	_, err := b.screen.Run()
	cancel() // by a key
	return errors.Join(<-observed, err)
}

// run shows what the observer tells. Four times a second are enough for times
// that count, and changes are not drawn by themselves: many at once would
// flicker.
func (b *board) run(ctx context.Context, seen <-chan observed) error {
	redraw := time.NewTicker(250 * time.Millisecond)
	defer redraw.Stop()
	for {
		var err error
		select {
		case x := <-seen:
			err = b.take(ctx, x)
		case <-b.pauses.changed:
			err = b.repause(ctx)
		case <-redraw.C:
			err = b.draw(time.Now())
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take takes in what the observer tells. Nothing is shown before all that was
// there at the beginning is known: half a table would look like a whole one.
// From then on a change is as old as its arrival, which is since when it holds.
// Why the last leader left is taken over from the vacancy: the record of the
// next one does not tell.
func (b *board) take(ctx context.Context, x observed) error {
	switch {
	case x.present:
		return b.complete(ctx)
	case x.renewed:
		return b.renew(x.info)
	case b.hidden(x.info):
		b.left[x.info.Group] = true
		delete(b.groups, x.info.Group)
		return b.print(groupOf(x.info, time.Now()))
	}
	if b.left[x.info.Group] {
		delete(b.left, x.info.Group)
		b.paused = b.shownPauses(ctx)
	}
	if gone(x.info) {
		return b.remove(groupOf(x.info, time.Now()))
	}
	g := groupOf(x.info, time.Now()).withPause(b.paused)
	if b.present {
		old := b.groups[g.Group]
		if g.Leader == "" && old.Leader == "" && g.Term == old.Term && g.Reason == old.Reason {
			return nil // it was found so: the lease has run out as seen from here, too
		}
		g.Since = x.at.UTC()
		switch {
		case g.Leader == "":
			g.Last = old.Leader
		case old.Leader == "":
			g.Reason, g.By, g.Why = old.Reason, old.By, old.Why
		}
	}
	b.groups[g.Group] = g
	return b.print(g)
}

// remove takes a group out of what is shown, but for one that is paused.
func (b *board) remove(g Group) error {
	delete(b.groups, g.Group)
	if g = g.withPause(b.paused); g.Paused {
		b.groups[g.Group] = g
	}
	return b.print(g)
}

// repause takes in what has changed of the pauses. A group that stands for its
// pause alone is gone when that ends.
func (b *board) repause(ctx context.Context) error {
	if !b.present {
		return nil // complete takes them in
	}
	was := b.paused
	b.paused = b.shownPauses(ctx)
	all := make(map[string]inspect.Pause)
	maps.Copy(all, was)
	maps.Copy(all, b.paused)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		before, stood := was[name]
		now, stands := b.paused[name]
		if stood == stands && before == now {
			continue
		}
		g, ok := b.groups[name]
		if !ok {
			g = neverLed(name)
		}
		g = g.withPause(b.paused)
		b.groups[name] = g
		if !stands && g.absent() {
			delete(b.groups, name)
		}
		if err := b.print(g); err != nil {
			return err
		}
	}
	return nil
}

// shownPauses returns the pauses that stand, without those of hidden groups: a
// pause brings back none that is marked as gone.
func (b *board) shownPauses(ctx context.Context) map[string]inspect.Pause {
	stand := b.pauses.now(ctx)
	maps.DeleteFunc(stand, func(name string, _ inspect.Pause) bool { return b.left[name] })
	return stand
}

// gone reports whether the store knows nothing of a group any more.
func gone(info leader.LeaderInfo) bool { return info.ID == "" && info.Reason == leader.ReasonAbsent }

// renew takes in a renewal. It proves that the leader lives, whatever was found
// at the beginning. It is no change, and not printed.
func (b *board) renew(info leader.LeaderInfo) error {
	g, ok := b.groups[info.Group]
	switch {
	case !ok:
		return nil
	case g.Leader == "":
		// Its lease had run out when it was found.
		g = groupOf(info, time.Now()).withPause(b.paused).since(began(info))
		b.groups[info.Group] = g
		return b.print(g)
	}
	// By the record, and so by the leader's clock: the server was asked once.
	g.info, g.Renewed, g.Stored = info, info.Renewed, false
	b.groups[info.Group] = g
	return nil
}

// complete fills in, once, what the records do not say of the groups that were
// there at the beginning.
func (b *board) complete(ctx context.Context) error {
	if b.present {
		return nil
	}
	b.present = true
	groups := b.sorted(time.Now())
	// It asks for two seconds at most, in which the observer waits.
	b.details.complete(ctx, b.cmd.Pattern, groups)
	b.paused = b.shownPauses(ctx)
	for _, g := range withPauses(groups, b.paused) {
		b.groups[g.Group] = g
		if err := b.print(g); err != nil {
			return err
		}
	}
	return b.draw(time.Now())
}

// sorted returns the groups by name, with what is left of their leases now.
func (b *board) sorted(now time.Time) []Group {
	var groups []Group
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		groups = append(groups, b.groups[name].asOf(now))
	}
	return groups
}

// print prints a change, where the whole table cannot be drawn over.
func (b *board) print(g Group) error {
	if b.screen != nil || !b.present || b.cmd.Vacant && g.Leader != "" {
		return nil
	}
	if b.cmd.Output == "json" {
		return output.WriteLine(b.out, g)
	}
	return lineOf(g, time.Now()).write(b.out)
}

// draw hands the table to the pager.
func (b *board) draw(now time.Time) error {
	if b.screen == nil || !b.present {
		return nil
	}
	var text bytes.Buffer
	if err := b.cmd.WriteOn(b.cmd.Screen(b.out), &text, b.cmd.table(b.sorted(now), now)); err != nil {
		return err
	}
	b.screen.Send(screenful(strings.Split(strings.TrimRight(text.String(), "\n"), "\n")))
	return nil
}
