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

// Watch implements [store.Watcher]. It returns when each key's current state
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
	w := &subscription{Watch: watch.New(s.noting(deliver)), keys: slices.Compact(keys)}
	return s.begin(ctx, w, func(*hub) {})
}

// WatchPattern implements [store.PatternWatcher]. It returns when the current
// state was delivered. It fails when no further key has come for
// [Options.Timeout], for this watch or another that is beginning. If the bucket
// republishes and the user may not read the current state, it also returns,
// after a call of present with that error.
func (s *Store) WatchPattern(ctx context.Context, pat string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	if !store.ValidPattern(pat) {
		return nil, fmt.Errorf("%w: pattern %q", store.ErrInvalid, pat)
	}
	w := &subscription{Watch: watch.New(s.noting(deliver), pat), pattern: pat}
	return s.begin(ctx, w, func(h *hub) { w.view = pattern.New(h, h.sources, w.Watch, pat, present) })
}

// begin begins a watch, and waits for its first states.
func (s *Store) begin(ctx context.Context, w *subscription, prepare func(*hub)) (stop func(), err error) {
	if err := s.sendable(ctx); err != nil {
		return nil, err
	}
	end := time.Now().Add(s.opts.Timeout)
	beginning, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	p, err := s.plan(beginning, w)
	if err != nil {
		return nil, err
	}
	// Whatever is denied from now on may be this watch's.
	w.reported = s.nc.LastError()
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
	if err := s.awaitStates(ctx, end, h, w); err != nil {
		s.stop(h, w)
		return nil, err
	}
	return func() { s.stop(h, w) }, nil
}

// awaitStates waits until the watch has its first states. It gives up when no
// watch has received a first state before end, or within a further timeout. The
// time that all states take depends on their number: if it is longer than the
// timeout, a watch that started again would never end.
func (s *Store) awaitStates(ctx context.Context, end time.Time, h *hub, w *subscription) error {
	for known := h.learned(); ; end = time.Now().Add(s.opts.Timeout) {
		beginning, cancel := context.WithDeadline(ctx, end)
		err := s.awaitBeginning(beginning, h, w)
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
func (s *Store) plan(ctx context.Context, w *subscription) (p plan, err error) {
	if s.opts.Republished != "" {
		return plan{republished: s.opts.Republished}, nil
	}
	p, planned := s.presentPlan()
	if !planned {
		if p, err = s.askPlan(ctx); err != nil {
			return plan{}, err
		}
	}
	// An earlier watch may have been refused for its key alone, but what it was
	// granted shows how the bucket is watched.
	if p.unknown && (!planned || p.denied != nil) {
		return s.assume(ctx, w), nil //nolint:nilerr // a denied plan is assumed, and Check reports the denial
	}
	return p, nil
}

// presentPlan returns the hub's plan, if any.
func (s *Store) presentPlan() (p plan, planned bool) {
	if h := s.present(); h != nil {
		return h.currentPlan()
	}
	return plan{}, false
}

func (s *Store) askPlan(ctx context.Context) (plan, error) {
	before := s.connReport()
	// Half of the time: a user who may not ask gets no answer, and then needs
	// the other half.
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
	}
	return plan{}, s.checkError(ctx, before, err)
}

// assume decides how a bucket is watched whose configuration the user may not
// read. A user who may make the watch's consumer, and hear what it delivers,
// watches by consumers. Any other bucket is taken for one that republishes as
// ours do, for a user who may neither ask nor make consumers may still listen.
func (s *Store) assume(ctx context.Context, w *subscription) plan {
	filter := ">"
	switch {
	case s.opts.WatchWholeBucket:
	case w.pattern != "":
		filter = w.pattern
	case len(w.keys) > 0:
		filter = w.keys[0]
	}
	denied := s.refused(ctx, wire.Publish, s.names.Consumer(filter))
	if denied == nil {
		denied = s.refused(ctx, wire.Subscribe, s.nc.NewInbox())
	}
	if denied != nil {
		return plan{unknown: true, republished: defaultRepublish(s.names.Bucket), denied: denied}
	}
	return plan{unknown: true}
}

// unasked returns the reported error if it denies asking for the configuration
// or hearing the answer.
func (s *Store) unasked(reported error) error {
	return cmp.Or(wire.Violation(reported, wire.Publish, s.names.Info()), s.unheard(reported))
}

// awaitBeginning waits until the watch has its first states. A missing
// permission shows itself only as an error of the connection, which is looked
// for meanwhile instead of at the end of the wait alone.
func (s *Store) awaitBeginning(ctx context.Context, h *hub, w *subscription) error {
	look := time.NewTicker(attend.FirstLook)
	defer look.Stop()
	for {
		select {
		case <-w.Ready():
			// A denied subscription does not keep a key from being read, nor a
			// denied read a consumer from bringing the record. The server
			// reports a violation before it answers what was sent later: so all
			// are known after one more round trip. Should that fail, the watch
			// goes on as after any interruption.
			_ = s.nc.FlushWithContext(ctx)
			return s.checkRights(ctx, h, w)
		case <-h.loop.Quit():
			if ctx.Err() == nil { // which ends the last watch, and so the loop
				return fmt.Errorf("%w: watching bucket %q: the store or the watch was closed", store.ErrPermanent, s.names.Bucket)
			}
			return s.noBeginning(ctx, h, w)
		case <-ctx.Done():
			return s.noBeginning(ctx, h, w)
		case <-look.C:
			if err := s.checkRights(ctx, h, w); err != nil {
				return err
			}
		}
	}
}

// checkRights returns an error if the user lacks a right that the watch cannot
// do without. Where the connection has reported nothing since the watch began,
// the server has refused nothing. Otherwise it is asked for each right, one
// after the other.
func (s *Store) checkRights(ctx context.Context, h *hub, w *subscription) error {
	for ctx.Err() == nil {
		reported := s.nc.LastError()
		//nolint:errorlint // an equal error in another value is a new report
		if w.settled.Load() || reported == w.reported {
			return nil
		}
		if err := s.tryAll(ctx, reported, h, w); err != nil {
			return fmt.Errorf("%w: watching bucket %q: the user lacks a permission: %w", store.ErrPermanent, s.names.Bucket, err)
		}
	}
	w.settled.Store(false) // time was up before the server had answered
	return nil
}

// tryAll asks for each right of the watch, and ends early if the hub replaces
// its sources meanwhile: they need others.
func (s *Store) tryAll(ctx context.Context, reported error, h *hub, w *subscription) error {
	needs := h.needs(w)
	for _, n := range needs {
		denied := wire.Violation(reported, n.act, n.subject)
		if denied == nil {
			denied = s.refused(ctx, n.act, n.subject)
		}
		if denied == nil {
			continue
		}
		if err := h.without(w, n, denied); err != nil {
			return err
		}
		if !w.settled.Load() {
			break
		}
	}
	return nil
}

// noBeginning explains a watch that did not begin in time, by why a request of
// the loop failed last, since nobody else saw that, and by what the connection
// has reported since the watch began. The server does not name the subscription
// that was one too many, and each report of that is the same value.
func (s *Store) noBeginning(ctx context.Context, h *hub, w *subscription) error {
	h.loop.Lock()
	cause := h.lastErr
	h.loop.Unlock()
	if errors.Is(cause, jetstream.ErrStreamNotFound) || errors.Is(cause, nats.ErrNoResponders) {
		// The bucket was deleted while the watch began, or has no leader.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), askingTime)
		defer cancel()
		return fmt.Errorf("watching bucket %q: %w", s.names.Bucket, s.diagnose(late, errors.Join(context.Cause(ctx), cause)))
	}
	reported := s.nc.LastError()
	switch {
	case errors.Is(reported, nats.ErrMaxSubscriptionsExceeded):
		reported = fmt.Errorf("%w (max_subscriptions)", reported)
	case reported == w.reported: //nolint:errorlint // an equal error in another value is a new report
		reported = nil
	}
	return fmt.Errorf("%w: watching bucket %q: %w", store.ErrTransient, s.names.Bucket, errors.Join(context.Cause(ctx), cause, reported))
}

// suspect schedules a read of a key, and of the patterns that it matches,
// because a write found it in a state that was not delivered. The revision is
// the one that the stream's leader named, or 0.
func (s *Store) suspect(key string, named uint64) {
	if h := s.present(); h != nil {
		h.suspect(key, named)
	}
}

// ConnState implements [store.ConnReporter].
func (s *Store) ConnState() store.ConnState { return connState(s.nc.Status()) }

// ConnError returns why there is no connection, as far as the reason is known:
// for example, the server has refused the login. Nil while there is one.
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
