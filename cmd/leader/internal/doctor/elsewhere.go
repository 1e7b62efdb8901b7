package doctor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/rights"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// elsewhere examines a store other than a NATS bucket, as far as a store can be
// asked: its self-description, the round trips, and which groups are paused.
// Versions, clocks, syncing and rights differ by system; only its store could
// know them.
func (e *examination) elsewhere(ctx context.Context, st app.Registers) {
	if e.scope.Group == "" {
		e.scope.Group = e.someGroup(ctx, st)
	}
	e.fitness(ctx, st)
	e.members(ctx, st)
	e.measure(ctx, "writes that the store refuses", func(ctx context.Context) error {
		return refused(ctx, st, e.scope.Group)
	})
	e.paused(ctx, st)
	if e.cmd.Group != "" {
		e.group(ctx, st)
	}
}

// fitness reports the store's self-description. It asks with the same request
// as an election before its start. A refusal is a failure, and a log entry is a
// warning.
func (e *examination) fitness(ctx context.Context, st store.Store) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	l := &e.findings
	// Not an error: the same command line is for all stores.
	if len(e.cmd.Role) > 0 {
		l.Add("store", finding.Info, "", "--role is not judged: a user's rights are known for NATS only; the next check tries what a candidate needs")
	}
	c, ok := st.(store.Checker)
	if !ok {
		l.Add("store", finding.Info, "", "the store cannot be asked whether it suits an election")
		return
	}
	report, err := c.Check(ctx, store.CheckRequest{
		TTL: e.cmd.TTL, HeartbeatInterval: e.cmd.Heartbeat, Key: e.scope.Group, Reads: []string{inspect.ControlKey(e.scope.Group)},
	})
	if err != nil {
		l.Add("store", finding.Fail, "", "%v", app.Words(err))
		return
	}
	for _, warning := range report.Warnings {
		l.Add("store", finding.Warn, "", "%s", warning)
	}
	if report.Forgetful {
		l.Add("store", finding.Warn, "", "the store may forget what it acknowledged: each promotion waits for a lease")
	}
	if len(report.Warnings) == 0 && !report.Forgetful {
		l.Add("store", finding.OK, "", "%s suits elections with leases of %v", e.s.URL, e.cmd.TTL)
	}
}

// members reports what each member of a quorum holds of the group. One member
// that is away or forgot the group leaves no room for another.
func (e *examination) members(ctx context.Context, st store.Store) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	l, group := &e.findings, e.scope.Group
	members, err := app.Members(ctx, st, group)
	if err != nil {
		l.Add("members", finding.Fail, "", "not examined: %v", app.Words(err))
		return
	}
	for _, m := range members {
		status, remedy := finding.OK, ""
		switch m.State {
		case app.MemberCurrent:
		case app.MemberBehind, app.MemberEmpty:
			status = finding.Info
		case app.MemberForgot:
			status, remedy = finding.Warn, "it was wiped, or was away when the key began; the leader's next renewal heals it: look again"
		case app.MemberRefuses:
			status, remedy = finding.Warn, "give its user the rights of a candidate, or name a store of no other quorum; until then it does not count"
		case app.MemberAway:
			status, remedy = finding.Warn, "bring it back: the quorum bears the loss of a minority alone"
		}
		l.Add("members", status, remedy, "group %q, member %q: %v", group, m.Name, m)
	}
}

// refused makes a write that no store applies, which shows how long one takes.
// The conflict is the answer that it waits for.
func refused(ctx context.Context, st store.Store, group string) error {
	_, err := st.CompareAndSwap(ctx, store.Write{Key: group, Expected: rights.Impossible})
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// measure times round trips and judges them. They are made one after the other,
// as a candidate renews: together they would measure each other. A round trip
// without an answer ends the measurement, since that is worse than any time.
func (e *examination) measure(ctx context.Context, what string, trip func(context.Context) error) {
	took := make([]time.Duration, 0, e.cmd.Rounds)
	for range e.cmd.Rounds {
		d, err := e.timed(ctx, trip)
		if err != nil {
			e.findings.Add("round-trip", finding.Fail, "look at the network, and at the servers", "no answer, after %d of %s: %v", len(took), what, err)
			return
		}
		took = append(took, d)
	}
	slices.Sort(took)
	e.judgeTrips(what, took[len(took)/2], took[len(took)-1])
}
