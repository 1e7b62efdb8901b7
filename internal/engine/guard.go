package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// Panics end in one of three places. Every goroutine that this package starts
// runs under one of them:
//
//   - env.guard, for our own code: a panic ends the election.
//   - reporter.hook and shield.Call, for functions of the program: a panic is
//     reported.
//   - guardedStore, for a store, which others may have written: a panic is a
//     call whose outcome is unknown.

// A guardedStore is a store whose panics are calls with an unknown outcome. It
// guards each optional ability of a store by a method. It does not implement
// store.AsyncWriter, Watcher and so on, since it would then seem able to do
// what the store cannot.
type guardedStore struct {
	st     store.Store
	report *reporter
}

// OutcomeOfPanic is the error of a call to the store that panicked. The outcome
// is Unknown, because the write may be on its way.
func OutcomeOfPanic(method string) error {
	return fmt.Errorf("%w: the store's %s panicked", store.ErrUnknown, method)
}

func (s *guardedStore) Get(ctx context.Context, key string) (entry store.Entry, err error) {
	if !shield.Call(func() { entry, err = s.st.Get(ctx, key) }, s.report.panicked("the store's Get")) {
		err = OutcomeOfPanic("Get")
	}
	return entry, err
}

func (s *guardedStore) CompareAndSwap(ctx context.Context, w store.Write) (rev uint64, err error) {
	if !shield.Call(func() { rev, err = s.st.CompareAndSwap(ctx, w) }, s.report.panicked("the store's CompareAndSwap")) {
		err = OutcomeOfPanic("CompareAndSwap")
	}
	return rev, err
}

// compareAndSwapAsync calls done with an unknown outcome if the store panics,
// which may come after an answer.
func (s *guardedStore) compareAndSwapAsync(
	st store.AsyncWriter, deadline time.Time, w store.Write, done func(rev uint64, err error),
) (p store.Pending) {
	if !shield.Call(func() { p = st.CompareAndSwapAsync(deadline, w, done) }, s.report.panicked("the store's CompareAndSwapAsync")) {
		done(0, OutcomeOfPanic("CompareAndSwapAsync"))
	}
	return p
}

func (s *guardedStore) check(ctx context.Context, c store.Checker, r store.CheckRequest) (report store.Report, err error) {
	// Set beforehand: a call that panics assigns nothing.
	err = OutcomeOfPanic("Check")
	shield.Call(func() { report, err = c.Check(ctx, r) }, s.report.panicked("the store's Check"))
	return report, err
}

func (s *guardedStore) watch(ctx context.Context, w store.Watcher, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	err = OutcomeOfPanic("Watch")
	shield.Call(func() { stop, err = w.Watch(ctx, keys, deliver) }, s.report.panicked("the store's Watch"))
	return s.ending("the end of the store's Watch", stop), err
}

func (s *guardedStore) onConnState(c store.ConnReporter, tell func(store.ConnState)) (stop func()) {
	shield.Call(func() { stop = c.OnConnState(tell) }, s.report.panicked("the store's OnConnState"))
	return s.ending("the end of the store's OnConnState", stop)
}

// connState asks for the connection's state. A panic is taken for a store that
// does not know it. That counts as connected, as a store does that has no
// connection: a report of a loss ends terms where there is a grace period.
func (s *guardedStore) connState(c store.ConnReporter) store.ConnState {
	state := store.Connected
	shield.Call(func() { state = c.ConnState() }, s.report.panicked("the store's ConnState"))
	return state
}

// ending returns a function that calls stop, which is the store's, if there is
// one. A store that panicked has returned none, and its caller need not know.
func (s *guardedStore) ending(what string, stop func()) func() {
	return func() {
		if stop != nil {
			shield.Call(stop, s.report.panicked(what))
		}
	}
}
