package steer

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// results is the part of the help that all commands share.
const results = `

--timeout bounds the whole command, without the time in which it waits for your answer.

Fields of -o json: operation, group, by, why, outcome, from (id, term, address), to (likewise), reason (why the
leader's record states that it left), drain_ms (from the request until the leader had left), gap_ms (how long nobody led). The outcome
is done, filed (--no-wait), withdrawn, nothing-asked, or how it ended otherwise: other-successor, term-over, no-leader, timeout, broken-off (by a signal, or since the record cannot be read any more).

Exit status: 0 done; 1 another than the successor leads, the term ended otherwise, or the question was not answered with
yes; 2 wrong usage, also without --yes where nobody can be asked; 4 nobody leads, or no candidate of that name campaigns; 5 a permission is missing, or the bucket, and the message names it; 6 no
effect in time.`

// StepDownCommand asks the leader to leave.
type StepDownCommand struct {
	Flags

	Withdraw bool `help:"Take back a request, of step-down or transfer, that the leader has not obeyed yet."`
}

// Help describes the command.
func (StepDownCommand) Help() string {
	return `Asks the leader of a group to stop its work and release. It then does not campaign until another has led,
or until TTL × 1.1 has passed. The request is meant for the term that leads now, and no later one obeys it.

A leader that has died or is cut off cannot obey: its lease runs out, and another takes over.` + results + `

Examples:
  leader step-down reports --dev
  leader step-down reports --why "upgrade of host 3" --timeout 30s
  leader step-down reports --yes -o json | jq .gap_ms
  leader step-down reports --withdraw`
}

// Run asks.
func (c StepDownCommand) Run(ctx context.Context, std app.Streams) error {
	return c.run(ctx, std, "step-down", func(ctx context.Context, d *desk) error {
		if c.Withdraw {
			return d.withdraw(ctx)
		}
		return d.replace(ctx, leader.Request{Op: leader.OpStepDown})
	})
}

// TransferCommand asks the leader to hand over.
type TransferCommand struct {
	Flags

	To    string `required:"" placeholder:"ID" help:"The candidate that is to lead."`
	Force bool   `help:"Ask also if others answer the roll call and that candidate does not."`
}

// Help describes the command.
func (TransferCommand) Help() string {
	return `Asks the leader of a group to stop its work and hand over to a candidate. The others give that one a head
start; if it is not there, one of them leads, later. So the candidates are asked first which of them campaign: if some answer and
that one does not, nothing is asked for without --force. leader get GROUP shows them. A candidate that leads already is
left to lead, and the outcome is nothing-asked. leader step-down --withdraw takes back what the leader has not obeyed yet.` + results + `

Examples:
  leader transfer reports --to worker-1 --dev
  leader transfer reports --to worker-9 --yes --force   # it starts soon
  leader transfer reports --to worker-3 --why "worker-2 gets a new disk" --yes`
}

// Validate checks what the parser cannot.
func (c TransferCommand) Validate() error {
	errs := []error{c.Flags.Validate()}
	if c.To == "" {
		errs = append(errs, errors.New("--to: must name a candidate"))
	}
	return errors.Join(errs...)
}

// Run asks.
func (c TransferCommand) Run(ctx context.Context, std app.Streams) error {
	return c.run(ctx, std, "transfer", func(ctx context.Context, d *desk) error {
		d.force = c.Force
		return d.replace(ctx, leader.Request{Op: leader.OpTransfer, Successor: c.To})
	})
}

// PauseCommand keeps everybody from leading.
type PauseCommand struct{ Flags }

// Help describes the command.
func (PauseCommand) Help() string {
	return `Keeps every candidate of a group from leading until leader resume, also those that start later and after a
restart of everything. The leader stops its work and releases. A group of which nothing is known yet can be paused, too.

The command returns when nobody leads. A leader that has died holds the record until its lease runs out.` + results + `

Examples:
  leader pause reports --dev
  leader pause billing --why "database migration" --timeout 1m
  leader pause billing --yes && ./migrate && leader resume billing --yes`
}

// Run pauses.
func (c PauseCommand) Run(ctx context.Context, std app.Streams) error {
	return c.run(ctx, std, "pause", func(ctx context.Context, d *desk) error {
		return d.pause(ctx)
	})
}

// ResumeCommand ends a pause.
type ResumeCommand struct{ Flags }

// Help describes the command.
func (ResumeCommand) Help() string {
	return `Ends the pause of a group, and returns when somebody leads it. Nothing of a pause is kept when it has ended: --by and
--why appear in what this command prints, and nowhere else.` + results + `

Examples:
  leader resume billing --dev
  leader resume billing --yes --timeout 30s`
}

// Run resumes.
func (c ResumeCommand) Run(ctx context.Context, std app.Streams) error {
	return c.run(ctx, std, "resume", func(ctx context.Context, d *desk) error {
		return d.resume(ctx)
	})
}

// who describes a leader, for people. The name is quoted, since others wrote
// it.
func who(info leader.LeaderInfo) string { return fmt.Sprintf("%q (term %d)", info.ID, info.Term) }
