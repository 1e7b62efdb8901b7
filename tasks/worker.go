package tasks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks/internal/core"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// DefaultDrainTimeout is how long a worker that ends waits for its handlers by
// default.
const DefaultDrainTimeout = 10 * time.Second

const (
	// MaxCapacity bounds the capacity of a worker: what it has is named in one
	// message.
	MaxCapacity = wire.MaxCapacity
	// MaxLabels bounds the labels of a worker.
	MaxLabels = wire.MaxLabels
)

// WorkerOptions are the settings of a Worker.
type WorkerOptions struct {
	// Group is the dispatcher's group. Required.
	Group string
	// Name distinguishes the workers of a group. Required. Of two that run
	// under one name the one that began later counts.
	Name string
	// Labels are what tasks may ask for (Target.Label), MaxLabels at most.
	Labels []string
	// Capacity is how many handlers may run at once, MaxCapacity at most.
	// Default: 1.
	Capacity int
	// Lease is for how long the leader counts on the worker after a message of
	// it; a third of it is how often it sends one. A worker that is silent for
	// longer has its tasks given to others. Default: DefaultLease.
	Lease time.Duration
	// DrainTimeout is how long Run waits, when its context has ended, for
	// handlers to return and for their reports to be recorded. Default:
	// DefaultDrainTimeout. Negative: not at all.
	DrainTimeout time.Duration
	// Accepted, optional, is called for each attempt that is accepted, before
	// its handler begins; it must return quickly.
	Accepted func(Task)
	// Logger logs errors. Nil: silent.
	Logger *slog.Logger
}

// A Worker runs the tasks that leaders give it.
type Worker struct {
	link   Link
	handle Handler
	opts   WorkerOptions
	fault  error
}

// NewWorker returns a worker, which does nothing before Run.
func NewWorker(link Link, handle Handler, opts WorkerOptions) *Worker {
	w := &Worker{link: link, handle: handle, opts: opts}
	bad := func(broken bool, format string, args ...any) {
		if broken {
			w.fault = errors.Join(w.fault, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...)))
		}
	}
	bad(link == nil || handle == nil, "a worker needs a link and a handler")
	bad(!validGroup(opts.Group), "Group %.200q: must be names with dots between", opts.Group)
	bad(!ValidName(opts.Name), "Name %.200q: %s", opts.Name, nameRule)
	bad(len(opts.Labels) > MaxLabels, "%d labels: must be at most %d", len(opts.Labels), MaxLabels)
	for _, label := range opts.Labels {
		bad(!ValidName(label), "label %.200q: %s", label, nameRule)
	}
	bad(opts.Capacity < 0 || opts.Capacity > MaxCapacity, "Capacity %d: must be 0 to %d", opts.Capacity, MaxCapacity)
	bad(opts.Lease < 0, "Lease %v: must not be negative", opts.Lease)
	if opts.Capacity == 0 {
		w.opts.Capacity = 1
	}
	if opts.Lease == 0 {
		w.opts.Lease = DefaultLease
	}
	if opts.DrainTimeout == 0 {
		w.opts.DrainTimeout = DefaultDrainTimeout
	}
	w.opts.Logger = orSilent(opts.Logger).With("group", opts.Group, "worker", opts.Name)
	return w
}

// validGroup reports whether all transports can carry a group's name.
func validGroup(group string) bool {
	for part := range strings.SplitSeq(group, ".") {
		if !ValidName(part) {
			return false
		}
	}
	return true
}

// Run works until ctx is done. Then it drains: it takes no more, lets handlers
// go on for DrainTimeout and waits until their reports are recorded, ends the
// context of those that are left, and returns when all handlers have. Attempts
// that were not recorded by then are given to others immediately.
//
// The error is nil, ErrInvalid for wrong settings, the link's error, or
// ErrPanicked for a panic in the caller's code, the handler aside. A worker may
// be run again after Run has returned, and not before.
func (w *Worker) Run(ctx context.Context) error {
	if w.fault != nil {
		return w.fault
	}
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	s := &shift{
		w: w, ctx: ctx, base: base, end: cancel, inbox: newInbox[told](), running: map[wire.Ref]context.CancelCauseFunc{},
		core: core.NewWorker(core.WorkerConfig{
			Name: w.opts.Name, Run: newRun(time.Now()), Labels: w.opts.Labels, Capacity: w.opts.Capacity, Lease: w.opts.Lease,
		}),
	}
	defer s.work.Wait()
	defer cancel(ErrLeaving)
	caused := &warner{log: w.opts.Logger}
	seat, err := w.link.Join(ctx, w.opts.Group, w.opts.Name, func(m wire.ToWorker) {
		if err := m.Validate(); err != nil {
			caused.warn("a message of a leader is not valid", "error", err)
			return
		}
		s.inbox.put(told{heard: &m})
	})
	if err != nil {
		return err
	}
	defer seat.Close()
	s.seat = seat
	return guarded(w.opts.Logger, "the worker", s.loop)
}

// newRun names a run so that later ones have larger names: the number keeps its
// twelve digits until the next century.
func newRun(now time.Time) string {
	return strconv.FormatInt(now.UnixNano(), 36) + "-" + rand.Text()[:8]
}

// A shift is one run of a worker. Its goroutine owns the core.
type shift struct {
	w       *Worker
	ctx     context.Context //nolint:containedctx // of Run
	base    context.Context //nolint:containedctx // of all handlers
	end     context.CancelCauseFunc
	core    *core.Worker
	inbox   *inbox[told]
	seat    Seat
	running map[wire.Ref]context.CancelCauseFunc
	ending  bool // the context of handlers has ended
	work    sync.WaitGroup
}

// told is one of these.
type told struct {
	heard    *wire.ToWorker
	returned *wire.Report
}

func (s *shift) loop() error {
	beat := time.NewTicker(max(s.w.opts.Lease/3, time.Millisecond))
	defer beat.Stop()
	patience := time.NewTimer(0)
	defer patience.Stop()
	patience.Stop() // until the worker drains
	leave := s.ctx.Done()
	s.perform() // it shows itself
	var events []told
	for {
		select {
		case <-s.inbox.wake:
		case <-beat.C:
			s.core.Show()
		case <-leave:
			leave = nil
			s.core.Drain()
			patience.Reset(max(s.w.opts.DrainTimeout, 0))
		case <-patience.C:
			// It goes on to show itself: others would begin what handlers are
			// still at.
			s.end(ErrLeaving)
			s.ending = true
		}
		runtime.Gosched() // more handlers may return, and one message reports all
		events = s.inbox.take(events)
		for _, e := range events {
			s.take(e)
		}
		s.perform()
		if leave == nil && s.core.Idle() || s.ending && len(s.running) == 0 {
			s.leave()
			return nil
		}
	}
}

func (s *shift) take(e told) {
	if e.heard != nil {
		s.core.Heard(*e.heard)
		return
	}
	delete(s.running, e.returned.Ref)
	if s.ending && !e.returned.OK {
		return // the end of the worker proves nothing about the task
	}
	s.core.Returned(*e.returned)
}

// perform does what the core wants.
func (s *shift) perform() {
	starts, stops, say := s.core.Take()
	for _, ref := range stops {
		if stop := s.running[ref]; stop != nil {
			stop(ErrRevoked)
		}
	}
	for _, start := range starts {
		s.start(start)
	}
	if say == nil {
		return
	}
	for _, r := range say.Refused {
		s.w.opts.Logger.Warn("refused an order", "task", r.ID, "attempt", r.Attempt, "why", string(r.Why), "newest_term", say.Seen)
	}
	for _, part := range SplitReports(*say) {
		s.seat.Say(part)
	}
}

// leave reports that the worker is gone when all handlers have returned: only
// then may others start its attempts.
func (s *shift) leave() {
	s.work.Wait()
	s.core.Leave()
	s.perform()
}

// start begins a handler.
func (s *shift) start(a core.Start) {
	ctx, cancel := context.WithCancelCause(s.base)
	s.running[a.Ref] = cancel
	t := Task{ID: a.ID, Payload: a.Payload, Attempt: a.Attempt, Term: leader.Term{Number: a.Term.Number, Token: a.Term.Token}}
	if s.w.opts.Accepted != nil {
		s.w.opts.Accepted(t)
	}
	s.work.Go(func() {
		defer cancel(nil)
		// A handler that ends its goroutine is reported all the same.
		report := wire.Report{Ref: a.Ref, Error: "the handler did not return"}
		defer func() { s.inbox.put(told{returned: &report}) }()
		ctx, stop := context.WithTimeoutCause(ctx, a.Timeout, ErrDeadline)
		defer stop()
		result, err := s.call(ctx, t)
		report = reportOf(a.Ref, result, err)
	})
}

// call runs the handler.
func (s *shift) call(ctx context.Context, t Task) (result []byte, err error) {
	panicked := guarded(s.w.opts.Logger, "the handler of task "+t.ID, func() error {
		result, err = s.w.handle(ctx, t)
		return nil
	})
	return result, errors.Join(err, panicked)
}

// maxError bounds what is stored of an error.
const maxError = 1 << 10

func reportOf(ref wire.Ref, result []byte, err error) wire.Report {
	if err == nil {
		return storable(wire.Report{Ref: ref, OK: true, Result: result})
	}
	return storable(wire.Report{Ref: ref, Error: err.Error(), Permanent: errors.Is(err, ErrPermanent)})
}

func tooLong(r wire.Report) bool { return len(r.Result) > MaxPayload || len(r.Error) > maxError }

// storable returns a report within the bounds of what is stored: a failure for
// one that is not. The leader does not rely on workers for it.
func storable(r wire.Report) wire.Report {
	if len(r.Result) > MaxPayload {
		err := Permanent(fmt.Errorf("%w: a result of %d bytes: must have at most %d", ErrInvalid, len(r.Result), MaxPayload))
		r = wire.Report{Ref: r.Ref, Error: err.Error(), Permanent: true}
	}
	r.Error = text(r.Error)
	return r
}

// text returns what is stored of an error. It is UTF-8, to which protobuf and
// JSON hold all text: a report that cannot be sent would be repeated for ever.
func text(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxError)], "\ufffd")
	end := min(len(s), maxError)
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
