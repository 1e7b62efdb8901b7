// Package lookout looks for two leaders at one instant while a test runs, among
// candidates of one process. It asks each candidate what it believes, as a
// program does before it acts, and so finds what a store's register cannot
// show. Labs whose candidates are processes compare spans of time afterwards.
package lookout

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// interval is the time between two looks. A test that knows when a term begins
// adds a call of [Lookout.Look].
const interval = 2 * time.Millisecond

// A Lookout watches the candidates of one group. It is safe for concurrent use.
type Lookout struct {
	mu      sync.Mutex
	members []member
	fault   string // the first that was seen
}

type member struct {
	id string
	leader.Election
}

// Keep begins a lookout, which ends with the test and fails it if two led at
// one instant. Cleanups that the test registers later, such as the stop of its
// candidates, are watched.
func Keep(tb testing.TB) *Lookout {
	tb.Helper()
	l := &Lookout{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context())) // until the cleanup below
	var sampler sync.WaitGroup
	sampler.Go(func() { l.sample(ctx) })
	tb.Cleanup(func() {
		cancel()
		sampler.Wait()
		if fault := l.seen(); fault != "" {
			tb.Error(fault)
		}
	})
	return l
}

// Add has a candidate watched.
func (l *Lookout) Add(id string, e leader.Election) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = append(l.members, member{id, e})
}

// seen names the two that led at one instant; nothing if none did.
func (l *Lookout) seen() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

func (l *Lookout) sample(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.Look()
		}
	}
}

// Look looks for two leaders now.
func (l *Lookout) Look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, b := range Pairs(l.members, func(m member) leader.Term { return m.Term() }) {
		if l.fault == "" {
			l.fault = fmt.Sprintf("two leaders at one instant: %s in %v and %s in %v", a.id, a.Term(), b.id, b.Term())
		}
	}
}

// Pairs asks all for their terms, one after the other, and yields every two of
// which the first led in the same term before and after the second was seen to
// lead. So a slow machine hides leaders, and never invents any. A term is
// anything that differs between two terms of one candidate; the zero value
// means that the candidate does not lead.
func Pairs[C any, T comparable](all []C, term func(C) T) iter.Seq2[C, C] {
	return func(yield func(C, C) bool) {
		var none, led T
		var a C
		for _, b := range all {
			other := term(b)
			if other == none {
				continue
			}
			if led != none && term(a) == led && !yield(a, b) {
				return
			}
			a, led = b, other
		}
	}
}
