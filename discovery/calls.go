package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// A caller makes the calls of one keeper to a system, and tells what comes of
// them. One goroutine owns all but what mu guards.
type caller struct {
	system  Announcer
	opts    Options
	news    chan struct{} // who leads has changed
	touched chan struct{} // the system's watch says that something has

	mu     sync.Mutex
	flight flight

	failures int       // in a row
	logged   time.Time // when the latest line of one was written
	repairs  int       // in a row
	calm     time.Time // before which the watch's news wait
	stop     func()    // ends the watch
}

func newCaller(system Announcer, opts Options) caller {
	return caller{system: system, opts: opts.withDefaults(), news: make(chan struct{}, 1), touched: make(chan struct{}, 1)}
}

// A flight is a call on behalf of a term.
type flight struct {
	term   uint64
	cancel context.CancelCauseFunc
}

// Why calls end early.
var (
	// errOver: the term has ended on whose behalf the call was.
	errOver = errors.New("discovery: the term is over")
	// errClosed: the trust window has closed that the call began in. It may
	// have been renewed since.
	errClosed = errors.New("discovery: the system did not answer within the trust window")
	// errStopped: the caller of Keep or Follow wants no more.
	errStopped = errors.New("discovery: the call was given up")
)

// land ends a call on behalf of another term than the one in which somebody
// leads, if somebody does. The caller holds mu.
func (k *caller) land(term uint64, led bool) {
	if f := k.flight; f.cancel != nil && (!led || term != f.term) {
		f.cancel(errOver)
	}
}

// during returns a context that ends with the trust window or the term. stands
// reports whether the term goes on; it is called with mu held.
func (k *caller) during(ctx context.Context, term uint64, until time.Time, stands func() bool) (_ context.Context, done func()) {
	ctx, stop := context.WithDeadlineCause(ctx, until, errClosed)
	ctx, cancel := context.WithCancelCause(ctx)
	k.mu.Lock()
	k.flight = flight{term, cancel}
	if !stands() {
		cancel(errOver)
	}
	k.mu.Unlock()
	return ctx, func() {
		k.mu.Lock()
		k.flight = flight{}
		k.mu.Unlock()
		cancel(nil)
		stop()
	}
}

// poke leaves a signal, unless there is one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await waits for something to do, and reports false at the end. Of what the
// watch tells it hears only when it is calm again.
func (k *caller) await(ctx context.Context, ended <-chan struct{}, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	until := time.Now().Add(delay)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ended:
			return false
		case <-k.news:
			return true
		case <-timer.C:
			return true
		case <-k.touched:
			now := time.Now()
			if !now.Before(k.calm) {
				return true
			}
			if k.calm.Before(until) {
				timer.Reset(k.calm.Sub(now))
			}
		}
	}
}

// between is the time from one look to the next while somebody leads whose
// trust window is of that length.
func (k *caller) between(window time.Duration) time.Duration {
	own := min(max(window/3, minInterval), maxInterval)
	if _, expires := k.system.(Refresher); expires && window > 0 {
		return min(cmp.Or(k.opts.Interval, own), own)
	}
	return cmp.Or(k.opts.Interval, own)
}

// errTimeout ends calls that take too long.
var errTimeout = errors.New("discovery: the system did not answer in time")

// call makes one call to the system. It has a goroutine of its own, which an
// adapter may end.
func (k *caller) call(ctx context.Context, f func(context.Context) error) (err error) {
	if ctx.Err() != nil {
		return ended(ctx, nil) // no adapter is relied on to look first
	}
	ctx, cancel := context.WithTimeoutCause(ctx, k.opts.Timeout, errTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		shield.Call(func() { err = f(ctx) }, func(value any, stack []byte) {
			err = fmt.Errorf("%w: %v", ErrPanicked, shield.Value(value))
			k.panicked("the adapter", value, stack)
		})
	}()
	<-done
	if err != nil && ctx.Err() != nil {
		return ended(ctx, err)
	}
	return err
}

// ended says why a call did not last until its answer came. An adapter's own
// context.Canceled says nothing: its client may have been closed.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, context.Canceled):
		cause = errStopped
	case err != nil && errors.Is(err, cause):
		return err
	}
	if err == nil {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

func (k *caller) look(ctx context.Context, group string) (s Standing, err error) {
	err = k.call(ctx, func(ctx context.Context) (err error) {
		s, err = k.system.Look(ctx, group)
		return err
	})
	return s, err
}

// swift is how often in a row one looks again at once when somebody was faster.
const swift = 2

// cancelled reports whether a call was given up since something else is to be
// done now. over reports whether the term has ended on whose behalf it was.
func cancelled(err error, over func() bool) bool {
	if errors.Is(err, errOver) || errors.Is(err, errClosed) {
		return over()
	}
	return errors.Is(err, errStopped)
}

// failed takes in a failure, and returns when to try again.
func (k *caller) failed(what string, e Entry, err error, policy backoff.Policy) time.Duration {
	k.failures++
	if errors.Is(err, ErrChanged) && k.failures <= swift {
		return 0 // somebody was faster, as the last leader is that withdraws
	}
	delay := policy.After(k.failures)
	k.calm = time.Now().Add(delay)
	if !errors.Is(err, ErrChanged) || k.failures > 2*swift {
		k.tell(Event{Kind: Failed, Entry: e, Err: fmt.Errorf("%s: %w", what, err)})
	}
	return delay
}

// repaired notes that an entry was announced again, and has the watch's news
// wait the longer the more often that was so in a row: others may undo it again
// and again.
func (k *caller) repaired(policy backoff.Policy) {
	k.repairs++
	k.calm = time.Now().Add(policy.After(k.repairs))
}

// watch has the system tell of changes, if it can, until unwatch is called.
func (k *caller) watch(group string) {
	w, ok := k.system.(Watcher)
	if !ok || k.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	k.stop = func() { cancel(); <-done }
	policy := backoff.Policy{Initial: 100 * time.Millisecond, Max: patrol, Jitter: 0.25}
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			begun := time.Now()
			k.watchOnce(ctx, w, group)
			poke(k.touched) // what changes from now on is not told
			if time.Since(begun) > patrol {
				n = 1
			}
			if !backoff.Sleep(ctx, policy.After(n)) {
				return
			}
			poke(k.touched)
		}
	}()
}

// watchOnce runs one watch to its end, in a goroutine that an adapter may end.
func (k *caller) watchOnce(ctx context.Context, w Watcher, group string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		shield.Call(func() {
			if err := w.Watch(ctx, group, func() { poke(k.touched) }); ctx.Err() == nil {
				k.opts.Logger.Warn("the watch of the leader's entry ended, and begins again", "group", group, "error", err)
			}
		}, func(value any, stack []byte) {
			k.panicked("the adapter's watch", value, stack)
		})
	}()
	<-done
}

func (k *caller) panicked(what string, value any, stack []byte) {
	k.opts.Logger.Error("a panic was caught", "in", what, "value", fmt.Sprint(shield.Value(value)), "stack", string(stack))
}

// unwatch ends the watch.
func (k *caller) unwatch() {
	if k.stop != nil {
		k.stop()
		k.stop = nil
	}
}

// tell reports an event.
func (k *caller) tell(ev Event) {
	k.log(ev)
	if k.opts.Report == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		shield.Call(func() { k.opts.Report(ev) }, func(value any, stack []byte) {
			k.panicked("Options.Report", value, stack)
		})
	}()
	<-done
}

// again is how often the log is told of failures that go on.
const again = time.Minute

// log tells the logger of an event. Calls fail once a second while a system is
// down, which may be all night.
func (k *caller) log(ev Event) {
	level := slog.LevelInfo
	switch ev.Kind {
	case Failed:
		now := time.Now()
		if k.failures > 1 && now.Sub(k.logged) < again {
			return
		}
		k.logged, level = now, slog.LevelWarn
	case Superseded, Displaced:
		level = slog.LevelWarn
	default:
	}
	attrs := []slog.Attr{
		slog.String("event", string(ev.Kind)), slog.String("group", ev.Entry.Group), slog.String("instance", ev.Entry.Instance),
		slog.Uint64("term", ev.Entry.Term), slog.String("correlation", ev.Entry.Correlation),
	}
	if ev.Err != nil {
		attrs = append(attrs, slog.Any("error", ev.Err))
	}
	k.opts.Logger.LogAttrs(context.Background(), level, "the leader's entry", attrs...)
}
