package read

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// A list shows the groups of a board.
type list struct {
	cmd    ListCommand
	std    app.Streams
	screen *tea.Program // the pager; nil if the output is not a terminal
	board  board.Board
	// hidden reports whether a group is left out. It is asked with each change,
	// since a group may be marked as gone, or return, while it is shown.
	hidden func(leader.LeaderInfo) bool

	mu sync.Mutex
	// printed are the groups as the last lines show them; nil before all groups
	// are known: half a table would look like a whole one.
	printed map[string]Group
}

// follow shows the groups until ctx is done.
//
// On a terminal it redraws the table, trouble first. In a file or a pipe the
// output would grow without end, so each change is a line.
func (c ListCommand) follow(ctx context.Context, std app.Streams, s *app.Session, st app.Registers) error {
	l := &list{cmd: c, std: std, hidden: hides(c.Pattern, c.All)}
	f, ok := std.Out.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) || c.Output == "json" || c.Env.Get("TERM") == "dumb" {
		return l.run(ctx, s, st)
	}
	l.screen = newPager(std, c.Bare)
	l.cmd.Sort = cmp.Or(l.cmd.Sort, "trouble")
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- l.run(ctx, s, st)
		l.screen.Quit()
	}()
	_, err := l.screen.Run()
	cancel() // by a key
	return errors.Join(<-ended, err)
}

// run follows the groups until outer is done or something fails permanently.
// When run returns nothing uses the session, which the caller closes next.
func (l *list) run(outer context.Context, s *app.Session, st app.Registers) error {
	ctx, cancel := context.WithCancelCause(outer)
	heard := &hearing{Reporting: app.Reporting{PatternWatcher: st}, stderr: l.std.Err, end: cancel}
	paused, once := make(chan struct{}), sync.Once{}
	var drawing sync.WaitGroup
	defer drawing.Wait()
	defer cancel(nil)
	err := l.board.Follow(ctx, heard, l.cmd.Pattern, func(news board.News) {
		var err error
		switch {
		case news.Failed != nil:
			heard.failed(news.Failed, len(l.board.Names()) > 0)
		case news.Paused:
			once.Do(func() { close(paused) })
		case !news.Present:
			err = l.changed(news.Group)
		case l.printed == nil:
			if err = l.complete(ctx, s, paused); l.screen != nil {
				drawing.Go(func() { cancel(l.redraw(ctx)) })
			}
		}
		if err != nil {
			cancel(err)
		}
	})
	if err == nil && outer.Err() == nil {
		err = context.Cause(ctx)
	}
	return err
}

// complete fills in, once, what the records do not contain about the groups
// that were there at the beginning, and prints all groups. Present waits for
// complete for three seconds at most.
func (l *list) complete(ctx context.Context, s *app.Session, paused <-chan struct{}) error {
	known, cancel := context.WithTimeout(ctx, 2*enough)
	defer cancel()
	Learn(known, s, l.cmd.Pattern, &l.board)
	within(ctx, enough, paused)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.printed = make(map[string]Group)
	d := l.board.Since(0)
	if d.State.Ignored > 0 {
		app.Say(l.std.Err, fmt.Errorf("only %d groups are followed; a pattern chooses among more", board.MaxGroups))
	}
	for _, g := range d.Changed {
		if err := l.print(g.Group); err != nil {
			return err
		}
	}
	return nil
}

// changed takes in that a group has changed.
func (l *list) changed(group string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.printed == nil || l.screen != nil {
		return nil
	}
	return l.print(group)
}

// print prints a group, if it is not as the last line shows it. A pause brings
// back none that is hidden.
func (l *list) print(name string) error {
	now := time.Now()
	b, there := l.board.Group(name)
	g := neverLed(name)
	if there {
		g = groupOn(b, now)
	}
	was, printed := l.printed[name]
	if there && !l.hidden(b.LeaderInfo) {
		l.printed[name] = g
		printed = !printed || !g.reads(was)
	} else {
		delete(l.printed, name)
	}
	switch {
	case !printed || l.screen != nil || l.cmd.Vacant && g.Leader != "":
		return nil
	case l.cmd.Output == "json":
		return output.WriteLine(l.std.Out, g)
	default:
		return lineOf(g, now).write(l.std.Out)
	}
}

// reads reports whether two lines about a group differ only in times: a renewal
// is not a change.
func (g Group) reads(as Group) bool {
	return g.Leader == as.Leader && g.Term == as.Term && g.Reason == as.Reason && g.By == as.By && g.Why == as.Why &&
		g.Paused == as.Paused && g.PausedBy == as.PausedBy && g.PausedWhy == as.PausedWhy
}

// redraw hands the table to the pager until ctx is done. Four times a second are
// enough for times that count, and changes are not drawn by themselves: many at
// once would flicker.
func (l *list) redraw(ctx context.Context) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		now := time.Now()
		var groups []Group
		for _, b := range l.board.Since(0).Changed {
			if !l.hidden(b.LeaderInfo) {
				groups = append(groups, groupOn(b, now))
			}
		}
		var text bytes.Buffer
		if err := l.cmd.WriteOn(l.cmd.Screen(l.std.Out), &text, l.cmd.table(groups, now)); err != nil {
			return err
		}
		l.screen.Send(screenful(strings.Split(strings.TrimRight(text.String(), "\n"), "\n")))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
