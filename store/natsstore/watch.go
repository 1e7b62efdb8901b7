package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// A watch is one call of Watch. The hub's goroutine delivers to it.
type watch struct {
	deliver func(store.Entry)
	unhook  func() bool     // ends the watch's hold on its context
	keys    []string        // without repetitions
	view    *view           // of a pattern; there are no keys then
	pending map[string]bool // keys (or "" for a pattern) whose present state is still to be delivered
	ready   chan struct{}   // closed when the first state of every key was delivered
	begun   bool            // ready is closed
	stopped bool
}

// Watch implements [store.Watcher]. It returns when the present state of each
// key was delivered, or with an error when that took longer than
// [Options.Timeout].
func (s *Store) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	for _, key := range keys {
		if !store.ValidKey(key) {
			return nil, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
		}
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return s.begin(ctx, &watch{deliver: deliver, keys: slices.Compact(keys), pending: make(map[string]bool, len(keys))})
}

// WatchPattern implements [store.PatternWatcher]. It returns when the present
// state was delivered, or with an error when that took longer than
// [Options.Timeout]. Where the bucket republishes and the user may not read the
// present state, it returns too, and present was told so.
func (s *Store) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	if !store.ValidPattern(pattern) {
		return nil, fmt.Errorf("%w: pattern %q", store.ErrInvalid, pattern)
	}
	w := &watch{deliver: deliver, pending: map[string]bool{pattern: true}}
	w.view = newView(w, pattern, present)
	return s.begin(ctx, w)
}

// begin begins a watch, and waits for its first states.
func (s *Store) begin(ctx context.Context, w *watch) (stop func(), err error) {
	if err := s.sendable(ctx); err != nil {
		return nil, err
	}
	beginning, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	before := s.sighting()
	plan, err := s.plan(beginning)
	if err != nil {
		return nil, err
	}
	w.ready = make(chan struct{})
	h, err := s.startWatch(ctx, plan, w)
	if err != nil {
		return nil, err
	}
	if err := s.awaitBeginning(beginning, before, h, w); err != nil {
		h.stop(w)
		return nil, err
	}
	return func() { h.stop(w) }, nil
}

func (s *Store) startWatch(ctx context.Context, plan plan, w *watch) (*hub, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.hubLocked()
	if err != nil {
		return nil, err
	}
	if err := h.add(w, plan); err != nil {
		h.remove(w)
		return nil, err
	}
	w.unhook = context.AfterFunc(ctx, s.shielded("the end of a watch", func() { h.stop(w) }))
	return h, nil
}

// awaitBeginning waits until the watch has its first states. A missing
// permission shows itself only as an error of the connection, which is looked
// for meanwhile instead of at the end of the wait alone.
func (s *Store) awaitBeginning(ctx context.Context, before sighting, h *hub, w *watch) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if err := s.release(ctx, before, h, w); err != nil {
			return err
		}
		select {
		case <-w.ready:
			// A denied subscription does not keep a key from being read, nor a
			// denied read a consumer from bringing the record. The server
			// reports a violation before it answers what was sent later: so all
			// are known after one more round trip. Should that fail, the watch
			// goes on as after any interruption.
			_ = s.nc.FlushWithContext(ctx)
			return s.deniedWatch(before, h, w)
		case <-h.quit:
			return fmt.Errorf("%w: watching bucket %q: the store or the watch was closed", store.ErrPermanent, s.bucket)
		case <-ctx.Done():
			if err := s.deniedWatch(before, h, w); err != nil {
				return err
			}
			return s.noBeginning(ctx, h)
		case <-look.C:
			if err := s.deniedWatch(before, h, w); err != nil {
				return err
			}
		}
	}
}

// release lets a view read once its feed is known not to be denied: of several
// denials at once, the connection shows the last. A flush that fails is
// repeated with the next look.
func (s *Store) release(ctx context.Context, before sighting, h *hub, w *watch) error {
	for s.held(w) && s.nc.FlushWithContext(ctx) == nil {
		if err := s.deniedWatch(before, h, w); err != nil {
			return err
		}
		s.mu.Lock()
		// If a denial has just moved the feed, it is to be known of the new
		// one, too.
		w.view.held, w.view.moved = w.view.moved, false
		h.nudge()
		s.mu.Unlock()
	}
	return nil
}

func (s *Store) held(w *watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.view != nil && w.view.held
}

// noBeginning explains a watch that did not begin in time.
func (s *Store) noBeginning(ctx context.Context, h *hub) error {
	s.mu.Lock()
	cause := h.lastErr
	s.mu.Unlock()
	class := store.ErrTransient
	if errors.Is(cause, jetstream.ErrStreamNotFound) {
		class = store.ErrPermanent
	}
	return fmt.Errorf("%w: watching bucket %q: %w", class, s.bucket, errors.Join(context.Cause(ctx), cause))
}

// deniedWatch reports a permission whose lack keeps the watch from hearing of
// writes, or from its beginning where that cannot be done without.
func (s *Store) deniedWatch(before sighting, h *hub, w *watch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.stopped {
		return fmt.Errorf("%w: watching bucket %q: stopped", store.ErrTransient, s.bucket)
	}
	reported := s.reportedSince(before)
	if h.refusedShared(reported) || h.assumed(reported, w) {
		return nil
	}
	if w.view != nil {
		return h.deniedView(reported, w.view)
	}
	subjects := []string{s.inboxPrefix()}
	if h.plan.republished == "" {
		subjects = append(subjects, s.consumerSubject())
	}
	for _, key := range w.keys {
		if f := h.feedOf(key); f != nil && f.sub != nil {
			subjects = append(subjects, f.sub.Subject)
		}
	}
	if denied := violation(reported, subjects...); denied != nil {
		return h.unwatchable(denied)
	}
	for _, key := range w.keys {
		denied := violation(reported, s.directSubject(key))
		switch {
		case denied == nil:
		case h.plan.republished == "":
			return fmt.Errorf("%w: watching bucket %q: the user may not publish to %s: %w", store.ErrPermanent, s.bucket, s.directSubject(key), denied)
		default:
			// Who may not read learns the state with the next write.
			h.renounce(key)
		}
	}
	return nil
}

// assumed reports whether a denial, if that is what was reported, shows that
// the bucket, of whose configuration nothing is known, cannot be watched by
// consumers, and has the hub assume that it republishes as ours do: who may
// neither ask nor read may still listen.
func (h *hub) assumed(reported error, w *watch) bool {
	if !h.plan.unknown || h.plan.republished != "" {
		return false
	}
	subjects := []string{h.s.consumerSubject(), h.s.inboxPrefix()}
	for _, key := range w.keys {
		subjects = append(subjects, h.s.directSubject(key))
	}
	if h.denied = violation(reported, subjects...); h.denied == nil {
		return false
	}
	h.plan.republished = defaultRepublish(h.s.bucket)
	h.move()
	if w.view != nil {
		w.view.held, w.view.moved = true, true
	}
	h.nudge()
	return true
}

// unwatchable explains that the bucket cannot be watched.
func (h *hub) unwatchable(denied error) error {
	err := fmt.Errorf("%w: watching bucket %q: the user lacks a permission: %w", store.ErrPermanent, h.s.bucket, denied)
	if h.plan.unknown && h.denied != nil {
		err = fmt.Errorf("%w; before: %w", err, h.denied)
	}
	return err
}

// consumerSubject is the beginning of the subjects by which consumers are made.
func (s *Store) consumerSubject() string { return s.api + "CONSUMER.CREATE." + s.stream + "." }

// A plan is how the hub watches the bucket, from the bucket's configuration.
type plan struct {
	republished string    // prefix of the subjects of republished records; empty: consumers
	created     time.Time // when the stream was made; zero if unknown
	unknown     bool      // the user may not read the bucket's configuration
}

// plan learns how to watch the bucket, unless the hub knows already.
func (s *Store) plan(ctx context.Context) (plan, error) {
	if s.opts.Republished != "" {
		return plan{republished: s.opts.Republished}, nil
	}
	s.mu.Lock()
	if h := s.hub; h != nil && h.planned {
		defer s.mu.Unlock()
		return h.plan, nil
	}
	s.mu.Unlock()
	before := s.sighting()
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
	case ctx.Err() == nil && s.deniedSince(before, s.infoSubject(), s.inboxPrefix()) != nil:
		return plan{unknown: true}, nil
	}
	return plan{}, s.checkError(ctx, before, err)
}

func (s *Store) planFor(info *jetstream.StreamInfo) plan {
	s.noDirect.Store(!info.Config.AllowDirect)
	p := plan{republished: s.opts.Republished, created: info.Created}
	if p.republished == "" {
		p.republished = republishedPrefix(info.Config.RePublish, s.stored)
	}
	return p
}

// suspect has the hub read a key, and the patterns that it matches, again
// because a write found it in a state that nobody told of.
func (s *Store) suspect(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == nil {
		return
	}
	watched := false
	if r := s.hub.registers[key]; r != nil {
		s.hub.toRead(r)
		watched = true
	}
	for v := range s.hub.views {
		if store.MatchPattern(v.pattern, key) {
			v.wanted, watched = true, true
		}
	}
	if watched {
		s.hub.auditAt = time.Time{}
		s.hub.nudge()
	}
}

// hubLocked returns the store's hub, starting it if there is none.
func (s *Store) hubLocked() (*hub, error) {
	if s.closed {
		return nil, fmt.Errorf("%w: the store was closed", store.ErrPermanent)
	}
	if s.hub == nil {
		s.hub = newHub(s)
		go s.hub.run()
	}
	return s.hub, nil
}

// ConnState implements [store.ConnReporter].
func (s *Store) ConnState() store.ConnState { return connState(s.nc.Status()) }

func connState(st nats.Status) store.ConnState {
	switch st {
	case nats.CONNECTED, nats.DRAINING_SUBS, nats.DRAINING_PUBS:
		return store.Connected
	case nats.CLOSED:
		return store.Closed
	default:
		return store.Disconnected
	}
}

// A listener is one registration of OnConnState.
type listener struct {
	f       func(store.ConnState)
	stopped bool
}

// OnConnState implements [store.ConnReporter]. It leaves the connection's
// handlers alone. After Close it does nothing.
func (s *Store) OnConnState(f func(store.ConnState)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.hubLocked()
	if err != nil {
		return func() {}
	}
	l := &listener{f: f}
	h.listeners = append(h.listeners, l)
	return func() { h.stopListening(l) }
}
