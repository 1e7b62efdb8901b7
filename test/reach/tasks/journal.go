package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A journal is what a worker was given and what it took, noted beside it: it
// does not ask the worker whether an order was stale, and reads the messages
// by itself.
//
// It also keeps some of each term's orders, and gives them to the worker once
// more when it hears of a newer term, as the network would that had held up a
// second copy. They are orders that were settled: the worker has forgotten
// them, and would run them again if it obeyed. This happens behind the
// transport, so that stale orders come over each: gRPC gives up the streams of
// a deposed leader, and would bring none.
type journal struct {
	name  string
	out   *harness.Speaker
	quiet bool

	mu     sync.Mutex
	newest uint64
	good   map[accepted]bool        // orders that came when no newer term had
	taken  map[wire.Ref]wire.Term   // of orders that are not settled
	kept   map[uint64]wire.ToWorker // by term: orders that were settled
	stale  map[wire.Ref]uint64      // the terms of orders that came after a newer one
}

// mostKept is how many orders of a term are kept.
const mostKept = 16

// onceMore is the payload of an order that is given once more. By it the
// journal knows such an order if the worker takes it; one that came in time may
// wait in the worker's inbox meanwhile, and is rightly taken later.
const onceMore = "once more"

func newJournal(name string, out *harness.Speaker, quiet bool) *journal {
	return &journal{
		name: name, out: out, quiet: quiet, good: map[accepted]bool{},
		taken: map[wire.Ref]wire.Term{}, kept: map[uint64]wire.ToWorker{}, stale: map[wire.Ref]uint64{},
	}
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
	j.out.Say(happening{Worker: j.name, Run: os.Getpid(), What: what, ID: id, Attempt: attempt, Term: term, At: time.Now()})
}

// between reads the messages of a link, in the order in which the worker gets
// them, and the worker's messages.
func (j *journal) between(link tasks.Link) tasks.Link { return reading{link, j} }

type reading struct {
	tasks.Link
	j *journal
}

// Join implements tasks.Link.
func (r reading) Join(ctx context.Context, group, worker string, hear func(wire.ToWorker)) (tasks.Seat, error) {
	if r.j.quiet {
		return r.Link.Join(ctx, group, worker, hear)
	}
	s, err := r.Link.Join(ctx, group, worker, func(m wire.ToWorker) { r.j.heard(m, hear) })
	if err != nil {
		return nil, err
	}
	return listening{s, r.j}, nil
}

type listening struct {
	tasks.Seat
	j *journal
}

// Say implements tasks.Seat.
func (l listening) Say(m wire.FromWorker) {
	l.j.said(m)
	l.Seat.Say(m)
}

// heard notes a message, and passes it on; behind a term's first one it passes
// on what is kept of older terms.
func (j *journal) heard(m wire.ToWorker, hear func(wire.ToWorker)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	stale := m.Term.Number < j.newest
	j.newest = max(j.newest, m.Term.Number)
	for _, o := range m.Orders {
		if stale {
			j.late("stale", o, m.Term)
		} else {
			j.good[accepted{o.ID, o.Attempt, m.Term.Number}] = true
		}
	}
	hear(m)
	for _, ref := range m.Settled {
		if term, ok := j.taken[ref]; ok && !stale {
			delete(j.taken, ref)
			j.keep(ref, term)
		}
	}
	for term, old := range j.kept {
		if term >= j.newest {
			continue
		}
		delete(j.kept, term)
		for _, o := range old.Orders {
			j.late("again", o, old.Term)
		}
		hear(old)
	}
}

// late notes an order that comes after a newer term.
func (j *journal) late(what string, o wire.Order, term wire.Term) {
	j.stale[o.Ref] = term.Number
	j.note(what, o.ID, o.Attempt, term.Number)
}

// said notes which orders the worker turns down as stale.
func (j *journal) said(m wire.FromWorker) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range m.Refused {
		if r.Why == wire.Stale {
			j.note("refused", r.ID, r.Attempt, j.stale[r.Ref])
		}
	}
}

// accepted notes what the worker takes.
func (j *journal) accepted(t tasks.Task) {
	if j.quiet {
		return
	}
	j.mu.Lock()
	good := j.good[accepted{t.ID, t.Attempt, t.Term.Number}] && string(t.Payload) != onceMore
	if good {
		j.taken[wire.Ref{ID: t.ID, Attempt: t.Attempt}] = wire.Term{Number: t.Term.Number, Token: t.Term.Token}
	}
	j.mu.Unlock()
	if !good {
		j.note("violation", t.ID, t.Attempt, t.Term.Number)
	}
	j.note("accepted", t.ID, t.Attempt, t.Term.Number)
}

// keep keeps the order of an attempt that the worker has taken in a term.
func (j *journal) keep(ref wire.Ref, term wire.Term) {
	m := j.kept[term.Number]
	if len(m.Orders) == mostKept {
		return
	}
	m.Term = term
	m.Orders = append(m.Orders, wire.Order{Ref: ref, Payload: []byte(onceMore), Timeout: time.Second})
	j.kept[term.Number] = m
	j.note("kept", ref.ID, ref.Attempt, term.Number)
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
