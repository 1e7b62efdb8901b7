package steer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/store"
)

// A desk is where one command is dealt with. It belongs to one goroutine.
type desk struct {
	flags   Flags
	std     app.Streams
	session *app.Session
	control *leader.Control
	until   time.Time // the end of --timeout, which a question to the user puts off
	force   bool      // an unknown successor is requested, too
}

// say prints one line for the user. Text of others in it must not steer the
// terminal.
func (d *desk) say(format string, args ...any) {
	fmt.Fprintln(d.std.Err, output.Printable(fmt.Sprintf(format, args...)))
}

// state is what is asked of the group and who holds its record.
func (d *desk) state(ctx context.Context) (leader.ControlState, error) {
	ctx, cancel := context.WithDeadline(ctx, d.until)
	defer cancel()
	return d.control.State(ctx, d.flags.Group)
}

// led is state with who leads now. To find that out may take the time that is
// left but for a share, which is kept for what follows.
func (d *desk) led(ctx context.Context, kept time.Duration) (leader.ControlState, error) {
	s, err := d.state(ctx)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithDeadline(ctx, d.until.Add(-kept))
	defer cancel()
	led := d.session.Standings(ctx, []leader.LeaderInfo{s.Leader})[0]
	s.Leader = led.LeaderInfo
	if led.Last != "" {
		s.Leader.Why = fmt.Sprintf("%s has not renewed since %s", led.Last, led.Renewed.Local().Format(time.DateTime))
	}
	return s, nil
}

// replace has the present leader leave: step-down and transfer. Where nobody
// leads that is an error: a script that empties a host must hear that it has
// emptied nothing.
func (d *desk) replace(ctx context.Context, r leader.Request) error {
	s, err := d.led(ctx, 0)
	switch {
	case err != nil:
		return err
	case s.Leader.ID == "" && s.Paused:
		return fmt.Errorf("%w: group %q is paused, by %q%s; leader resume %s ends that",
			leader.ErrNoLeader, d.flags.Group, s.PausedBy, reason(s.PausedWhy), d.flags.Group)
	case s.Leader.ID == "":
		return fmt.Errorf("%w: nobody to ask in group %q: %s", leader.ErrNoLeader, d.flags.Group, d.vacancy(s.Leader))
	case s.Leader.ID == r.Successor:
		return d.leadsAlready(r, s.Leader)
	}
	// The user confirms a request for this term: a later term is not asked to
	// end.
	r.Term = s.Leader.Term
	then := "It does not campaign until another has led, or TTL × 1.1 has passed."
	if r.Op == leader.OpTransfer {
		// Before the question, so that nobody confirms what is refused then.
		if err := d.stands(ctx, r.Successor); err != nil {
			return err
		}
		then = fmt.Sprintf("The others give %q a head start.", r.Successor)
	}
	err = d.confirm(ctx, "Asks %s to stop its work and release group %q%s. %s", who(s.Leader), d.flags.Group, reason(d.flags.Why), then)
	if err != nil {
		return err
	}
	return d.ask(ctx, r, s)
}

// leadsAlready reports a transfer to the present leader, which is done without
// being asked for: a script that wants that candidate to lead may be repeated.
func (d *desk) leadsAlready(r leader.Request, info leader.LeaderInfo) error {
	d.say("%s leads group %q already: nothing is asked.", who(info), d.flags.Group)
	r.Group = d.flags.Group
	return d.report(leader.Handover{Request: r, From: info, To: info}, outcomeNothing)
}

// stands refuses a successor that does not answer the roll call where others
// do: a mistyped name would cost the group its leader. Where nobody answers,
// nothing is known: not every candidate does, and not every operator may ask.
func (d *desk) stands(ctx context.Context, id string) error {
	if d.force {
		return nil
	}
	var names []string
	for range 2 { // one that is busy may miss the first call
		ctx, cancel := context.WithDeadline(ctx, d.until)
		all, err := d.session.RollCall(ctx, d.flags.Group)
		cancel()
		if err != nil || len(all) == 0 {
			return nil //nolint:nilerr // a user without the right gets no message
		}
		names = nil
		for _, c := range all {
			if c.Instance == id {
				return nil
			}
			names = append(names, strconv.Quote(c.Instance))
		}
	}
	do := "do"
	if len(names) == 1 {
		do = "does"
	}
	return fmt.Errorf("%w: group %q: no candidate %q answers the roll call; %s %s (--force asks all the same)",
		app.ErrNotFound, d.flags.Group, id, listed(names), do)
}

// listed joins names as people do.
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// pause keeps everybody from leading. It names no term, unlike replace: it is
// meant for the leader, and for all candidates. A group that is paused already
// stays so in the first name, and the user is shown which.
func (d *desk) pause(ctx context.Context) error {
	s, err := d.led(ctx, d.flags.Timeout/2)
	if err != nil {
		return err
	}
	now := "Nobody leads it now."
	if s.Leader.ID != "" {
		now = fmt.Sprintf("%s stops its work and releases.", who(s.Leader))
	}
	if s.Paused {
		now += fmt.Sprintf(" It is paused already, by %q%s, and stays so in that name.", s.PausedBy, reason(s.PausedWhy))
	}
	err = d.confirm(ctx, "Pauses group %q%s: nobody may lead it until it is resumed. %s", d.flags.Group, reason(d.flags.Why), now)
	if err != nil {
		return err
	}
	return d.ask(ctx, leader.Request{Op: leader.OpPause}, s)
}

// resume ends a pause. Resuming a group that is not paused is a no-op, so that
// scripts can be rerun.
func (d *desk) resume(ctx context.Context) error {
	s, err := d.led(ctx, d.flags.Timeout/2)
	if err != nil {
		return err
	}
	now := "It is not paused."
	if s.Paused {
		now = fmt.Sprintf("It was paused by %q%s.", s.PausedBy, reason(s.PausedWhy))
	}
	if err := d.confirm(ctx, "Resumes group %q: its candidates may lead again. %s", d.flags.Group, now); err != nil {
		return err
	}
	return d.ask(ctx, leader.Request{Op: leader.OpResume}, s)
}

// ask makes a request, waits for its effect if it is to, and reports.
//
// Of a request that is known to be stored there is always a report, also with
// an error: what became of it is for a program to read, and the error decides
// the exit status. Of one that is not there is nothing to report but the error.
func (d *desk) ask(ctx context.Context, r leader.Request, before leader.ControlState) error {
	r.Group, r.Why = d.flags.Group, d.flags.Why
	ctx, cancel := context.WithDeadline(ctx, d.until)
	defer cancel()
	if d.flags.NoWait {
		r, err := d.control.File(ctx, r)
		if err != nil {
			return err
		}
		d.say("The request is stored. leader get %s shows what comes of it.", d.flags.Group)
		return d.report(leader.Handover{Request: r, From: before.Leader}, outcomeFiled)
	}
	// Ask looks at the group once more before it writes, since the answer of
	// confirm may have taken long.
	h, err := d.control.Ask(ctx, r)
	// h is empty then, and a report would look like an effect.
	if !h.Filed && notFiled(err) {
		return err
	}
	// Ask counts from the request where it saw no vacancy.
	if h.Request.Op == leader.OpResume && h.To.Term == before.Leader.Term {
		h.Gap = 0 // it led all along: the group was not paused
	}
	d.tell(h, err)
	return errors.Join(d.report(h, outcomeOf(err)), d.explain(h, err))
}

// notFiled reports whether a request that is not known to be stored failed for
// its own sake, and not for what the group was seen to do: the error is one of
// the store's, or of the flags.
func notFiled(err error) bool {
	for _, class := range []error{store.ErrPermanent, store.ErrTransient, store.ErrUnknown, leader.ErrInvalidConfig} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// tell reports the outcome of a request in words.
func (d *desk) tell(h leader.Handover, err error) {
	switch group := d.flags.Group; {
	case err != nil && h.To.ID == "":
		// The error contains it.
	case h.Request.Op == leader.OpPause:
		d.say("Group %q is paused, and nobody leads it.", group)
	case h.Gap == 0:
		d.say("%s leads group %q.", who(h.To), group)
	default:
		d.say("%s leads group %q; nobody did for %s.", who(h.To), group, milliseconds(h.Gap))
	}
}

// explain adds to an error what can be done about it. A request does not end
// with the command that made it: who gives up, by time, by a signal, or since the
// record cannot be read any more, must know that it may yet be obeyed.
func (d *desk) explain(h leader.Handover, err error) error {
	unseen := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || store.Classify(err) == store.Permanent
	switch {
	case err == nil:
		return nil
	// The group answered, or no request is left.
	case !unseen, h.Request.Op == leader.OpResume:
		return err
	case h.Request.Op == leader.OpPause:
		return fmt.Errorf("%w (leader resume %s takes the pause back)", err, d.flags.Group)
	case h.Vacancy.Group != "":
		return err // the leader has gone: there is nothing to take back
	}
	return fmt.Errorf("%w (it stays in force until that term ends; leader step-down %s --withdraw withdraws it)", err, d.flags.Group)
}

// noTerm is the number of no term: revisions stay below it for two centuries
// (natsstore.EnsureBucket).
const noTerm = 1 << 53

// withdraw replaces the current request by a request that is meant for no term.
// There is one place for a request, and no way to delete it: so a request that
// nobody can obey replaces it. The leader may be obeying the first request at
// that moment, which the last message states.
func (d *desk) withdraw(ctx context.Context) error {
	s, err := d.state(ctx)
	if err != nil {
		return err
	}
	h := leader.Handover{Request: leader.Request{Op: leader.OpStepDown, Group: d.flags.Group}, From: s.Leader}
	// Success: that nothing is asked is what was wanted.
	if s.Pending.Op == "" {
		d.say("Nothing is asked of the leader of group %q.", d.flags.Group)
		return d.report(h, outcomeNothing)
	}
	p := s.Pending
	if err := d.confirm(ctx, "Takes back the request %s that %q made of %s%s.", p.Op, p.By, who(s.Leader), reason(p.Why)); err != nil {
		return err
	}
	// The question may have waited for long.
	switch s, err = d.state(ctx); {
	case err != nil:
		return err
	case s.Pending != p && s.Pending.Op != "":
		return fmt.Errorf("leader: another request is in force now: %s, which %q made%s; it is not withdrawn", s.Pending.Op, s.Pending.By, reason(s.Pending.Why))
	}
	ctx, cancel := context.WithDeadline(ctx, d.until)
	defer cancel()
	h.Request, err = d.control.File(ctx, leader.Request{Op: leader.OpStepDown, Group: d.flags.Group, Term: noTerm, Why: d.flags.Why})
	if err != nil {
		return err
	}
	d.say("The request is taken back, unless it was obeyed meanwhile.")
	return d.report(h, outcomeWithdrawn)
}

// reason is a reason in brackets, if there is one. It is quoted: others wrote
// it.
func reason(why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", why)
}

// vacancy describes why nobody leads. A second operator needs to know by whose
// request, and why.
func (d *desk) vacancy(info leader.LeaderInfo) string {
	switch {
	case info.Reason == leader.ReasonAbsent:
		return fmt.Sprintf("the bucket %q knows nothing of it", d.session.Bucket)
	case info.By == "":
		return string(info.Reason) + reason(info.Why)
	default:
		return fmt.Sprintf("%s, by %q%s", info.Reason, info.By, reason(info.Why))
	}
}

// milliseconds shows a short time.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", inMilliseconds(d)) }

func inMilliseconds(d time.Duration) float64 { return float64(d.Round(100*time.Microsecond)) / 1e6 }
