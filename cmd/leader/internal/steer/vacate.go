package steer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// The actions of vacate and forget, as their results name them.
const (
	opVacate leader.Operation = "vacate"
	opForget leader.Operation = "forget"
)

// endFlags are what the commands that end a record have in common. They are
// Flags without --no-wait: these commands write the record themselves, and
// nobody has to obey.
type endFlags struct {
	app.Target
	output.Format

	Group string `arg:"" help:"The group."`
	Why   string `placeholder:"TEXT" help:"The reason: it reaches every candidate and observer."`
	By    string `env:"LEADER_BY" placeholder:"NAME" help:"Who asks (default: user@host)."`
	Yes   bool   `short:"y" help:"Do it without asking back."`
}

// Validate checks what the parser cannot.
func (f endFlags) Validate() error { return f.flags().Validate() }

func (f endFlags) flags() Flags {
	return Flags{Target: f.Target, Format: f.Format, Group: f.Group, Why: f.Why, By: f.By, Yes: f.Yes}
}

// VacateCommand ends the record of a holder that is gone.
type VacateCommand struct {
	endFlags

	Force bool `help:"Do it without watching whether the holder renews. Make sure that it is gone."`
}

// Help describes the command.
func (VacateCommand) Help() string {
	return `Ends the record of a holder that is gone, so that candidates lead at once: those that have waited for it as well as new
ones. It is for a record that nobody else ends soon: of another program, of a host that is known to be dead, of a long lease. A leader
that answers is asked by leader step-down.

A record of this library is watched for as long as its lease lasts, and left alone if it is renewed meanwhile. So its holder is gone, or
can act no more by it, when its record is ended.

--force ends it at once. A record of another program, or one that was deleted, does not show how long its writer acts by it, so that
watching would show nothing, and is ended at once without --force, too. MAKE SURE OF THIS FIRST: that the writer's process has ended,
or its host is off or cut off from all that it writes to. Otherwise two act at the same time: a leader of this library until it hears of it, or
at the latest until its lease runs out; another program for as long as it does not look.

--timeout bounds the whole command, without the lease for which it watches and the time in which it waits for your answer.

What changes after it was looked at is left alone in any case. It takes the right to write the group's key, as candidates have it.

Fields of -o json: operation, group, by, why, outcome (done, or nothing-asked where nobody holds the record), from (id, term, address:
who held the record), reason.

Exit status: 0 done; 1 the record is renewed or changed meanwhile, and is left alone, or the question was not answered with
yes; 2 wrong usage, also without --yes where nobody
can be asked; 4 the bucket knows nothing of the group; 5 a permission is missing, or the bucket; 6 the server did not answer in time.

Examples:
  leader vacate reports --dev --force
  leader vacate reports --why "host 3 burnt down"
  leader vacate old-worker --yes && leader wait old-worker --timeout 1m`
}

// Run ends the record.
func (c VacateCommand) Run(ctx context.Context, std app.Streams) error {
	return c.flags().run(ctx, std, "vacate", func(ctx context.Context, d *desk) error {
		return d.vacate(ctx, c.Force)
	})
}

// ForgetCommand marks a group as gone.
type ForgetCommand struct{ endFlags }

// Help describes the command.
func (ForgetCommand) Help() string {
	return `Marks a group that is gone permanently, so that leader ls, watch and exporter leave it out, which show it with --all. leader dash
has it under "forgotten". Nothing is deleted: if the group returns, it is shown again, and the numbers of its terms go on growing. Its history stays as long as
the history does, and what its control record contains of past runs (leader run --once) stays, too.

A record that somebody holds is watched for as long as its lease lasts, and left alone if it is renewed meanwhile. A record of another
program has to be ended by leader vacate before. A group that is paused is not forgotten, since who returns would wait for
the end of a pause that nobody remembers: leader resume GROUP --no-wait ends it.

--timeout bounds the whole command, without the lease for which it watches and the time in which it waits for your answer.

Candidates that still campaign make the group return at once; the command reports it if they answer the roll call. It takes the right to
write the group's key, as candidates have it.

Fields of -o json: operation, group, by, why, outcome (done, or nothing-asked where it is forgotten already), from (id, term, address:
who held the record), reason.

Exit status: 0 done; 1 the group is led or paused, or the question was not answered with yes; 2 wrong usage, also without --yes where nobody can be asked; 4 the bucket knows
nothing of the group; 5 a permission is missing, or the bucket; 6 the server did not answer in time.

Examples:
  leader forget reports --why "moved to another cluster"
  leader ls --vacant   # what nobody leads
  leader ls --all`
}

// Run forgets the group.
func (c ForgetCommand) Run(ctx context.Context, std app.Streams) error {
	return c.flags().run(ctx, std, "forget", func(ctx context.Context, d *desk) error {
		return d.forget(ctx)
	})
}

// vacate ends the record of a holder that is gone.
//
// The request contains the revision that was shown, so that exactly the record
// that the user confirmed is ended: a record that was renewed meanwhile, or is
// another's by now, is left alone. A record without a lease cannot be watched,
// and is ended as with --force; the question states that.
func (d *desk) vacate(ctx context.Context, force bool) error {
	s, err := d.known(ctx)
	if err != nil {
		return err
	}
	// The group is vacant already, which is not an error, so that scripts can
	// be rerun.
	if s.Vacant {
		d.say("Nobody holds the record of group %q: %s.", d.flags.Group, d.vacancy(s.Leader))
		return d.ended(opVacate, s, s.Leader, outcomeNothing)
	}
	if err := d.confirm(ctx, "%s", d.vacateRisk(s, force)); err != nil {
		return err
	}
	watched := s.Lease
	if force {
		watched = 0
	}
	return d.end(ctx, opVacate, s, watched, func(ctx context.Context) (leader.LeaderInfo, error) {
		return d.control.Vacate(ctx, leader.VacateRequest{
			Group: d.flags.Group, Revision: s.Revision, Force: force || s.Lease == 0, Why: d.flags.Why,
		})
	})
}

// vacateRisk describes the action, and the conditions that the user must be
// sure of. The four cases differ in which processes may act at the same time as
// the next leader, and for how long: only the user can rule that out.
func (d *desk) vacateRisk(s leader.ControlState, force bool) string {
	group := d.flags.Group
	const sure = "Make sure that it has ended, or that its host is off or cut off from all that it writes to."
	switch {
	case s.Lease == 0 && s.Leader.ID == "":
		return fmt.Sprintf("Ends the record of group %q (%s), which no candidate wrote: it does not state how long its "+
			"writer, or a leader of before, may act. If one does, it acts beside the next leader. %s", group, s.Leader.Reason, sure)
	case s.Lease == 0:
		return fmt.Sprintf("Ends the record of %q in group %q, which does not state how long its writer may act by it. If that writer lives, it "+
			"acts beside the next leader for as long as it does not look. %s", s.Leader.ID, group, sure)
	case force:
		return fmt.Sprintf("Ends the record of %s in group %q without watching whether it is renewed. If %q lives, it acts beside the next "+
			"leader until it hears of that, or until its lease runs out, for %s at the most. %s",
			who(s.Leader), group, s.Leader.ID, s.Lease.Round(time.Millisecond), sure)
	}
	return fmt.Sprintf("Ends the record of %s in group %q, if %q does not renew it for %s, as long as its lease lasts.",
		who(s.Leader), group, s.Leader.ID, s.Lease.Round(time.Millisecond))
}

// forget marks the group as gone.
//
// A pause would outlive it without being shown, and candidates that return
// would wait forever. A record without a lease cannot be watched, and ending it
// on a guess is left to vacate, which asks about that risk.
func (d *desk) forget(ctx context.Context) error {
	s, err := d.known(ctx)
	if err != nil {
		return err
	}
	group := d.flags.Group
	switch {
	case s.Paused:
		return fmt.Errorf("%w: group %q, by %q%s; leader resume %s --no-wait ends that",
			leader.ErrPaused, group, s.PausedBy, reason(s.PausedWhy), group)
	// Success, so that a script may be repeated.
	case s.Vacant && s.Leader.Reason == leader.ReasonForgotten:
		d.say("Group %q is forgotten already.", group)
		return d.ended(opForget, s, s.Leader, outcomeNothing)
	case !s.Vacant && s.Lease == 0:
		return fmt.Errorf("%w: no candidate wrote the record of group %q, so it is unknown whether somebody acts by it; "+
			"leader vacate %s ends it", leader.ErrLed, group, group)
	}
	// A vacancy has no lease to be watched for, and is marked at once.
	first := ""
	if s.Lease > 0 {
		first = fmt.Sprintf(", if %s does not renew its record for %s, as long as its lease lasts", who(s.Leader), s.Lease.Round(time.Millisecond))
	}
	err = d.confirm(ctx, "Marks group %q as gone%s%s.%s", group, reason(d.flags.Why), first, d.standing(ctx))
	if err != nil {
		return err
	}
	return d.end(ctx, opForget, s, s.Lease, func(ctx context.Context) (leader.LeaderInfo, error) {
		return d.control.Forget(ctx, group, d.flags.Why)
	})
}

// standing returns a warning if candidates answer the roll call: the group is
// not gone then. It does not refuse: a forgotten group returns by itself when
// somebody leads it, so that a mistake costs nothing.
func (d *desk) standing(ctx context.Context) string {
	ctx, cancel := context.WithDeadline(ctx, d.until)
	defer cancel()
	all, err := d.session.RollCall(ctx, d.flags.Group)
	if len(all) == 0 { // nobody answers, or the user may not ask
		return ""
	}
	answered := strconv.Itoa(len(all))
	if errors.Is(err, nats.ErrMaxMessages) {
		answered = "more than " + answered
	}
	return fmt.Sprintf(" It returns at once: candidate %q campaigns (%s answered the roll call).", all[0].Instance, answered)
}

// known is the state of a group of which the bucket knows something. It comes
// before any question: that a name was mistyped is not for the user to confirm.
func (d *desk) known(ctx context.Context) (leader.ControlState, error) {
	s, err := d.state(ctx)
	if err == nil && s.Revision == 0 {
		err = fmt.Errorf("%w: group %q: the bucket %q knows nothing of it", app.ErrNotFound, d.flags.Group, d.session.Bucket)
	}
	return s, err
}

// end has the record ended, with the time for which it is watched, and reports.
// Of a leader that was seen to renew, the user learns how to ask it
// instead.
func (d *desk) end(ctx context.Context, op leader.Operation, before leader.ControlState, watched time.Duration, do func(context.Context) (leader.LeaderInfo, error)) error {
	ctx, cancel := context.WithDeadline(ctx, d.until.Add(watched)) // a lease may be longer than --timeout
	defer cancel()
	info, err := do(ctx)
	switch {
	// Of a record that nobody is named in, there is nobody to be asked.
	case errors.Is(err, leader.ErrLed) && before.Leader.ID != "":
		return fmt.Errorf("%w; leader step-down %s asks the leader to leave", err, d.flags.Group)
	case err != nil:
		return err
	case op == opForget:
		d.say("Group %q is marked as gone.", d.flags.Group)
	default:
		d.say("Nobody holds the record of group %q any more, and its candidates may lead.", d.flags.Group)
	}
	return d.ended(op, before, info, outcomeDone)
}

// ended reports what vacate or forget has done.
func (d *desk) ended(op leader.Operation, before leader.ControlState, now leader.LeaderInfo, outcome string) error {
	h := leader.Handover{From: before.Leader, Vacancy: now}
	h.Request = leader.Request{Op: op, Group: d.flags.Group, By: now.By, Why: now.Why}
	return d.report(h, outcome)
}
