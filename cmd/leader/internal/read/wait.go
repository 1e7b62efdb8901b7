package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// WaitCommand waits until a group is led, or vacant.
type WaitCommand struct {
	app.Target
	output.Format

	Group  string `arg:"" help:"The group."`
	By     string `placeholder:"ID" help:"Until this candidate leads."`
	Vacant bool   `help:"Until nobody leads."`
}

// Help describes the command.
func (WaitCommand) Help() string {
	return `Waits until somebody leads a group, and shows it as leader ls does. With --by it waits for one candidate, with --vacant
until nobody leads: the leader has released, or its lease has run out. A group of which the bucket knows nothing is vacant. A
server that is not there yet is waited for as well.

A record does not show whether its leader lives. So somebody counts as leading when the server has stored a renewal within the lease, by
the clocks of the server and of this host, or when the next renewal arrives. Where leaders cool down before they act
(leader run --grace), one is waited for no longer: it leads as far as others can see.

With -o json there is one object, as of leader ls.

Exit status: 0; 1 if a signal ended it; 2 wrong usage; 5 if the bucket is missing or may not be read; 6 if it did not come to that within --timeout.

Examples:
  leader wait reports --dev
  leader wait reports --timeout 1m && curl http://reports/
  leader wait reports --by host-2 --timeout 30s
  leader pause reports --yes --no-wait && leader wait reports --vacant`
}

// Validate checks what the parser cannot.
func (c WaitCommand) Validate() error {
	errs := []error{c.Target.Validate(), app.ValidGroup(c.Group)}
	if c.Vacant && c.By != "" {
		errs = append(errs, errors.New("--vacant: nobody leads then, and --by names who is to"))
	}
	return errors.Join(errs...)
}

// Run waits. It watches and does not poll: the awaited state may last for less
// than the time between two polls. Time that is up is an error with the state
// instead, for readers of a script's log; a signal is not.
func (c WaitCommand) Run(ctx context.Context, std app.Streams) error {
	// ctx itself is left alone: that it is done means a signal.
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	s, err := c.Await(limited, "wait")
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := s.Store()
	if err != nil {
		return err
	}
	paused, stop := watchPauses(limited, st, c.Group)
	defer stop()
	w := &waiting{cmd: c, details: newDetails(s)}
	err = observe(limited, st, c.Group, std.Err, w.run)
	switch {
	// First, since time may have been up just after.
	case w.fits:
		g := w.last.since(began(w.last.info)) // nobody else is asked, since that takes time
		if g.Leader == "" {
			g = g.withPause(paused.now(limited)) // why nobody leads
		}
		shown := table([]Group{g}, time.Now())
		shown.Value = g
		return c.Write(std.Out, shown)
	case err != nil:
		return err
	case ctx.Err() != nil:
		return &app.ExitError{Code: app.ExitFailure} // by a signal, which needs no words
	}
	w.last = w.last.withPause(paused.now(limited))
	return fmt.Errorf("%w: %s", context.DeadlineExceeded, w.describe())
}

// A waiting is what one command has seen so far. It belongs to the goroutine of
// Run.
type waiting struct {
	cmd     WaitCommand
	details *details
	last    Group
	fits    bool // what was waited for has come
}

// run takes observations until they fit. The end of ctx is not an error here:
// Run distinguishes time that is up from a signal.
func (w *waiting) run(ctx context.Context, seen <-chan observed) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case x := <-seen:
			w.take(ctx, x)
			if w.fits {
				return nil
			}
		}
	}
}

// take records a report of the observer.
//
// A holder of the record is not enough: a leader that has died holds it, too,
// until its lease runs out, and the caller is about to connect to it. A renewal
// that arrives is proof. Until a renewal arrives, the server is asked when it
// stored the last one. If the server does not report that, no leader is missed:
// the next renewal comes within a heartbeat.
func (w *waiting) take(ctx context.Context, x observed) {
	if x.present {
		return
	}
	w.last = groupOf(x.info, time.Now())
	if x.info.ID != "" && !x.renewed {
		w.last = w.last.withStanding(w.details.record.try(ctx, w.last), time.Now())
	}
	switch {
	case w.cmd.Vacant:
		w.fits = w.last.Leader == ""
	case w.last.Leader == "", w.cmd.By != "" && w.cmd.By != w.last.Leader:
	default:
		w.fits = x.renewed || w.last.Stored
	}
}

// describe returns the state instead of the awaited one. A leader that does not
// renew is described separately, since waiting for longer may be of no use:
// another program may have written the record.
func (w *waiting) describe() string {
	switch g := w.last; {
	case g.Leader != "" && w.cmd.Vacant:
		return fmt.Sprintf("%q leads group %q in term %d", g.Leader, w.cmd.Group, g.Term)
	case g.Leader != "" && w.cmd.By != "" && w.cmd.By != g.Leader:
		return fmt.Sprintf("%q leads group %q in term %d, and not %q", g.Leader, w.cmd.Group, g.Term, w.cmd.By)
	case g.Leader != "":
		return fmt.Sprintf("%q holds the record of group %q and does not renew it", g.Leader, w.cmd.Group)
	case g.Reason == "" && !g.Paused:
		return fmt.Sprintf("nothing was heard of group %q", w.cmd.Group)
	default:
		change, _ := g.stands()
		return fmt.Sprintf("nobody leads group %q: %s", w.cmd.Group, change)
	}
}
