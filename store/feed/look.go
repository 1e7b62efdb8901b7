package feed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// A run is the time in which somebody watches or listens.
type run struct {
	cancel context.CancelFunc
	wake   chan struct{}
	done   chan struct{}
}

// work has the Feed at work. f.mu is held.
func (f *Feed) work() {
	if f.current != nil {
		f.wake()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{})}
	before := f.last
	f.current, f.last = r, r
	go func() {
		defer close(r.done)
		if before != nil {
			<-before.done
		}
		f.serve(ctx, r)
	}()
}

// wake has the Feed look as soon as it may. f.mu is held.
func (f *Feed) wake() {
	if f.current == nil {
		return
	}
	select {
	case f.current.wake <- struct{}{}:
	default: // it has not seen the last signal yet
	}
}

// rest ends the work if nobody watches or listens. f.mu is held.
func (f *Feed) rest() {
	if f.current != nil && len(f.watches) == 0 && len(f.link.listeners) == 0 {
		f.current.cancel()
		f.current = nil
	}
}

// serve looks, and follows the news, until ctx is done.
func (f *Feed) serve(ctx context.Context, r *run) {
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		if src, ok := f.src.(Follower); ok {
			f.follow(ctx, src)
		}
	}()
	f.looks(ctx, r)
	<-followed
}

// Looks that fail are repeated after delays that grow up to the usual time
// between looks, or up to this.
const (
	firstDelay   = 20 * time.Millisecond
	longestDelay = time.Second
)

func (f *Feed) looks(ctx context.Context, r *run) {
	pace := backoff.Policy{Initial: firstDelay, Max: longestDelay, Jitter: 0.25}
	failures, full := 0, time.Time{}
	for ctx.Err() == nil {
		p, every := f.plan(time.Since(full))
		if p.all {
			full = time.Now()
		}
		err := f.look(ctx, p)
		if err == nil {
			failures = 0
			if !f.sleep(ctx, r, every-time.Since(full)) {
				return
			}
			continue
		}
		failures++
		full = time.Time{}
		f.interrupted()
		if !backoff.Sleep(ctx, min(pace.After(failures), every)) {
			return
		}
	}
}

// interrupted schedules a redelivery of the current state of every watched key
// and pattern once reads succeed again.
func (f *Feed) interrupted() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaitAll()
}

// awaitAll is interrupted for callers that hold f.mu.
func (f *Feed) awaitAll() {
	for w := range f.watches {
		w.await()
	}
}

// sleep waits until the time of the next look, or until something is to be
// looked at now. It reports whether the work goes on.
func (f *Feed) sleep(ctx context.Context, r *run, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.wake:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// A plan is what is to be read.
type plan struct {
	all      bool // that is watched
	keys     []string
	patterns []string
	began    uint64
}

// plan returns the reads to make now, if the last read of everything was since
// ago, and the time from one read of everything to the next.
func (f *Feed) plan(since time.Duration) (plan, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	every := f.every()
	p := plan{all: f.behind || since >= every, began: f.clock}
	f.behind = false
	keys, patterns := f.dirty, make(map[string]struct{})
	f.dirty = make(map[string]struct{})
	for w := range f.watches {
		for _, key := range w.keys {
			if p.all || w.awaits(key) {
				keys[key] = struct{}{}
			}
		}
		if w.pattern != "" && (p.all || w.awaits(w.pattern)) {
			patterns[w.pattern] = struct{}{}
		}
	}
	p.keys, p.patterns = slices.Sorted(maps.Keys(keys)), slices.Sorted(maps.Keys(patterns))
	return p, every
}

// every returns the time from one read of everything to the next. News make
// these reads rare, which then find only changes that no news reported. f.mu is
// held.
func (f *Feed) every() time.Duration {
	d := f.opts.Every
	pace := func(key string) {
		if heartbeat, told := f.paces[key]; told {
			// Half a heartbeat, less what a read may take.
			d = min(d, heartbeat*2/5)
		}
	}
	pace(noKey)
	for key := range f.exact {
		pace(key)
	}
	if f.following {
		d = max(10*d, time.Second)
	}
	return d
}

// look reads what is planned.
func (f *Feed) look(ctx context.Context, p plan) (err error) {
	if !shield.Call(func() {
		faults.Point("feed")
		err = f.reads(ctx, p)
	}, f.panicked) {
		err = store.ErrTransient
	}
	if ctx.Err() == nil {
		f.heard(err)
	}
	return err
}

// reads fails where the reads have to be repeated. A permanent refusal does not
// count as a failure while anything else is answered: one key that cannot be
// read does not mean that the connection is lost, or that other keys cannot be
// read.
func (f *Feed) reads(ctx context.Context, p plan) error {
	var failure, refusal error
	answered := false
	if len(p.keys) > 0 || p.all && len(p.patterns) == 0 {
		answered, failure = f.readKeys(ctx, p)
		if refused(failure) {
			failure, refusal = nil, failure
		}
	}
	for _, pattern := range p.patterns {
		if err := f.list(ctx, p, pattern); err != nil {
			failure = err
		} else {
			answered = true
		}
	}
	// A part of what is watched is looked at only after all was, with success.
	if failure == nil && !answered && p.all {
		return refusal
	}
	return failure
}

// refused reports whether all that failed did so because the store refuses it,
// and will again.
func refused(err error) bool {
	return store.Classify(err) == store.Permanent && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrTransient)
}

// readKeys reports whether any key was read.
func (f *Feed) readKeys(ctx context.Context, p plan) (some bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	entries, err := f.src.Read(bounded, p.keys)
	if err != nil && ctx.Err() != nil {
		// The last watch has ended; a watch that has started since is served by
		// the next run, which reads everything.
		return false, err
	}
	f.read(p.keys, entries, p.began, err)
	return len(entries) > 0, err
}

func (f *Feed) list(ctx context.Context, p plan, pattern string) error {
	bounded, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	entries, err := f.src.List(bounded, pattern)
	if err != nil && ctx.Err() != nil {
		return err
	}
	f.listed(pattern, entries, p.began, err)
	if store.Classify(err) == store.Permanent && !errors.Is(err, store.ErrClosed) {
		return nil // the watch got the error; the next read may find more rights
	}
	return err
}
