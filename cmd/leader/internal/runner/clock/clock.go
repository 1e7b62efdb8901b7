// Package clock is what guard and candidate measure a lease by: a clock that
// the processes of a host share and that runs on while the host is suspended.
package clock

import (
	"sync"
	"time"
)

// A Clock translates readings of Go's monotonic clock, which stops while the
// host is suspended, to the one that guard and candidate share, which does not.
// It errs towards earlier. Earlier is safe: a renewal that is dated too early
// is trusted for less time. To date one too late would let the program run on
// while others may lead.
type Clock struct {
	now func() int64 // the shared clock

	mu     sync.Mutex
	origin time.Time
	spans  []span // between suspensions, at least one
}

// A span is a time without a suspension, from some instant after the one before
// it.
type span struct {
	found  time.Duration // when it was noticed, since the origin: it began before, and after the last look
	offset int64         // of the shared clock from the time since the origin
}

// maxSpans bounds what is remembered. Of earlier ones no request is under way.
const maxSpans = 64

// New returns a clock that reads the shared one by now.
func New(now func() int64) *Clock {
	c := &Clock{now: now, origin: time.Now()}
	offset, _ := c.measure()
	c.spans = []span{{offset: offset}}
	return c
}

// aSuspension is more than the two clocks drift apart between two samples for
// other reasons. A smaller bound would fill the spans with noise. A suspension
// that is shorter than this is lost, which dates what follows too early by as
// much.
const aSuspension = int64(time.Millisecond)

// Sample notices a suspension that is over. The candidate calls it many times a
// second while a program runs: the more often, the closer the instants that lie
// around a suspension.
func (c *Clock) Sample() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset, at := c.measure(); offset > c.spans[len(c.spans)-1].offset+aSuspension {
		c.spans = append(c.spans, span{at, offset})
		c.spans = c.spans[max(len(c.spans)-maxSpans, 0):]
	}
}

// measure reads both clocks. A pause between the readings makes the offset too
// small: the largest is right.
func (c *Clock) measure() (offset int64, at time.Duration) {
	for i := range 3 {
		shared := c.now()
		at = time.Since(c.origin)
		if o := shared - int64(at); i == 0 || o > offset {
			offset = o
		}
	}
	return offset, at
}

// At returns what the shared clock showed at t, a time with a monotonic
// reading. A suspension that is found only now may have come right after t, and
// is not counted.
func (c *Clock) At(t time.Time) int64 {
	c.Sample()
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, offset := t.Sub(c.origin), c.spans[0].offset
	for _, s := range c.spans[1:] {
		if mono > s.found {
			offset = s.offset
		}
	}
	return int64(mono) + offset
}

// A Window is how long this host is trusted with the present term, on the
// shared clock. It only grows while the term lasts. Moved has room for one
// token, which represents any number of changes: its receiver reads the latest
// end.
type Window struct {
	mu    sync.Mutex
	term  string // its correlation
	until int64
	Moved chan struct{} // has a token after a change
}

// NewWindow returns a window that has closed.
func NewWindow() *Window { return &Window{Moved: make(chan struct{}, 1)} }

// Extend moves the window's end. That of a new term replaces it, an earlier one
// of the same term does not. Answers come in any order, and one that was late
// must not take back what a later request has won.
func (w *Window) Extend(term string, until int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case term != w.term:
		w.term, w.until = term, until
	case until > w.until:
		w.until = until
	default:
		return
	}
	select {
	case w.Moved <- struct{}{}:
	default:
	}
}

// End returns the end of a term's window, 0 if it is not the latest.
func (w *Window) End(term string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if term != w.term {
		return 0
	}
	return w.until
}
