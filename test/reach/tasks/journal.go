package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A journal is what a worker was given and what it took, noted beside it: it
// does not ask the worker whether an order was stale, and reads the messages
// by itself.
type journal struct {
	name  string
	out   *lines
	quiet bool

	mu     sync.Mutex
	newest uint64
	good   map[accepted]bool // orders that came when no newer term had
}

type accepted struct {
	id      string
	attempt int
	term    uint64
}

func (j *journal) note(what, id string, attempt int, term uint64) {
	if j.quiet {
		return
	}
	j.out.say(happening{Worker: j.name, Run: os.Getpid(), What: what, ID: id, Attempt: attempt, Term: term, At: time.Now()})
}

// between reads what a link brings, in the order in which the worker gets it.
func (j *journal) between(link tasks.Link) tasks.Link { return reading{link, j} }

type reading struct {
	tasks.Link
	j *journal
}

// Join implements tasks.Link.
func (r reading) Join(ctx context.Context, group, worker string, hear func(wire.ToWorker)) (tasks.Seat, error) {
	return r.Link.Join(ctx, group, worker, func(m wire.ToWorker) {
		if r.j.quiet {
			hear(m)
			return
		}
		r.j.mu.Lock()
		defer r.j.mu.Unlock()
		stale := m.Term.Number < r.j.newest
		r.j.newest = max(r.j.newest, m.Term.Number)
		for _, o := range m.Orders {
			if stale {
				r.j.note("stale", o.ID, o.Attempt, m.Term.Number)
			} else {
				r.j.good[accepted{o.ID, o.Attempt, m.Term.Number}] = true
			}
		}
		hear(m)
	})
}

// accepted notes what the worker takes.
func (j *journal) accepted(t tasks.Task) {
	if j.quiet {
		return
	}
	j.mu.Lock()
	good := j.good[accepted{t.ID, t.Attempt, t.Term.Number}]
	j.mu.Unlock()
	if !good {
		j.note("violation", t.ID, t.Attempt, t.Term.Number)
	}
	j.note("accepted", t.ID, t.Attempt, t.Term.Number)
}

// handle takes a while, and notes that it is done.
func (j *journal) handle(takes time.Duration) tasks.Handler {
	return func(ctx context.Context, t tasks.Task) ([]byte, error) {
		if takes > 0 {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		j.note("returned", t.ID, t.Attempt, t.Term.Number)
		return nil, nil
	}
}
