// Package roll replaces the instances of one program by those of another, one
// by one, while they work. It judges whether two worked at one instant of which
// one elects by this library, and measures for how long no instance worked. It
// is for the tests of docs/guides/migrating.
package roll

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// interval is the time between two looks. A program that knows when it begins
// to work also calls [Judge.Look], so that no beginning is missed.
const interval = 2 * time.Millisecond

// A Judge knows who works. It is safe for concurrent use.
type Judge struct {
	tb    testing.TB
	moved chan struct{} // somebody began or ended; holds one

	mu      sync.Mutex
	all     []*Instance
	idle    time.Time // since when nobody works; zero while somebody does
	longest time.Duration
	fault   string // the first overlap
}

// An Instance is one running copy of a program, old or new.
type Instance struct {
	Name string
	// Ours is set if it elects by this library. Two instances that do not may
	// overlap: the migration leaves that behaviour behind.
	Ours bool
	// Stint is the number of the stint of work that it is in, 0 while it does
	// not work. Two stints of an instance have different numbers.
	Stint func() uint64
	// Stop shuts it down as a rollout does, and returns when it has ended.
	Stop func()
}

// Works reports whether the instance works now.
func (i *Instance) Works() bool { return i.Stint() != 0 }

// Keep begins a watch, which ends with the test and fails it if two worked at
// one instant of which one is ours.
func Keep(tb testing.TB) *Judge {
	tb.Helper()
	j := &Judge{tb: tb, moved: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context())) // until the cleanup below
	var sampler sync.WaitGroup
	sampler.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				j.Look()
			}
		}
	})
	tb.Cleanup(func() {
		cancel()
		sampler.Wait()
		if j.fault != "" {
			tb.Error(j.fault)
		}
	})
	return j
}

// Add has an instance watched, from before it begins to work on.
func (j *Judge) Add(i *Instance) *Instance {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, i)
	return i
}

// Look looks for two that work at one instant, and for how long nobody did.
func (j *Judge) Look() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for a, b := range lookout.Pairs(j.all, func(i *Instance) uint64 { return i.Stint() }) {
		if (a.Ours || b.Ours) && j.fault == "" {
			j.fault = fmt.Sprintf("two work at one instant: %s and %s", a.Name, b.Name)
		}
	}
	switch now, idle := time.Now(), !slices.ContainsFunc(j.all, (*Instance).Works); {
	case idle && j.idle.IsZero():
		j.idle = now
	case !idle && !j.idle.IsZero():
		j.longest, j.idle = max(j.longest, now.Sub(j.idle)), time.Time{}
	}
	select {
	case j.moved <- struct{}{}:
	default:
	}
}

// Idle returns the longest time during which nobody worked since it was called
// before, to a few milliseconds. Call it while somebody works.
func (j *Judge) Idle() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.longest
	j.longest = 0
	return d.Round(time.Millisecond)
}

// Await waits until one of the instances works, and returns it.
func (j *Judge) Await(what string, among ...*Instance) (at *Instance) {
	j.tb.Helper()
	ctx, cancel := context.WithTimeout(j.tb.Context(), natslab.Patience)
	defer cancel()
	natslab.Await(ctx, j.tb, what, j.moved, func() bool {
		for _, i := range among {
			if i.Works() {
				at = i
				return true
			}
		}
		return false
	}, func() string { return "" })
	j.Look()
	return at
}

// Hooks are what else happens in a roll.
type Hooks struct {
	Mixed   func() // the old one works that is left, beside the successors of the others
	Stopped func() // it has ended
}

// Replace rolls: each instance that does not work is shut down and its
// successor started, and at last the one that works. It returns the successors.
func (j *Judge) Replace(from []*Instance, start func(name string) *Instance, hooks Hooks) (to []*Instance) {
	j.tb.Helper()
	last := j.Await("an instance works before the roll", from...)
	for _, i := range from {
		if i != last {
			i.Stop()
			to = append(to, start(i.Name))
		}
	}
	if hooks.Mixed != nil {
		hooks.Mixed()
	}
	last.Stop()
	to = append(to, start(last.Name))
	if hooks.Stopped != nil {
		hooks.Stopped()
	}
	return to
}

// Ours starts a candidate of this library's. Its Stop releases.
func (j *Judge) Ours(e leader.Election, name string) *Instance {
	j.tb.Helper()
	if err := e.Start(context.WithoutCancel(j.tb.Context())); err != nil {
		j.tb.Fatal(err)
	}
	var once sync.Once
	i := &Instance{Name: name + " (ours)", Ours: true, Stint: func() uint64 { return e.Term().Number }}
	i.Stop = func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), natslab.Patience)
			defer cancel()
			// An instance that is cut off cannot release.
			_ = e.StopWithContext(ctx, leader.StopOptions{DeleteKey: true, WaitForDemote: true})
		})
	}
	j.tb.Cleanup(i.Stop)
	return j.Add(i)
}
