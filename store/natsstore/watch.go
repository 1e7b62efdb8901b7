package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/pattern"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// Watch implements [store.Watcher]. It returns when each key's present state
// was delivered. It fails when nothing has come for [Options.Timeout], for this
// watch or another that is beginning.
func (s *Store) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	for _, key := range keys {
		if !store.ValidKey(key) {
			return nil, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
		}
	}
	// A copy, since the slice is the caller's, and is kept here.
	keys = slices.Clone(keys)
	slices.Sort(keys)
	w := &subscription{Watch: watch.New(deliver), keys: slices.Compact(keys)}
	return s.begin(ctx, w, func(*hub) {})
}

// WatchPattern implements [store.PatternWatcher]. It returns when the present
// state was delivered. It fails when no further key has come for
// [Options.Timeout], for this watch or another that is beginning. Where the
// bucket republishes and the user may not read the present state, it returns,
// too, after a call of present with that error.
func (s *Store) WatchPattern(ctx context.Context, pat string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	if !store.ValidPattern(pat) {
		return nil, fmt.Errorf("%w: pattern %q", store.ErrInvalid, pat)
	}
	w := &subscription{Watch: watch.New(deliver, pat)}
	return s.begin(ctx, w, func(h *hub) { w.view = pattern.New(h, h.feeds, w.Watch, pat, present) })
}

// begin begins a watch, and waits for its first states.
func (s *Store) begin(ctx context.Context, w *subscription, prepare func(*hub)) (stop func(), err error) {
	if err := s.sendable(ctx); err != nil {
		return nil, err
	}
	end := time.Now().Add(s.opts.Timeout)
	beginning, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	// Before anything is sent: whatever is denied from now on may be this
	// watch's.
	before := s.connReport()
	p, err := s.plan(beginning)
	if err != nil {
		return nil, err
	}
	h, err := s.withHub(func(h *hub) error {
		prepare(h)
		if err := h.add(w, p); err != nil {
			h.remove(w)
			return fmt.Errorf("%w: watching bucket %q: %w", classifySubscribe(err), s.names.Bucket, err)
		}
		// With the lock, so that the watch cannot end before there is something
		// to unhook.
		w.unhook = context.AfterFunc(ctx, s.shielded("the end of a watch", func() { s.stop(h, w) }))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.awaitStates(ctx, end, before, h, w); err != nil {
		s.stop(h, w)
		return nil, err
	}
	return func() { s.stop(h, w) }, nil
}

// awaitStates waits until the watch has its first states, for as long as those
// of any watch come before the end, and before each further timeout. How long
// all take depends on how many they are: to begin anew would never end where
// that is longer than the timeout.
func (s *Store) awaitStates(ctx context.Context, end time.Time, before attend.Report, h *hub, w *subscription) error {
	for known := h.learned(); ; end = time.Now().Add(s.opts.Timeout) {
		beginning, cancel := context.WithDeadline(ctx, end)
		err := s.awaitBeginning(beginning, before, h, w)
		inTime := beginning.Err() == nil
		cancel()
		if err == nil || inTime || ctx.Err() != nil {
			return err
		}
		more := h.learned()
		if more <= known {
			return err
		}
		known = more
	}
}

// stop ends a watch, and waits for a delivery that is under way.
func (s *Store) stop(h *hub, w *subscription) {
	h.stop(w)
	s.drop(h)
}

// plan learns how to watch the bucket, unless the hub knows already.
func (s *Store) plan(ctx context.Context) (plan, error) {
	if s.opts.Republished != "" {
		return plan{republished: s.opts.Republished}, nil
	}
	if p, planned := s.presentPlan(); planned {
		return p, nil
	}
	// Once for all watches that begin together. Where that is denied, of many
	// who asked most would not know: the connection reports the latest denial
	// alone, and the first of them to go on is denied other things.
	return s.planning.Do(ctx, func() (bool, plan, error) {
		p, err := s.askPlan(ctx)
		return err == nil, p, err
	})
}

// presentPlan is that of the hub, if there is one and it has a plan.
func (s *Store) presentPlan() (p plan, planned bool) {
	if h := s.present(); h != nil {
		return h.currentPlan()
	}
	return plan{}, false
}

func (s *Store) askPlan(ctx context.Context) (plan, error) {
	before := s.connReport()
	// Half of the time: a user who may not ask is told so by silence, and then
	// needs the other half.
	asking, cancel := context.WithTimeout(ctx, s.opts.Timeout/2)
	defer cancel()
	info, err := s.infoOrCreate(asking)
	switch {
	case err == nil:
		if err := s.checkSubjects(&info.Config); err != nil {
			return plan{}, err
		}
		return s.planFor(info), nil
	case ctx.Err() == nil && cmp.Or(s.unasked(err), s.unasked(s.reportedSince(before))) != nil:
		return plan{unknown: true}, nil
	case ctx.Err() == nil && asking.Err() != nil:
		// Another watch may have learned it meanwhile, and its denials may hide
		// that of this question.
		if p, planned := s.presentPlan(); planned {
			return p, nil
		}
	}
	return plan{}, s.checkError(ctx, before, err)
}

// unasked returns the reported error if it denies asking for the configuration
// or hearing the answer.
func (s *Store) unasked(reported error) error {
	return cmp.Or(wire.Violation(reported, wire.Publish, s.names.Info()), s.unheard(reported))
}

// awaitBeginning waits until the watch has its first states. A missing
// permission shows itself only as an error of the connection, which is looked
// for meanwhile instead of at the end of the wait alone.
func (s *Store) awaitBeginning(ctx context.Context, before attend.Report, h *hub, w *subscription) error {
	look := time.NewTicker(attend.FirstLook)
	defer look.Stop()
	for {
		if err := s.release(ctx, before, h, w); err != nil {
			return err
		}
		select {
		case <-w.Ready():
			// A consumer may be sooner than the flush of release.
			if err := s.release(ctx, before, h, w); err != nil {
				return err
			}
			// A denied subscription does not keep a key from being read, nor a
			// denied read a consumer from bringing the record. The server
			// reports a violation before it answers what was sent later: so all
			// are known after one more round trip. Should that fail, the watch
			// goes on as after any interruption.
			_ = s.nc.FlushWithContext(ctx)
			return s.checkDenied(ctx, before, h, w)
		case <-h.loop.Quit():
			return fmt.Errorf("%w: watching bucket %q: the store or the watch was closed", store.ErrPermanent, s.names.Bucket)
		case <-ctx.Done():
			if err := s.checkDenied(ctx, before, h, w); err != nil {
				return err
			}
			return s.noBeginning(ctx, h, w)
		case <-look.C:
			if err := s.checkDenied(ctx, before, h, w); err != nil {
				return err
			}
		}
	}
}

// release lets a watch read once its feeds are known not to be denied: of
// several denials at once, the connection shows the last. A flush that fails is
// repeated with the next look.
func (s *Store) release(ctx context.Context, before attend.Report, h *hub, w *subscription) error {
	for h.held(w) && s.nc.FlushWithContext(ctx) == nil {
		if err := s.checkDenied(ctx, before, h, w); err != nil {
			return err
		}
		if !h.release(before, w) {
			return nil // the next look tries again
		}
	}
	return nil
}

// checkDenied returns the error of a permission whose lack keeps the watch from
// hearing of writes, or from its beginning where that cannot be done without.
// Keys that cannot be read are renounced where that can be done without.
//
// The connection keeps the latest violation alone, so it is looked at again and
// again while a watch begins, from the goroutine that called Watch.
func (s *Store) checkDenied(ctx context.Context, before attend.Report, h *hub, w *subscription) error {
	for {
		l, err := h.checkDenied(before, w)
		if err != nil || l.settled() || s.nc.FlushWithContext(ctx) != nil || h.settle(w, l) {
			return err
		}
	}
}

// noBeginning explains a watch that did not begin in time.
func (s *Store) noBeginning(ctx context.Context, h *hub, w *subscription) error {
	cause := h.latestError(w)
	class := store.ErrTransient
	if errors.Is(cause, jetstream.ErrStreamNotFound) || errors.Is(cause, nats.ErrNoResponders) {
		// The bucket was deleted while the watch began, or has no leader.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), askingTime)
		defer cancel()
		return fmt.Errorf("watching bucket %q: %w", s.names.Bucket, s.diagnose(late, errors.Join(context.Cause(ctx), cause)))
	}
	// Whose subscription it was, the server does not say, nor when.
	if full := s.nc.LastError(); errors.Is(full, nats.ErrMaxSubscriptionsExceeded) {
		cause = errors.Join(cause, fmt.Errorf("%w (max_subscriptions)", full))
	}
	return fmt.Errorf("%w: watching bucket %q: %w", class, s.names.Bucket, errors.Join(context.Cause(ctx), cause))
}

// suspect has a key read, and the patterns that it matches, because a write
// found it in a state that nobody told of. The revision is what the stream's
// leader named, or 0.
func (s *Store) suspect(key string, named uint64) {
	if h := s.present(); h != nil {
		h.suspect(key, named)
	}
}

// ConnState implements [store.ConnReporter].
func (s *Store) ConnState() store.ConnState { return connState(s.nc.Status()) }

// ConnError returns why there is no connection, as far as that is known: the
// server has refused the login, say. Nil while there is one.
func (s *Store) ConnError() error {
	if s.ConnState() == store.Connected {
		return nil
	}
	return s.nc.LastError()
}

// OnConnState implements [store.ConnReporter]. It leaves the connection's
// handlers alone. After Close it does nothing.
func (s *Store) OnConnState(f func(store.ConnState)) (stop func()) {
	var l *listener
	h, err := s.withHub(func(h *hub) error {
		l = h.listeners.add(f)
		return nil
	})
	if err != nil {
		return func() {}
	}
	return func() {
		h.stopListening(l)
		s.drop(h)
	}
}
