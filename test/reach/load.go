package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// How many calls leave in a second; in a quick run fewer, since that is a test,
// and may share the machine.
const (
	rate      = 500
	quickRate = 100
)

// A load calls the leader at a steady rate.
type load struct {
	client     client
	repeatable func(number int) bool
	rate       int

	numbers atomic.Int64 // of calls

	mu        sync.Mutex
	calls     []*call
	under     map[*call]struct{} // those that are under way
	impatient bool               // calls that begin now have little time
	left      int                // calls that were not made, since too many waited
}

// impatience is how long a call takes at most that may be under way on a leader
// that is frozen: enough that a successor is there before.
const impatience = 3 * ttl

// start begins to call. stop returns when all calls have ended.
func (l *load) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.under = map[*call]struct{}{}
	var all sync.WaitGroup
	all.Go(func() {
		begun := time.Now()
		for i := 0; ; i++ {
			select {
			case <-time.After(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(l.rate)))):
			case <-ctx.Done():
				return
			}
			if l.full() {
				continue
			}
			all.Go(func() { l.call(context.WithoutCancel(ctx)) })
		}
	})
	return func() { cancel(); all.Wait() }
}

// full reports whether so many calls wait that no more are to be made: the
// calls of ten seconds, which is longer than any fault lasts. All of them are
// sent again and again while there is no leader, and a machine that is too busy
// for that would never finish them.
func (l *load) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.under) < 10*l.rate {
		return false
	}
	l.left++
	return true
}

// next returns a call that has not been made.
func (l *load) next() *call {
	n := int(l.numbers.Add(1))
	return &call{number: n, repeatable: l.repeatable(n)}
}

func (l *load) call(ctx context.Context) {
	c := l.next()
	l.mu.Lock()
	c.began, c.impatient = time.Now(), l.impatient
	l.under[c] = struct{}{}
	l.mu.Unlock()
	patience := harness.Patience
	if c.impatient {
		patience = impatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.client.Call(ctx, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	c.took = time.Since(c.began)
	delete(l.under, c)
	l.calls = append(l.calls, c)
}

// haste has the calls that begin from now on give up early, or not.
func (l *load) haste(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.impatient = on
}

// longest is how long the slowest call has taken that ended after an instant,
// or is under way.
func (l *load) longest(since time.Time) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.began.Add(c.took).After(since) {
			d = max(d, c.took)
		}
	}
	for c := range l.under {
		d = max(d, time.Since(c.began))
	}
	return d
}

// over reports whether all calls have ended that began before an instant.
func (l *load) over(before time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.under {
		if c.began.Before(before) {
			return false
		}
	}
	return true
}

// answered is how many calls have been answered that began after an instant.
func (l *load) answered(since time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.calls) - 1; i >= 0 && l.calls[i].began.Add(l.calls[i].took).After(since); i-- {
		if c := l.calls[i]; c.err == nil && c.began.After(since) {
			n++
		}
	}
	return n
}

func (l *load) total() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// longestOf is how long the slowest call has taken that began after an instant.
func (l *load) longestOf(since time.Time) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.began.After(since) {
			d = max(d, c.took)
		}
	}
	for c := range l.under {
		if c.began.After(since) {
			d = max(d, time.Since(c.began))
		}
	}
	return d
}
