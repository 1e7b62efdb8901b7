package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Patience bounds every wait for something that has to happen.
const Patience = 3 * time.Minute

// ErrPatience means that an awaited event did not happen within [Patience].
var ErrPatience = errors.New("it took too long")

// A Run is one run of a program that measures.
type Run struct {
	Ctx      context.Context //nolint:containedctx // of the whole run
	Quick    bool            // a little of everything
	Only     string          // the sections whose name contains this
	Progress io.Writer       // what has been measured, for who waits
	Look     time.Duration   // the interval at which Await looks
}

// Measures reports whether the run is to measure the section of that name.
func (r Run) Measures(section string) bool { return strings.Contains(section, r.Only) }

// Validate returns an error if the run would measure none of the sections, which
// would pass for a success.
func (r Run) Validate(sections ...string) error {
	if slices.ContainsFunc(sections, r.Measures) {
		return nil
	}
	return fmt.Errorf("only %q: must be in the name of a section: %s", r.Only, strings.Join(sections, ", "))
}

// Measure calls f, which measures what, and reports on the progress. An error
// of f names what.
func (r Run) Measure(what string, f func() error) error {
	begun := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(r.Progress, "measured: %s (%.1f s)\n", what, time.Since(begun).Seconds())
	return nil
}

// N is a number of rounds: many, or few in a quick run.
func (r Run) N(many, few int) int {
	if r.Quick {
		return few
	}
	return many
}

// Pause lets time pass.
func (r Run) Pause(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-r.Ctx.Done():
		return r.Ctx.Err()
	}
}

// Await waits until cond holds, and no longer than [Patience]. It looks
// whenever moved, which may be nil, delivers, and each time that Look has
// passed.
func (r Run) Await(what string, moved <-chan struct{}, cond func() bool) error {
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	look := time.NewTicker(r.Look)
	defer look.Stop()
	for !cond() {
		select {
		case <-moved:
		case <-look.C:
		case <-limit.C:
			return fmt.Errorf("waiting for %s: %w", what, ErrPatience)
		case <-r.Ctx.Done():
			return r.Ctx.Err()
		}
	}
	return nil
}

// Each calls f for 0 to n-1, so many at a time, and returns what failed.
func Each(n, atATime int, f func(i int) error) error {
	errs := make([]error, n)
	room := make(chan struct{}, atATime)
	var all sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			errs[i] = f(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Spread calls f for 0 to n-1, each in its own goroutine and gap after the one
// before, so that they do not load each other.
func (r Run) Spread(n int, gap time.Duration, f func(i int) error) error {
	return Each(n, n, func(i int) error {
		if err := r.Pause(time.Duration(i) * gap); err != nil {
			return err
		}
		return f(i)
	})
}
