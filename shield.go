package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// This file is where panics end. Every goroutine that this package starts runs
// under one of these:
//
//   - guard, for code of ours: a panic ends the election (crash).
//   - hook and shield.Call, for functions of the program: a panic is reported.
//   - shelteredStore and its like, for a store written by others: a panic is a
//     call whose outcome is unknown.

// guard calls f, which is ours. A panic of it ends the election.
func (e *election) guard(what string, f func()) {
	shield.Call(func() {
		faults.Point(what)
		f()
	}, func(value any, stack []byte) { e.crash(what, value, stack) })
}

// crash ends the election because our own code panicked, in any goroutine. The
// window closes here and now: the election's goroutine, which does the rest, may
// be the one that is broken, or stuck.
func (e *election) crash(what string, value any, stack []byte) {
	err := fmt.Errorf("%w: %s: %v", ErrPanicked, what, shield.Value(value))
	e.broken.CompareAndSwap(nil, &failure{err, time.Now()})
	// After broken is set: beginTerm looks at that after it has set current.
	if g := e.current.Load(); g != nil {
		g.close(ReasonCrashed)
	}
	e.failed(err)
	e.reportPanic(what)(value, stack)
}

// crashed reports whether code of ours has panicked.
func (e *election) crashed() bool { return e.broken.Load() != nil }

// hook calls f, a hook of the program, and reports a panic of it.
func (e *election) hook(name string, f func()) { shield.Call(f, e.reportPanic(name)) }

// spawn runs f, which is ours, in one of the goroutines of the election's I/O.
func (l *loop) spawn(what string, f func()) {
	l.io.Go(func() { l.e.guard(what, f) })
}

// A shelteredStore is a store whose panics are calls with an unknown outcome. It
// hides what else the store can do.
type shelteredStore struct{ e *election }

// sheltered returns the election's store for calls from goroutines of ours.
func (e *election) sheltered() store.Store { return shelteredStore{e} }

// unknownAfterPanic is the outcome of a call that panicked.
func unknownAfterPanic(method string) error {
	return fmt.Errorf("%w: the store's %s panicked", store.ErrUnknown, method)
}

func (s shelteredStore) Get(ctx context.Context, key string) (entry store.Entry, err error) {
	if !shield.Call(func() { entry, err = s.e.store.Get(ctx, key) }, s.e.reportPanic("the store's Get")) {
		err = unknownAfterPanic("Get")
	}
	return entry, err
}

func (s shelteredStore) CompareAndSwap(ctx context.Context, w store.Write) (rev uint64, err error) {
	if !shield.Call(func() { rev, err = s.e.store.CompareAndSwap(ctx, w) }, s.e.reportPanic("the store's CompareAndSwap")) {
		err = unknownAfterPanic("CompareAndSwap")
	}
	return rev, err
}

func (e *election) checkStore(ctx context.Context, c store.Checker, r store.CheckRequest) (report store.Report, err error) {
	err = unknownAfterPanic("Check")
	shield.Call(func() { report, err = c.Check(ctx, r) }, e.reportPanic("the store's Check"))
	return report, err
}

func (e *election) watchStore(ctx context.Context, w store.Watcher, keys []string) (stop func(), err error) {
	err = unknownAfterPanic("Watch")
	shield.Call(func() { stop, err = w.Watch(ctx, keys, e.deliver) }, e.reportPanic("the store's Watch"))
	return e.ending("the end of the store's Watch", stop), err
}

func (e *election) offerTo(ctx context.Context, st store.Offerer, offer []byte) (err error) {
	err = unknownAfterPanic("Offer")
	shield.Call(func() { err = st.Offer(ctx, e.cfg.Group, offer) }, e.reportPanic("the store's Offer"))
	return err
}

func (e *election) takeOffers(st store.Offerer) (stop func(), err error) {
	err = unknownAfterPanic("TakeOffers")
	shield.Call(func() { stop, err = st.TakeOffers(e.cfg.Group, e.takeOffer) }, e.reportPanic("the store's TakeOffers"))
	return e.ending("the end of the store's TakeOffers", stop), err
}

func (e *election) broadcast(ctx context.Context, st store.Broadcaster, message []byte) (err error) {
	err = unknownAfterPanic("Broadcast")
	shield.Call(func() { err = st.Broadcast(ctx, e.cfg.Group, message) }, e.reportPanic("the store's Broadcast"))
	return err
}

func (e *election) listen(st store.Broadcaster) (stop func(), err error) {
	err = unknownAfterPanic("Listen")
	shield.Call(func() { stop, err = st.Listen(e.cfg.Group, mostHeard, e.hearNomination) }, e.reportPanic("the store's Listen"))
	return e.ending("the end of the store's Listen", stop), err
}

func (e *election) onConnState(c store.ConnReporter, tell func(store.ConnState)) (stop func()) {
	shield.Call(func() { stop = c.OnConnState(tell) }, e.reportPanic("the store's OnConnState"))
	return e.ending("the end of the store's OnConnState", stop)
}

// connOf asks for the connection's state. A panic is taken for a store that does
// not know it.
func (e *election) connOf(c store.ConnReporter) store.ConnState {
	state := store.Connected
	shield.Call(func() { state = c.ConnState() }, e.reportPanic("the store's ConnState"))
	return state
}

// ending returns a function that calls stop, which is the store's, if there is
// one.
func (e *election) ending(what string, stop func()) func() {
	return func() {
		if stop != nil {
			shield.Call(stop, e.reportPanic(what))
		}
	}
}

// deliver takes in what the watch tells of, on a goroutine of the store's, which
// a panic of ours must not take along.
func (e *election) deliver(entry store.Entry) {
	e.guard("delivery", func() { e.mail.sight(entry, entry.Key != e.cfg.Group) })
}

// hearNomination is deliver for nominations.
func (e *election) hearNomination(b []byte) {
	e.guard("nominated", func() { e.mail.heard(b) })
}

// takeOffer is deliver for offers.
func (e *election) takeOffer(b []byte) {
	e.guard("offered", func() { e.mail.offered(b) })
}
