package engine

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/polled"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// DrainEvery is how often a drain's record is read where it is not watched.
const DrainEvery = 30 * time.Second

// A drain follows the record by which operators drain an instance, and bars its
// candidates from campaigning while the record is in force (decision 15). All
// candidates of the process with one store and one InstanceID share it.
type drain struct {
	drained
	timeout time.Duration   // of a call to the store
	ctx     context.Context //nolint:containedctx // of all its I/O, until the last candidate leaves
	cancel  context.CancelFunc
	work    sync.WaitGroup
	tried   chan struct{} // closed when the first attempt to learn the state has ended

	// The goroutine of run alone uses these.
	reading  bool // the record every DrainEvery, where it is not watched
	failures int  // to begin
	reads    polled.Reads

	mu         sync.Mutex
	candidates list.List // of *env
	ended      bool      // the last candidate leaves
	stop       func()    // ends the watch
	known      bool      // the record was delivered
	judged     store.Entry
	order      machine.Exit
}

// A drained is what a drain concerns.
type drained struct {
	store    store.Store
	instance string
	process  string // see package process
}

// drains are the drains of this process, whose candidates know nothing of each
// other.
//
//nolint:gochecknoglobals // It holds a store only while a candidate follows a drain on it.
var drains = struct {
	mu  sync.Mutex
	all map[drained]*drain
}{all: make(map[drained]*drain)}

// joinDrain has the candidate follow the drain of its instance, until endDrain.
// It returns when the candidate has the present state, if the first attempt to
// learn that succeeds, or when the candidate's context is done.
func (e *env) joinDrain() {
	d := e.enterDrain()
	select {
	case <-d.tried:
	case <-e.ctx.Done():
	}
}

func (e *env) enterDrain() *drain {
	concerned := drained{e.store.st, e.cfg.InstanceID, e.process}
	drains.mu.Lock()
	defer drains.mu.Unlock()
	var d *drain
	if concerned.shared() {
		d = drains.all[concerned]
	}
	begins := d == nil
	if begins {
		d = &drain{drained: concerned, timeout: max(e.cfg.ConnectionTimeout, 2*time.Second), tried: make(chan struct{})}
		d.ctx, d.cancel = context.WithCancel(context.Background())
		if concerned.shared() {
			drains.all[concerned] = d
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.candidates.PushBack(e)
	e.leaveDrain = func() { d.leave(at) }
	if d.order.Reason != "" {
		e.inbox.event(bar(d.order))
	}
	if begins {
		d.work.Go(d.run)
	}
	return d
}

// shared reports whether the candidates share a drain: a store of a type that
// cannot be compared has one for each.
func (d drained) shared() bool { return reflect.ValueOf(d.store).Comparable() }

// endDrain has the candidate follow its drain no more.
func (e *env) endDrain() {
	if e.leaveDrain != nil {
		e.leaveDrain()
	}
}

// leave ends what join began. The last candidate waits until nothing of the
// drain is under way.
func (d *drain) leave(at *list.Element) {
	drains.mu.Lock()
	d.mu.Lock()
	last, stop := d.candidates.Len() == 1, d.stop
	d.ended = last
	if !last { // the last one reports what goes wrong at the end
		d.candidates.Remove(at)
	} else if d.shared() {
		delete(drains.all, d.drained)
	}
	d.mu.Unlock()
	drains.mu.Unlock()
	if !last {
		return
	}
	d.cancel()
	if stop != nil {
		stop()
	}
	d.work.Wait()
}

// run begins to follow the record, and reads it where it is not watched.
func (d *drain) run() {
	tried := sync.OnceFunc(func() { close(d.tried) })
	for {
		next := time.Second // after a panic
		d.guard(func() { next = d.turn() })
		tried()
		if next == 0 || !backoff.Sleep(d.ctx, next) {
			return
		}
	}
}

// turn returns the time until the next turn, 0 if there is none.
func (d *drain) turn() (next time.Duration) {
	if d.reading {
		if d.look() == nil && d.reads.Doubted() {
			return time.Second // a replica that lags, or a store that forgot
		}
		return DrainEvery // a failure is repeated then, too
	}
	if d.begin() != nil {
		d.failures++
		return controlrecord.Pace.After(d.failures)
	}
	if d.reading {
		return DrainEvery
	}
	return 0
}

// guard calls f, which is ours. A panic of it is reported.
func (d *drain) guard(f func()) {
	shield.Call(func() {
		faults.Point("drain")
		f()
	}, d.panicked("drain"))
}

func (d *drain) panicked(what string) func(value any, stack []byte) {
	return func(value any, stack []byte) { d.report(NotePanic, shield.Text(what, value, stack)) }
}

// report has one of the candidates report what a person has to know once.
func (d *drain) report(kind, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(kind, text)
}

// note is report for callers that hold d.mu.
func (d *drain) note(kind, text string) {
	if first := d.candidates.Front(); first != nil {
		first.Value.(*env).report.tell(kind, text) //nolint:errcheck,forcetypeassert // there are no others
	}
}

func (d *drain) warn(text string) { d.report(NoteWarning, text) }

// begin begins to follow the record. When it returns nil, the candidates have
// had the present state, or the watch delivers it as soon as it can be read, or
// the user may not read it. An error passes, and begin may then be called again.
func (d *drain) begin() error {
	w, ok := d.store.(store.Watcher)
	// Such a store would make requests for this record as often as for the records
	// of the groups.
	if c, is := d.store.(interface{ CostlyWatch() bool }); !ok || is && c.CostlyWatch() {
		return d.entered(d.look())
	}
	err := d.watch(w)
	if !denied(err) {
		return err
	}
	looked := d.look()
	switch {
	case looked == nil:
		d.warn(fmt.Sprintf("the drain record of this instance cannot be watched, and is read every %v: %v", DrainEvery, err))
	case denied(looked):
		looked = fmt.Errorf("%w; nor watched: %w", looked, err)
	}
	return d.entered(looked)
}

// denied reports whether a call fails again until somebody repairs something.
func denied(err error) bool {
	return store.Classify(err) == store.Permanent && !errors.Is(err, store.ErrClosed)
}

// entered takes in how the first read ended.
func (d *drain) entered(err error) error {
	switch {
	case err == nil:
		d.reading = true
	case denied(err):
		d.warn("the drain record of this instance cannot be read, so that nobody can drain it: " + err.Error())
	default:
		return err
	}
	return nil
}

// watch begins a watch, which lasts until the drain ends if it began within
// d.timeout.
func (d *drain) watch(w store.Watcher) error {
	ctx, cancel := context.WithCancel(d.ctx)
	late := time.AfterFunc(d.timeout, cancel)
	var end func()
	err := OutcomeOfPanic("Watch")
	shield.Call(func() {
		end, err = w.Watch(ctx, []string{record.DrainKey(d.instance)}, func(e store.Entry) {
			d.guard(func() { d.observe(e) })
		})
	}, d.panicked("the store's Watch"))
	if err == nil && !late.Stop() {
		err = fmt.Errorf("%w: the watch began late", store.ErrTransient)
	}
	stop := func() {
		cancel()
		if end != nil {
			shield.Call(end, d.panicked("the end of the store's Watch"))
		}
	}
	if err == nil && d.keeps(stop) {
		d.catchUp()
		return nil
	}
	late.Stop()
	stop()
	return err
}

// keeps keeps the end of a watch for the last candidate to leave, unless it has
// left.
func (d *drain) keeps(stop func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	d.stop = stop
	return true
}

// catchUp reads the record if the watch has not delivered it. Watches may begin
// before they deliver, and a user may have the right to a watch alone.
func (d *drain) catchUp() {
	if d.knows() {
		return
	}
	e, err := d.get()
	switch {
	case err == nil:
		d.observeFirst(e)
	case denied(err):
		d.warn("the drain record of this instance cannot be read, so that an order is obeyed only when it arrives while this process runs: " + err.Error())
	}
}

func (d *drain) knows() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

// look reads the record once, in the place of a watch.
func (d *drain) look() error {
	e, err := d.get()
	if err == nil && d.reads.Believe(e.Revision) {
		d.observe(e)
	}
	return err
}

func (d *drain) get() (e store.Entry, err error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	err = OutcomeOfPanic("Get")
	shield.Call(func() { e, err = d.store.Get(ctx, record.DrainKey(d.instance)) }, d.panicked("the store's Get"))
	return e, err
}

// observeFirst is observe, unless the watch has delivered a state, which may be
// newer.
func (d *drain) observeFirst(e store.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known {
		d.judge(e)
	}
}

// observe takes in a state of the record.
func (d *drain) observe(e store.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.judge(e)
}

// judge is observe for callers that hold d.mu.
func (d *drain) judge(e store.Entry) {
	if d.known && e.Revision == d.judged.Revision && e.Tombstone == d.judged.Tombstone && bytes.Equal(e.Value, d.judged.Value) {
		return // a poll repeats it, and no store that forgot gives its revision again
	}
	e.Value = bytes.Clone(e.Value)
	d.known, d.judged = true, e
	order, ordered, ok := record.ReadDrain(e)
	switch {
	case !ok:
		d.note(NoteWarning, "the drain record of this instance cannot be read as one, and is ignored: drain the instance again, or undrain it")
	case !ordered:
		d.obey(machine.Exit{})
	case order.Taken == "":
		d.obey(exit(order))
		d.work.Go(func() { d.guard(func() { d.take(e.Revision, order) }) })
	case order.Taken == d.process || d.order.Reason != "":
		d.obey(exit(order))
	default:
		// It was obeyed by a process of before: this one is the restart that
		// ends the drain.
		d.work.Go(func() { d.guard(func() { d.write(store.Write{Expected: e.Revision, Tombstone: true}) }) })
	}
}

func bar(order machine.Exit) machine.Event {
	return machine.Event{Kind: machine.Bar, Bars: machine.Withdrawn, Exit: order}
}

func exit(order record.Drain) machine.Exit {
	return machine.Exit{Reason: machine.ReasonDrained, By: order.By, Why: order.Reason}
}

// obey bars the candidates, which makes leaders hand over, or ends that. An exit
// without a reason stands for no order. d.mu is held.
func (d *drain) obey(order machine.Exit) {
	if d.order == order {
		return
	}
	d.order = order
	ev := bar(order)
	if order.Reason == "" {
		ev = machine.Event{Kind: machine.Unbar, Bars: machine.Withdrawn}
	}
	for at := d.candidates.Front(); at != nil; at = at.Next() {
		at.Value.(*env).inbox.event(ev) //nolint:errcheck,forcetypeassert // there are no others
	}
}

// take writes this process into an order that it obeys, so that its successor
// does not.
func (d *drain) take(revision uint64, order record.Drain) {
	order.Taken = d.process
	value, err := order.Encode()
	if err != nil {
		d.refused(fmt.Errorf("%w: %w", store.ErrInvalid, err))
		return
	}
	d.write(store.Write{Expected: revision, Value: value})
}

// longUnwritten is how many failures in a row, in a second at least, are reported.
const longUnwritten = 10

// write replaces the record, and repeats that until the record has changed. An
// order that cannot be taken is obeyed all the same.
func (d *drain) write(w store.Write) {
	w.Key = record.DrainKey(d.instance)
	for failures := 1; d.current(w.Expected); failures++ {
		ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
		err := OutcomeOfPanic("CompareAndSwap")
		shield.Call(func() { _, err = d.store.CompareAndSwap(ctx, w) }, d.panicked("the store's CompareAndSwap"))
		cancel()
		outcome := store.Classify(err)
		if outcome == store.OK || outcome == store.Conflict {
			return // the watch delivers what is there now
		}
		if (outcome == store.Permanent || failures == longUnwritten) && d.current(w.Expected) {
			d.refused(err)
		}
		if outcome == store.Permanent || !backoff.Sleep(d.ctx, controlrecord.Pace.After(failures)) {
			return
		}
	}
}

// current reports whether the record is still of that revision.
func (d *drain) current(revision uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx.Err() == nil && d.judged.Revision == revision
}

// refused reports that a record could not be written.
func (d *drain) refused(err error) {
	d.warn("the drain record of this instance cannot be written, so that a restart of this process may not end the drain: " + err.Error())
}
