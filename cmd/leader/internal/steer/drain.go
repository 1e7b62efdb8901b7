package steer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// drainFlags are what drain and undrain have in common.
type drainFlags struct {
	app.Target
	output.Format

	Instance string `arg:"" help:"The InstanceID of the candidates."`
	By       string `env:"LEADER_BY" placeholder:"NAME" help:"Who asks (default: user@host)."`
	Yes      bool   `short:"y" help:"Do it without asking back."`
}

// Validate checks what the parser cannot.
func (f drainFlags) Validate() error {
	errs := []error{f.Target.Validate()}
	if f.Instance == "" {
		errs = append(errs, errors.New("<instance>: is required"))
	}
	return errors.Join(errs...)
}

func (f drainFlags) flags() Flags {
	return Flags{Target: f.Target, Format: f.Format, By: f.By, Yes: f.Yes}
}

// DrainCommand has an instance lead nothing.
type DrainCommand struct {
	drainFlags

	Why    string `placeholder:"TEXT" help:"The reason: it reaches every candidate and observer."`
	Wait   bool   `xor:"wait" help:"Wait until others lead its groups, and print those that are left. The default."`
	NoWait bool   `xor:"wait" help:"Return when the order is stored, without looking at the groups."`
}

// Help describes the command.
func (DrainCommand) Help() string {
	return `Has an instance hand over every group that it leads, and campaign for none until leader undrain, or until it starts again: for
the maintenance of a host. Groups that the instance joins later are included. The others of a group lead it; a group
without another candidate is left without a leader, and is named at the end.

The order is stored under the name of the instance. The first process of that name obeys it, also one that starts later. The
process after that one campaigns again, and removes the order. A process without the right to write its order obeys until leader
undrain. Candidates of versions before this command do not obey.

The command prints each group that another leads, and how many are left. It returns when the instance leads no group and
all that it led have a leader. --timeout bounds the whole command, without the time in which it waits for your answer, and without
the 30 s within which an instance reads the order on stores that report no changes, and in a bucket that does not republish. It takes
the rights of a viewer, to see the groups; --no-wait takes only the right to read and write the order.

Fields of -o json: operation, instance, by, why, outcome (done, filed with --no-wait, no-leader, timeout, broken-off by a signal), taken (whether a process has
found the order), groups (each that the instance led: group, leader, term; no leader if nobody leads it).

Exit status: 0 done, also if the instance leads nothing; 1 the question was not answered with yes, or a signal ended the command; 2 wrong
usage, also without --yes where nobody can be asked; 4 the instance has left a group that nobody leads; 5 a permission is missing, or
the bucket, and the message names it; 6 the instance still leads a group. An order that is stored stays after each of these.

Examples:
  leader drain worker-1 --dev
  leader drain host-3 --why "new kernel" --timeout 1m
  leader drain host-3 --yes && ssh host-3 systemctl restart worker`
}

// Run drains the instance.
func (c DrainCommand) Run(ctx context.Context, std app.Streams) error {
	f := c.flags()
	f.Why, f.NoWait = c.Why, c.NoWait
	return f.run(ctx, std, "drain", func(ctx context.Context, d *desk) error { return d.drain(ctx, c.Instance) })
}

// UndrainCommand ends a drain.
type UndrainCommand struct{ drainFlags }

// Help describes the command.
func (UndrainCommand) Help() string {
	return `Ends a drain: the instance campaigns again. It leads a group when the present leader leaves.

Fields of -o json: operation, instance, by, outcome (done, or nothing-asked if the instance was not drained), taken, groups (empty).

Exit status: 0 done, also if the instance was not drained; 1 the question was not answered with yes; 2 wrong usage, also without --yes where nobody can be
asked; 5 a permission is missing, or the bucket; 6 the server did not answer in time.

Examples:
  leader undrain worker-1 --dev
  leader undrain host-3 --yes`
}

// Run ends the drain.
func (c UndrainCommand) Run(ctx context.Context, std app.Streams) error {
	return c.flags().run(ctx, std, "undrain", func(ctx context.Context, d *desk) error { return d.undrain(ctx, c.Instance) })
}

// A DrainedGroup is a group that the instance led, and who leads it now.
type DrainedGroup struct {
	Group  string `json:"group"`
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term"`
}

// A DrainResult is what came of an order to an instance, as it is printed.
type DrainResult struct {
	Operation string         `json:"operation"`
	Instance  string         `json:"instance"`
	By        string         `json:"by,omitempty"`
	Why       string         `json:"why,omitempty"`
	Outcome   string         `json:"outcome"`
	Taken     bool           `json:"taken"`
	Groups    []DrainedGroup `json:"groups"`
}

// drain orders, and waits until others lead what the instance led.
func (d *desk) drain(ctx context.Context, id string) error {
	r := DrainResult{Operation: "drain", Instance: id, By: d.by(), Why: d.flags.Why, Outcome: outcomeFiled, Groups: []DrainedGroup{}}
	until := `until "leader undrain", or until it starts again`
	if d.flags.NoWait {
		if err := d.confirm(ctx, "Drains instance %q%s: it hands over what it leads, and campaigns for nothing %s.", id, reason(d.flags.Why), until); err != nil {
			return err
		}
		if err := d.order(ctx, id); err != nil {
			return err
		}
		d.say("The order is stored. leader ls shows who leads.")
		return d.reportDrain(r)
	}
	h, stop, err := d.followHeld(ctx, id)
	if err != nil {
		return err
	}
	defer stop()
	led := h.led()
	now := "It leads no group now."
	if len(led) > 0 {
		now = "It hands over " + plural(len(led), "group") + ": " + some(led) + "."
	}
	if err := d.confirm(ctx, "Drains instance %q%s: it campaigns for nothing %s. %s", id, reason(d.flags.Why), until, now); err != nil {
		return err
	}
	if err := d.order(ctx, id); err != nil {
		return err
	}
	if len(led) > 0 && h.late {
		d.say("On this store an instance reads its order every %v: --timeout begins after that.", leader.DrainInterval)
		d.until = d.until.Add(leader.DrainInterval)
	}
	err = d.awaitHandovers(ctx, h)
	r.Outcome, r.Groups = outcomeOf(err), h.result()
	r.Taken = d.awaitTaken(ctx, id, err == nil)
	if err == nil {
		d.say("Instance %q leads no group.", id)
	}
	switch {
	case r.Taken:
	case len(r.Groups) > 0:
		d.say("No process has confirmed the order: a process of that name that starts later may obey it, too.")
	default: // the name may be mistyped
		d.say("No process of the name %q has taken the order yet; leader undrain withdraws it.", id)
	}
	return errors.Join(d.reportDrain(r), err)
}

// by names who asks, as the order does.
func (d *desk) by() string { return cmp.Or(d.flags.By, userAtHost(d.flags.Env)) }

func (d *desk) order(ctx context.Context, id string) error {
	ctx, cancel := context.WithDeadline(ctx, d.until)
	defer cancel()
	return d.control.Drain(ctx, id, d.flags.Why)
}

// undrain ends a drain. That the instance is not drained is not an error, so
// that scripts can be rerun.
func (d *desk) undrain(ctx context.Context, id string) error {
	limited, cancel := context.WithDeadline(ctx, d.until)
	s, err := d.control.DrainState(limited, id)
	cancel()
	if err != nil {
		return err
	}
	r := DrainResult{Operation: "undrain", Instance: id, By: d.by(), Outcome: outcomeDone, Taken: s.Taken, Groups: []DrainedGroup{}}
	now := "It is not drained."
	if s.Drained {
		now = fmt.Sprintf("It was drained by %q%s.", s.By, reason(s.Why))
	} else {
		r.Outcome = outcomeNothing
	}
	if err := d.confirm(ctx, "Ends the drain of instance %q: it campaigns again. %s", id, now); err != nil {
		return err
	}
	limited, cancel = context.WithDeadline(ctx, d.until)
	defer cancel()
	if err := d.control.Undrain(limited, id); err != nil {
		return err
	}
	return d.reportDrain(r)
}

// awaitTaken returns whether a process has found the order. If waits is set, it
// waits a moment for that.
func (d *desk) awaitTaken(ctx context.Context, id string, waits bool) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		s, err := d.control.DrainState(ctx, id)
		if err != nil || s.Taken || !waits {
			return s.Taken
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
}

// awaitHandovers prints what is handed over, until the instance leads nothing
// and others lead what it led.
func (d *desk) awaitHandovers(ctx context.Context, h *holdings) error {
	ctx, cancel := context.WithDeadline(ctx, d.until)
	defer cancel()
	for {
		gained, left, vacant, moved := h.news()
		for i, info := range gained {
			rest := ""
			if n := left + len(vacant) + len(gained) - i - 1; n > 0 {
				rest = fmt.Sprintf("; %d left", n)
			}
			d.say("%s leads group %q%s.", who(info), info.Group, rest)
		}
		if left+len(vacant) == 0 {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			err := context.Cause(ctx)
			if left > 0 {
				return fmt.Errorf("leader: instance %q still leads %s: %s, and the order remains: %w (leader undrain takes it back)",
					h.id, plural(left, "group"), some(h.led()), err)
			}
			left := fmt.Sprintf("instance %q has left %s that nobody else leads: %s", h.id, plural(len(vacant), "group"), some(vacant))
			if errors.Is(err, context.DeadlineExceeded) { // and not for an interrupt
				return fmt.Errorf("%w: %s; no other candidate took over within %v (--timeout)", leader.ErrNoLeader, left, d.flags.Timeout)
			}
			return fmt.Errorf("%s: %w", left, err)
		}
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// shownGroups is how many names of groups a message contains.
const shownGroups = 10

// some lists names, but not too many.
func some(names []string) string {
	if len(names) > shownGroups {
		return strings.Join(names[:shownGroups], ", ") + " and " + strconv.Itoa(len(names)-shownGroups) + " more"
	}
	return listed(names)
}

// holdings are the groups that an instance leads, or has led since the command
// began, and who leads them.
type holdings struct {
	id   string
	late bool // the instance is not told of its order, but reads it now and then

	mu     sync.Mutex
	moved  chan struct{} // closed at the next change
	groups map[string]leader.LeaderInfo
	said   map[string]bool
}

// followHeld returns what the instance leads, when that is known, and follows
// it until stop is called.
func (d *desk) followHeld(ctx context.Context, id string) (h *holdings, stop func(), err error) {
	st, err := d.session.Store()
	if err != nil {
		return nil, nil, err
	}
	h = &holdings{id: id, moved: make(chan struct{}), groups: make(map[string]leader.LeaderInfo), said: make(map[string]bool)}
	present, failed := make(chan struct{}), make(chan error, 1)
	known := sync.OnceFunc(func() { close(present) })
	fail := func(err error) {
		select {
		case failed <- err:
		default: // the first one counts
		}
	}
	following, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := leader.ObserveFuncWithStore(following, st, ">", leader.Observer{
			Leader: h.observe, Present: known, Failed: fail,
		})
		if err != nil {
			fail(err)
		}
	}()
	stop = func() { cancel(); <-done }
	limited, over := context.WithDeadline(ctx, d.until)
	defer over()
	select {
	case <-present:
		if c, ok := st.(interface{ CostlyWatch() bool }); ok {
			h.late = c.CostlyWatch()
		}
		return h, stop, nil
	case err = <-failed:
		err = fmt.Errorf("the groups of the instance cannot be seen (--no-wait drains without that): %w", err)
	case <-limited.Done():
		err = context.Cause(limited)
	}
	stop()
	return nil, nil, err
}

// observe takes in who leads a group.
func (h *holdings) observe(info leader.LeaderInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, held := h.groups[info.Group]; !held && info.ID != h.id {
		return
	}
	if info.ID == h.id {
		delete(h.said, info.Group)
	}
	h.groups[info.Group] = info
	close(h.moved)
	h.moved = make(chan struct{})
}

// led returns the groups that the instance leads.
func (h *holdings) led() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for group, info := range h.groups {
		if info.ID == h.id {
			names = append(names, group)
		}
	}
	slices.Sort(names)
	return names
}

// news returns the groups that others have come to lead since the last call,
// how many the instance leads, those that nobody leads, and what is closed at
// the next change.
func (h *holdings) news() (gained []leader.LeaderInfo, left int, vacant []string, moved <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, group := range slices.Sorted(maps.Keys(h.groups)) {
		switch info := h.groups[group]; {
		case info.ID == h.id:
			left++
		case info.ID == "":
			vacant = append(vacant, group)
		case !h.said[group]:
			h.said[group] = true
			gained = append(gained, info)
		}
	}
	return gained, left, vacant, h.moved
}

// result returns the groups as they are printed.
func (h *holdings) result() []DrainedGroup {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []DrainedGroup{}
	for _, group := range slices.Sorted(maps.Keys(h.groups)) {
		info := h.groups[group]
		all = append(all, DrainedGroup{Group: group, Leader: info.ID, Term: info.Term})
	}
	return all
}

// reportDrain prints what came of an order.
func (d *desk) reportDrain(r DrainResult) error {
	out := output.Result{Value: r, Head: []string{"INSTANCE", "OUTCOME", "GROUP", "LEADER", "TERM"}, Wide: 5, Tint: tintOutcome}
	for _, g := range r.Groups {
		out.Rows = append(out.Rows, []string{r.Instance, r.Outcome, g.Group, g.Leader, strconv.FormatUint(g.Term, 10)})
		out.Names = append(out.Names, g.Group)
	}
	if len(r.Groups) == 0 {
		out.Rows = [][]string{{r.Instance, r.Outcome, "", "", ""}}
	}
	return d.flags.Write(d.std.Out, out)
}
