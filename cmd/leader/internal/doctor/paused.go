package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/store"
)

// controlKeys begin the keys of the control records.
const controlKeys = "_ctl."

// paused finds the groups in which nobody may lead. That is a warning, since
// somebody wanted it, and may have forgotten it: a pause does not end by
// itself. A user who may read one group's control record alone gets a finding
// on that group.
func (e *examination) paused(ctx context.Context, st store.PatternWatcher) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	groups, err := controlled(ctx, st)
	what := "no group is paused"
	if err != nil {
		groups, what = []string{e.scope.Group}, "group "+e.scope.Group+" is not paused; the user may not look at the others"
	}
	control, err := leader.NewControlWithStore(st, "leader doctor")
	if err != nil {
		e.findings.Add("paused", finding.Info, "", "not examined: %v", err)
		return
	}
	n := 0
	for _, group := range groups {
		state, err := control.State(ctx, group)
		switch {
		case errors.Is(err, leader.ErrInvalidConfig):
			// Somebody's own key: no election can have that name.
		case err != nil:
			e.findings.Add("paused", finding.Info, "", "not examined: %v", err)
			return
		case state.Paused:
			n++
			why := ""
			if state.PausedWhy != "" {
				why = " (" + state.PausedWhy + ")"
			}
			e.findings.Add("paused", finding.Warn, "leader resume "+group, "group %q is paused, by %q%s: nobody may lead it", group, state.PausedBy, why)
		}
	}
	if n == 0 {
		e.findings.Add("paused", finding.OK, "", "%s", what)
	}
}

// controlled returns the groups that have a control record. It watches until
// the current state is complete, and no longer: a store has no other way to
// list keys. present may be called again after an interruption, when nobody
// receives it.
func controlled(ctx context.Context, st store.PatternWatcher) ([]string, error) {
	var mu sync.Mutex
	var groups []string
	complete := make(chan error, 1)
	stop, err := st.WatchPattern(ctx, controlKeys+">", func(e store.Entry) {
		mu.Lock()
		defer mu.Unlock()
		groups = append(groups, strings.TrimPrefix(e.Key, controlKeys))
	}, func(err error) {
		select {
		case complete <- err:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	select {
	case err = <-complete:
	case <-ctx.Done():
		err = errors.Join(store.ErrTransient, context.Cause(ctx))
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(groups)
	return slices.Compact(groups), err
}
