package read

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// pauses are the pauses in force, by group, according to the control records.
// They are watched apart from the groups, since a group may be paused before it
// has had a leader: then it has no leader record. A user who may not read the
// control records sees none.
type pauses struct {
	mu      sync.Mutex
	stand   map[string]inspect.Pause
	drains  app.Drains    // only a watch of all groups hears of them
	present chan struct{} // closed when stand is whole, or cannot be known
}

// watchPauses watches the pauses of the groups that match the pattern until
// stop is called.
func watchPauses(ctx context.Context, st store.PatternWatcher, pattern string) (p *pauses, stop func()) {
	p = &pauses{stand: make(map[string]inspect.Pause), present: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		app.FollowPauses(ctx, st, pattern, p.take, p.drains.Take, sync.OnceFunc(func() { close(p.present) }))
	})
	return p, func() {
		cancel()
		following.Wait()
	}
}

// take records the pause of a group, nil for none.
func (p *pauses) take(group string, pause *inspect.Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pause == nil {
		delete(p.stand, group)
	} else {
		p.stand[group] = *pause
	}
}

// now returns the pauses in force, when they are known, or when ctx is done.
func (p *pauses) now(ctx context.Context) map[string]inspect.Pause {
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	select {
	case <-p.present:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.stand)
}

// withPauses adds to groups who paused them and why, and the groups of which
// only the pause is known, in the order of their names.
func withPauses(groups []Group, stand map[string]inspect.Pause) []Group {
	rest := maps.Clone(stand)
	for i, g := range groups {
		groups[i] = g.withPause(stand)
		delete(rest, g.Group)
	}
	for group := range rest {
		groups = append(groups, neverLed(group).withPause(stand))
	}
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Group, b.Group) })
	return groups
}

// neverLed is a group of which the store has no record.
func neverLed(group string) Group { return Group{Group: group, Reason: leader.ReasonAbsent} }

// withPause adds who paused the group and why, if it is paused.
func (g Group) withPause(stand map[string]inspect.Pause) Group {
	var p inspect.Pause
	p, g.Paused = stand[g.Group]
	g.PausedBy, g.PausedWhy = p.By, p.Reason
	return g
}
