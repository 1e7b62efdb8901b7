package core

import (
	"maps"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A WorkerConfig is what a worker is.
type WorkerConfig struct {
	Name, Run string
	Labels    []string
	Capacity  int
	Lease     time.Duration
}

// A Start is an accepted attempt that is to be started.
type Start struct {
	wire.Order
	Term wire.Term
}

// A Worker accepts orders, and holds attempts until they are settled.
type Worker struct {
	cfg      WorkerConfig
	newest   wire.Term
	draining bool
	held     map[string]*attempt
	active   int               // attempts that have not returned
	revoked  map[wire.Ref]bool // the attempts that were revoked
	show     bool

	starts []Start
	stops  []wire.Ref
	say    *wire.FromWorker
}

// An attempt is one that runs, or whose report is not settled.
type attempt struct {
	ref    wire.Ref
	report *wire.Report // nil: it runs
}

// NewWorker returns a worker that has seen nothing. It begins by showing
// itself.
func NewWorker(cfg WorkerConfig) *Worker {
	w := &Worker{cfg: cfg, held: map[string]*attempt{}, revoked: map[wire.Ref]bool{}}
	w.Show()
	return w
}

// Take returns the actions since the last call: the attempts to start, those to
// stop, and the message to the leader, nil if none.
func (w *Worker) Take() (starts []Start, stops []wire.Ref, say *wire.FromWorker) {
	if w.show {
		w.present()
	}
	starts, stops, say = w.starts, w.stops, w.say
	w.starts, w.stops, w.say = nil, nil, nil
	if say != nil {
		say.Worker, say.Run, say.Seen, say.SeenToken = w.cfg.Name, w.cfg.Run, w.newest.Number, w.newest.Token
	}
	return starts, stops, say
}

func (w *Worker) message() *wire.FromWorker {
	if w.say == nil {
		w.say = &wire.FromWorker{}
	}
	return w.say
}

// Newest returns the newest term that the worker has seen.
func (w *Worker) Newest() wire.Term { return w.newest }

// Idle reports whether the worker holds nothing.
func (w *Worker) Idle() bool { return len(w.held) == 0 && len(w.revoked) == 0 }

// Show sends the leader the worker's attempts and capacity, and all reports
// that are not settled. It is due three times in a lease.
func (w *Worker) Show() { w.show = true }

func (w *Worker) present() {
	w.show = false
	m := w.message()
	m.Presence = &wire.Presence{
		Labels: w.cfg.Labels, Capacity: w.cfg.Capacity - len(w.revoked), Lease: w.cfg.Lease, Draining: w.draining,
	}
	m.Reports = nil
	for _, id := range slices.Sorted(maps.Keys(w.held)) {
		a := w.held[id]
		m.Presence.Held = append(m.Presence.Held, a.ref)
		if a.report != nil {
			m.Reports = append(m.Reports, *a.report)
		}
	}
}

// Drain takes no more orders from now on.
func (w *Worker) Drain() {
	w.draining = true
	w.Show()
}

// Leave reports that the worker has ended.
func (w *Worker) Leave() { w.message().Leaving = true }

// Heard takes in a message of a leader.
func (w *Worker) Heard(m wire.ToWorker) {
	if m.Run != "" && m.Run != w.cfg.Run {
		return // for a worker of this name before us
	}
	if !m.Term.Supersedes(w.newest) {
		for _, o := range m.Orders {
			w.refuse(o.Ref, wire.Stale)
		}
		if len(m.Orders) == 0 {
			w.message() // its Seen reports it
		}
		return
	}
	w.newest = m.Term
	for _, ref := range m.Settled {
		if a := w.held[ref.ID]; a != nil && a.ref == ref && a.report != nil {
			delete(w.held, ref.ID)
		}
	}
	for _, ref := range m.Revoked {
		w.revoke(ref)
	}
	for _, o := range m.Orders {
		w.order(o)
	}
	if m.Call {
		w.Show()
	}
}

func (w *Worker) order(o wire.Order) {
	a := w.held[o.ID]
	switch {
	case w.revoked[o.Ref]: // once more, and late: its handler is still at it
		w.Show()
		return
	case a != nil && a.ref == o.Ref:
		if a.report != nil {
			w.message().Reports = append(w.message().Reports, *a.report)
		}
		return
	case a != nil && a.ref.Attempt > o.Attempt:
		w.refuse(o.Ref, wire.Older)
		return
	case a != nil:
		w.revoke(a.ref)
	}
	switch {
	case w.draining:
		w.refuse(o.Ref, wire.Draining)
	case w.active >= w.cfg.Capacity:
		w.refuse(o.Ref, wire.Full)
	default:
		w.active++
		w.held[o.ID] = &attempt{ref: o.Ref}
		w.starts = append(w.starts, Start{Order: o, Term: w.newest})
	}
}

func (w *Worker) refuse(ref wire.Ref, why wire.Why) {
	w.message().Refused = append(w.message().Refused, wire.Refusal{Ref: ref, Why: why})
}

// revoke forgets an attempt, and stops it if it runs.
func (w *Worker) revoke(ref wire.Ref) {
	w.Show() // the leader waits for what it can take now
	a := w.held[ref.ID]
	if a == nil || a.ref != ref {
		return
	}
	delete(w.held, ref.ID)
	if a.report != nil {
		return
	}
	// The order may have come in the same batch, after the worker was held up:
	// then nothing was started, and nothing could be stopped.
	if i := slices.IndexFunc(w.starts, func(s Start) bool { return s.Ref == ref }); i >= 0 {
		w.starts = slices.Delete(w.starts, i, i+1)
		w.active--
		return
	}
	w.stops = append(w.stops, ref)
	w.revoked[ref] = true
}

// Returned takes in that an attempt has ended, and how.
func (w *Worker) Returned(r wire.Report) {
	w.active--
	if w.revoked[r.Ref] {
		delete(w.revoked, r.Ref)
		w.Show()
		return
	}
	a := w.held[r.ID]
	a.report = &r
	w.message().Reports = append(w.message().Reports, r)
}
