package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/tasks/internal/core"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// The defaults of the options.
const (
	DefaultLease = 3 * time.Second
	DefaultGrace = time.Second
)

// checkpointEach is how often a leader records from where its successor has to
// read, if that has changed, and reports its statistics.
const checkpointEach = time.Second

// DispatcherOptions are the settings of a Dispatcher.
type DispatcherOptions struct {
	// Group names those that the tasks are for. Required; one that an election
	// may have.
	Group string
	// Lease is how long a worker that has a task from an earlier leader may be
	// silent before the task is given to another. Then the lease that each
	// worker states counts. Default: DefaultLease.
	Lease time.Duration
	// Grace is how much longer than its timeout an attempt may take as seen by
	// the leader, whose order and report are on the way meanwhile. Default:
	// DefaultGrace.
	Grace time.Duration
	// Hooks are called with the dispatcher's actions.
	Hooks Hooks
	// Logger logs errors. Nil: silent.
	Logger *slog.Logger
}

// A Dispatcher hands out the tasks of a store while it leads. Its methods may
// be called concurrently.
type Dispatcher struct {
	st    Store
	hubs  []Hub
	opts  DispatcherOptions
	fault error
	stats atomic.Pointer[Stats]
}

// Stats is what a dispatcher sees.
type Stats struct {
	// Term is that in which it leads, 0 if it does not.
	Term uint64
	// Queued and Assigned are the tasks that are open.
	Queued, Assigned int
	// Parked are the records that the dispatcher leaves as they are: they are
	// not valid, or state a newer term. The log has the reason for each.
	Parked int
	// Workers were heard of within their lease.
	Workers int
}

// NewDispatcher returns a dispatcher, which does nothing before Lead. Workers
// are reached by all of the hubs.
func NewDispatcher(st Store, opts DispatcherOptions, hubs ...Hub) *Dispatcher {
	d := &Dispatcher{st: st, hubs: hubs, opts: opts}
	if !validGroup(opts.Group) {
		d.fault = errors.Join(d.fault, fmt.Errorf("%w: Group %.200q: must be names with dots between", ErrInvalid, opts.Group))
	}
	if st == nil || len(hubs) == 0 {
		d.fault = errors.Join(d.fault, fmt.Errorf("%w: a dispatcher needs a store and a hub", ErrInvalid))
	}
	if opts.Lease < 0 || opts.Grace < 0 {
		d.fault = errors.Join(d.fault, fmt.Errorf("%w: Lease %v, Grace %v: must not be negative", ErrInvalid, opts.Lease, opts.Grace))
	}
	if opts.Lease == 0 {
		d.opts.Lease = DefaultLease
	}
	if opts.Grace == 0 {
		d.opts.Grace = DefaultGrace
	}
	d.opts.Logger = orSilent(opts.Logger).With("group", opts.Group)
	d.stats.Store(&Stats{})
	return d
}

// Stats returns what the dispatcher saw lately: the figures are at most a
// second old.
func (d *Dispatcher) Stats() Stats { return *d.stats.Load() }

// Lead hands out tasks in a term, until ctx ends, and then returns nil. It is a
// function for leader.Run; with an Election, call it in OnTerm:
//
//	e.OnTerm(func(ctx context.Context, term leader.Term) { _ = d.Lead(ctx, term) })
//
// ctx must be the context of the term, and end with it. Requests that the store
// and the workers do not answer are repeated. An error means that the settings
// are wrong (ErrInvalid), that a hub could not be opened, or that one of the
// caller's implementations panicked (ErrPanicked).
//
// The election alone decides that a term has ended, and ctx reports it. A newer
// term in a record or in a message of a worker does not end Lead, since
// submitters and workers may state any number: the dispatcher leaves this
// record as it is, and gives this worker nothing.
func (d *Dispatcher) Lead(ctx context.Context, term leader.Term) error {
	if d.fault != nil {
		return d.fault
	}
	if term.IsZero() {
		return fmt.Errorf("%w: the zero term leads nothing", ErrInvalid)
	}
	elected := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	logger := d.opts.Logger.With("term", term.Number)
	r := &run{
		d: d, elected: elected, ctx: ctx, fail: cancel, begun: time.Now(), term: term, log: logger, caused: &warner{log: logger},
		inbox: newInbox[event](), conns: make([]Conn, len(d.hubs)), by: map[string]int{},
	}
	r.core = core.NewLeader(core.Config{
		Term:  wire.Term{Number: term.Number, Token: term.Token},
		Lease: d.opts.Lease, Grace: d.opts.Grace, Reread: 20 * time.Millisecond,
	})
	defer d.stats.Store(&Stats{})
	defer r.close()
	for i, hub := range d.hubs {
		conn, err := hub.Open(ctx, d.opts.Group, func(m wire.FromWorker) { r.hear(m, i) })
		if err != nil {
			return err
		}
		r.conns[i] = conn
	}
	r.watch()
	err := guarded(r.log, "the dispatcher", r.loop)
	if over := guarded(r.log, "a hook", func() error { d.opts.Hooks.stats(Stats{}); return nil }); err == nil {
		err = over
	}
	if err != nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrPanicked) {
		return cause
	}
	return nil
}

// A run is one term of a dispatcher. Its goroutine owns the core.
type run struct {
	d       *Dispatcher
	elected context.Context //nolint:containedctx // of the term: its Err asks the election
	ctx     context.Context //nolint:containedctx // descends from it, and ends with it or with a failure
	fail    context.CancelCauseFunc
	begun   time.Time
	term    leader.Term
	log     *slog.Logger
	caused  *warner // for warnings that submitters and workers cause
	core    *core.Leader
	inbox   *inbox[event]
	unheard atomic.Int64 // the bytes of messages of workers that wait in inbox
	conns   []Conn
	by      map[string]int // the hub of each worker
	work    sync.WaitGroup
	low     uint64 // the latest checkpoint
}

// over reports whether the term has ended. The context of a term looks at the
// election's trust window itself; a context that descends from it follows
// later.
func (r *run) over() bool { return r.ctx.Err() != nil || r.elected.Err() != nil }

// maxUnheard bounds the messages of workers that wait for the dispatcher, in
// bytes. A message beyond it is dropped, and the worker repeats what matters.
const maxUnheard = 64 << 20

// hear takes in a message by a hub, if it is valid: its numbers bound loops, and
// its names become parts of subjects. A report that no store takes is a failure.
func (r *run) hear(m wire.FromWorker, hub int) {
	if err := m.Validate(); err != nil {
		r.caused.warn("a message of a worker is not valid", "worker", cut(m.Worker), "error", err)
		return
	}
	size := sizeOf(&m)
	if r.unheard.Add(size) > maxUnheard {
		r.unheard.Add(-size)
		r.caused.warn("a message of a worker is dropped: too much waits", "worker", m.Worker)
		return
	}
	if slices.ContainsFunc(m.Reports, tooLong) {
		m.Reports = slices.Clone(m.Reports) // it may be shared
		for i, report := range m.Reports {
			m.Reports[i] = storable(report)
		}
	}
	r.inbox.put(event{heard: &m, size: size, hub: hub})
}

// sizeOf returns about how many bytes of memory a message takes.
func sizeOf(m *wire.FromWorker) int64 {
	const message, item = 512, 64
	size := message
	for i := range m.Refused {
		size += item + len(m.Refused[i].ID)
	}
	for i := range m.Reports {
		r := &m.Reports[i]
		size += item + len(r.ID) + len(r.Result) + len(r.Error)
	}
	if m.Presence != nil {
		for i := range m.Presence.Held {
			size += item + len(m.Presence.Held[i].ID)
		}
		for _, label := range m.Presence.Labels {
			size += item + len(label)
		}
	}
	return int64(size)
}

// An event is one of these.
type event struct {
	heard   *wire.FromWorker
	size    int64 // of heard
	hub     int
	wrote   *core.Write
	sent    time.Duration // when, since the beginning of the term
	rev     uint64
	err     error
	stored  *Entry
	watched bool // it comes from the watch
	read    string
	present bool
}

// loop ends with ctx.
func (r *run) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	tidy := time.NewTicker(checkpointEach)
	defer tidy.Stop()
	var events []event
	for {
		select {
		case <-r.ctx.Done():
			return nil
		case <-r.inbox.wake:
		case <-timer.C:
		case <-tidy.C:
			r.checkpoint()
		}
		// Looked at again: a process that was stopped meanwhile finds both.
		if r.over() {
			return nil
		}
		// Other goroutines may add to the inbox first: many writes and messages
		// together cost less than one after the other.
		runtime.Gosched()
		now := time.Since(r.begun)
		events = r.inbox.take(events)
		for i := range events {
			r.take(now, &events[i])
		}
		r.core.Tick(now)
		r.perform(r.core.Take())
		if at, ok := r.core.Next(); ok {
			timer.Reset(max(0, at-time.Since(r.begun)))
		}
	}
}

// take hands an event to the core.
func (r *run) take(now time.Duration, e *event) {
	switch {
	case e.heard != nil:
		r.unheard.Add(-e.size)
		r.by[e.heard.Worker] = e.hub
		r.d.opts.Hooks.refused(e.heard)
		r.core.Heard(now, *e.heard)
	case e.wrote != nil:
		if e.err != nil && !errors.Is(e.err, ErrConflict) {
			r.log.Warn("a write may have failed", "task", e.wrote.ID, "error", e.err)
		}
		if e.err == nil {
			r.d.opts.Hooks.recorded(e.wrote.ID, &e.wrote.Record, now-e.sent)
		}
		r.core.Wrote(now, e.wrote.ID, e.wrote.Expected, e.rev, e.err == nil)
	case e.stored != nil:
		r.stored(now, e.stored, e.watched)
	case e.read != "":
		if errors.Is(e.err, ErrNotFound) {
			r.core.Missing(now, e.read)
		} else {
			r.core.Unread(now, e.read)
		}
	case e.present:
		r.core.Present(now)
	}
}

func (r *run) stored(now time.Duration, e *Entry, watched bool) {
	switch {
	case e.ID == "":
	case e.Deleted:
		r.core.Deleted(now, e.ID, e.Revision)
	case e.Own:
		r.core.Own(e.ID, e.Revision)
	case e.Invalid != nil:
		r.core.Invalid(now, e.ID, e.Revision, e.Invalid.Error())
	default:
		r.core.Stored(now, e.ID, e.Revision, e.Record)
	}
	if watched {
		r.core.Watched(e.Revision)
	}
}

// perform does what the core wants, while the term lasts.
func (r *run) perform(out core.Output) {
	for _, p := range out.Parked {
		r.caused.warn("a record is left as it is: no worker is given the task", "task", cut(p.ID), "reason", p.Why)
	}
	for _, lost := range out.Lost {
		what := "a worker obeys another leader whose term has the same number: it is given nothing"
		if lost.Newer {
			what = "a worker reports a newer term and is given nothing"
		}
		r.caused.warn(what, "worker", lost.Worker)
	}
	for _, worker := range out.Excess {
		r.caused.warn("a worker is not admitted: there are too many", "worker", worker, "max", core.MaxWorkers)
	}
	for i := range out.Writes {
		w := &out.Writes[i]
		if r.over() {
			return
		}
		sent := time.Since(r.begun)
		r.d.st.Write(Write{ID: w.ID, Expected: w.Expected, Record: w.Record}, func(rev uint64, err error) {
			r.inbox.put(event{wrote: w, sent: sent, rev: rev, err: err})
		})
	}
	for _, id := range out.Reads {
		r.read(id)
	}
	if r.over() {
		return
	}
	for _, m := range out.Messages {
		hub, known := r.by[m.Worker]
		for i, conn := range r.conns {
			if known && i != hub {
				continue
			}
			for _, part := range Split(m.ToWorker) {
				conn.Send(m.Worker, part)
			}
		}
	}
}

// readFor is how long a store has to answer.
const readFor = 5 * time.Second

func (r *run) read(id string) {
	r.spawn("a read of the store", func() error {
		ctx, cancel := context.WithTimeout(r.ctx, readFor)
		defer cancel()
		e, err := r.d.st.Read(ctx, id)
		if errors.Is(err, ErrInvalid) {
			e.ID, e.Invalid, err = id, err, nil
		}
		if err != nil {
			r.inbox.put(event{read: id, err: err})
			return nil
		}
		r.inbox.put(event{stored: &e})
		return nil
	})
}

// watch follows the store, again after interruptions.
func (r *run) watch() {
	w := Watch{
		Term:    r.term.Number,
		Deliver: func(e Entry) { r.inbox.put(event{stored: &e, watched: true}) },
		Present: func() { r.inbox.put(event{present: true}) },
	}
	r.spawn("the watch of the store", func() error {
		pace := backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second, Jitter: 0.2}
		pace.Repeat(r.ctx, func() bool {
			err := r.d.st.Watch(r.ctx, w)
			if err != nil && r.ctx.Err() == nil {
				r.log.Warn("the tasks cannot be watched", "error", err)
			}
			return r.ctx.Err() != nil
		})
		return nil
	})
}

// checkpoint records in the store where a successor has to begin, and reports
// the statistics to readers.
func (r *run) checkpoint() {
	maps.DeleteFunc(r.by, func(worker string, _ int) bool { return !r.core.Knows(worker) })
	c := r.core.Count()
	stats := Stats{Term: r.term.Number, Queued: c.Queued, Assigned: c.Assigned, Parked: c.Parked, Workers: c.Workers}
	r.d.stats.Store(&stats)
	r.d.opts.Hooks.stats(stats)
	low := r.core.Low()
	if low <= r.low {
		return
	}
	r.low = low
	r.spawn("a checkpoint", func() error {
		ctx, cancel := context.WithTimeout(r.ctx, readFor)
		defer cancel()
		if err := r.d.st.Checkpoint(ctx, low); err != nil && r.ctx.Err() == nil {
			r.log.Warn("no checkpoint was stored", "error", err)
		}
		return nil
	})
}

// spawn runs f beside the loop. A panic ends the term's work.
func (r *run) spawn(what string, f func() error) {
	r.work.Go(func() {
		if err := guarded(r.log, what, f); err != nil {
			r.fail(err)
		}
	})
}

// close ends what the run has started.
func (r *run) close() {
	r.fail(nil)
	for _, conn := range r.conns {
		if conn != nil {
			conn.Close()
		}
	}
	r.work.Wait()
}
