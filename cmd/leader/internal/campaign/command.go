// Package campaign is leader campaign: a candidate without work, for trying
// things out.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/candidate"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// A Command is the command line of leader campaign.
type Command struct {
	candidate.Flags `set:"profile=low-latency"`

	ResignAfter time.Duration `placeholder:"TIME" help:"Resign after leading for so long, each time."`
	For         time.Duration `placeholder:"TIME" help:"End after this time."`
	JSON        bool          `name:"json" help:"Print one JSON object per transition."`

	Group string `arg:"" help:"The group to campaign in."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Campaigns and prints a line for each transition, until it is interrupted. Then it releases what it holds. It does no work; leader run runs a program.

The columns, and the fields of --json: the time, the event (campaigning, following, promoted, demoted, stopped), the reason, the
number of the term that begins or ended, who leads as far as known, and who asked for it and why, if somebody did.

On Unix systems the signal USR1 makes the candidate unhealthy, and the next one healthy again. An unhealthy leader hands over.

Exit status: 0 when interrupted or after --for, 2 wrong usage, 5 refused by the server, 1 other failures.

Examples:

  # A separate server, and one candidate.
  leader campaign --dev jobs
  # In one terminal, and in another: they take turns.
  leader campaign jobs --id a --resign-after 10s
  leader campaign jobs --id b --resign-after 10s
  # Leads only while the file exists.
  leader campaign jobs --id c --check 'test -e /tmp/fit'`
}

// Validate checks what the parser cannot.
func (c Command) Validate() error {
	errs := []error{c.Flags.Validate(), app.ValidGroup(c.Group)}
	for name, d := range map[string]time.Duration{"--resign-after": c.ResignAfter, "--for": c.For} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s %v: must not be negative", name, d))
		}
	}
	return errors.Join(errs...)
}

// Run takes part until ctx is done.
func (c Command) Run(ctx context.Context, std app.Streams) error {
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	cfg, err := c.Config(c.Group, leader.ProfileLowLatency, shell(std.Err, c.Environ()), std.Err)
	if err != nil {
		return err
	}
	fitness := newFitness(cfg.HealthChecker)
	defer fitness.close()
	cfg.HealthChecker = fitness
	printer := &printer{w: std.Out, json: c.JSON}
	cfg.Hooks.Transition = printer.print
	session, err := c.Connect(ctx, "campaign", std.Err)
	switch {
	case ctx.Err() != nil && err != nil: // it was waited for until then
		return nil
	case err != nil:
		return err
	}
	defer session.Close()
	e, err := c.Election(session, cfg)
	if err != nil {
		return err
	}
	e.OnPromote(func(ctx context.Context, _ string) { c.serve(ctx, e) })
	if !candidate.AwaitFit(ctx, cfg, func() { app.Say(std.Err, fitness.unfitness()) }) {
		return nil // it is interrupted, or --for is over
	}
	if err := e.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-e.Done(): // by itself; the stop returns why
	}
	err = e.StopWithContext(context.Background(), leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: c.Timeout})
	return errors.Join(err, printer.failed())
}

// serve leads until the term, or the time to lead, is over.
func (c Command) serve(ctx context.Context, e leader.Election) {
	if c.ResignAfter <= 0 {
		return // the term goes on without us
	}
	t := time.NewTimer(c.ResignAfter)
	defer t.Stop()
	select {
	case <-t.C:
		_ = e.Resign(ctx) // the callback that calls it does not wait, and a term that is over needs none
	case <-ctx.Done():
	}
}

// shell runs commands in an environment, with their output on w. Processes that
// a command has started are killed with it, where the system knows them:
// otherwise each check that takes too long would leave a process behind.
func shell(w io.Writer, env []string) candidate.Shell {
	return func(ctx context.Context, command string) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		endTogether(cmd)
		cmd.Env, cmd.Stdout, cmd.Stderr = env, w, w
		cmd.WaitDelay = time.Second // what it left in the background does not hold the check up
		return cmd.Run()
	}
}

// A line is a transition as --json prints it. Fields are only ever added.
type line struct {
	At       time.Time     `json:"at"`
	Event    leader.Event  `json:"event"`
	Reason   leader.Reason `json:"reason,omitempty"`
	Term     uint64        `json:"term,omitempty"`
	LeaderID string        `json:"leader_id,omitempty"`
	By       string        `json:"by,omitempty"`
	Why      string        `json:"why,omitempty"`
}

// A printer prints transitions.
type printer struct {
	w    io.Writer
	json bool

	mu  sync.Mutex
	err error // the first one
}

func (p *printer) print(t leader.Transition) {
	l := line{
		At: t.At, Event: t.Event, Reason: t.Reason, Term: t.Term.Number,
		LeaderID: t.LeaderID, By: t.By, Why: t.Why,
	}
	err := p.write(l)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

func (p *printer) write(l line) error {
	if p.json {
		return output.WriteLine(p.w, l)
	}
	_, err := fmt.Fprintln(p.w, l.text())
	return err
}

func (l line) text() string {
	words := []string{fmt.Sprintf("%s  %-11s  %s", l.At.Format("15:04:05.000"), l.Event, l.Reason)}
	for _, more := range []struct{ name, value string }{
		{"term", number(l.Term)}, {"leader", l.LeaderID}, {"by", l.By}, {"why", l.Why},
	} {
		if more.value != "" {
			words = append(words, more.name+" "+output.Printable(more.value)) // others wrote it
		}
	}
	return strings.Join(words, "  ")
}

func number(term uint64) string {
	if term == 0 {
		return ""
	}
	return fmt.Sprint(term)
}

func (p *printer) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
