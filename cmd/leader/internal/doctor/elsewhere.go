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

// elsewhere examines a store that is no NATS bucket, as far as a store can be
// asked: what it says of itself, the round trips, and which groups are paused.
// Versions, clocks, syncing and rights are each system's own affair, which its
// store knows, if anybody does.
func (e *examination) elsewhere(ctx context.Context, st app.Registers) {
	if e.scope.Group == "" {
		e.scope.Group = e.someGroup(ctx, st)
	}
	e.fitness(ctx, st)
	e.measure(ctx, "writes that the store refuses", func(ctx context.Context) error {
		return refused(ctx, st, e.scope.Group)
	})
	e.paused(ctx, st)
	if e.cmd.Group != "" {
		e.group(ctx, st)
	}
}

// fitness says what the store says of itself. It asks what an election asks
// before it begins, with the same request. What that would refuse is a failure,
// and what it would log is a warning.
func (e *examination) fitness(ctx context.Context, st store.Store) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	l := &e.findings
	// Not an error: the same command line is for all stores.
	if len(e.cmd.Role) > 0 {
		l.Add("store", finding.Info, "", "--role is not judged: what a user may do is known of NATS alone; the next check tries what a candidate needs")
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
// as a candidate renews: together they would measure each other. One that gets
// no answer ends the measurement, since that is worse than any time.
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
