package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

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
func (k *keeper) land() {
	if f := k.flight; f.cancel != nil && (k.leader.Instance == "" || k.leader.Term != f.term) {
		f.cancel(errOver)
	}
}

// during returns a context that ends with the trust window or the term.
func (k *keeper) during(ctx context.Context, term uint64, until time.Time) (_ context.Context, done func()) {
	ctx, stop := context.WithDeadlineCause(ctx, until, errClosed)
	ctx, cancel := context.WithCancelCause(ctx)
	k.mu.Lock()
	k.flight = flight{term, cancel}
	k.land()
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

// await waits for something to do, and reports false at the end. It learns of
// changes that the watch reports only when the watch is calm again.
func (k *keeper) await(ctx context.Context, ended <-chan struct{}, delay time.Duration) bool {
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
func (k *keeper) between(window time.Duration) time.Duration {
	own := min(max(window/3, minInterval), maxInterval)
	if _, expires := k.system.(Refresher); expires && window > 0 {
		return min(cmp.Or(k.opts.Interval, own), own)
	}
	return cmp.Or(k.opts.Interval, own)
}

// errTimeout ends calls that take too long.
var errTimeout = errors.New("discovery: the system did not answer in time")

// call makes one call to the system. It runs the call on a separate goroutine,
// which an adapter may end.
func (k *keeper) call(ctx context.Context, f func(context.Context) error) (err error) {
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

// ended returns why a call did not last until its answer came. An adapter's own
// context.Canceled is no evidence that ctx ended: its client may have been
// closed.
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

func (k *keeper) look(ctx context.Context, group string) (s Standing, err error) {
	err = k.call(ctx, func(ctx context.Context) (err error) {
		s, err = k.system.Look(ctx, group)
		return err
	})
	return s, err
}

// swift is how often in a row one looks again at once when somebody was faster.
const swift = 2

// failed notes a failure, and returns when to try again: at once if the call
// was given up since something else is to be done now.
func (k *keeper) failed(what string, e Entry, err error) time.Duration {
	switch {
	case errors.Is(err, errOver), errors.Is(err, errClosed):
		if v := k.view(); !v.leads || v.Term != e.Term {
			return 0
		}
	case errors.Is(err, errStopped):
		return 0
	}
	k.failures++
	if errors.Is(err, ErrChanged) && k.failures <= swift {
		return 0 // somebody was faster, as the last leader is that withdraws
	}
	delay := k.policy().After(k.failures)
	k.calm = time.Now().Add(delay)
	if !errors.Is(err, ErrChanged) || k.failures > 2*swift {
		k.tell(Event{Kind: Failed, Entry: e, Err: fmt.Errorf("%s: %w", what, err)})
	}
	return delay
}

// repaired notes that an entry was announced again, and has the watch's news
// wait the longer the more often that was so in a row: others may undo it again
// and again.
func (k *keeper) repaired() {
	k.repairs++
	k.calm = time.Now().Add(k.policy().After(k.repairs))
}

// watch makes the system report changes, if it can, until unwatch is called.
func (k *keeper) watch(group string) {
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
			poke(k.touched) // the watch ended, so later changes are not reported
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
func (k *keeper) watchOnce(ctx context.Context, w Watcher, group string) {
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

func (k *keeper) panicked(what string, value any, stack []byte) {
	k.opts.Logger.Error("a panic was caught", "in", what, "value", fmt.Sprint(shield.Value(value)), "stack", string(stack))
}

// unwatch ends the watch.
func (k *keeper) unwatch() {
	if k.stop != nil {
		k.stop()
		k.stop = nil
	}
}

// tell reports an event.
func (k *keeper) tell(ev Event) {
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

// again is the interval between log lines about failures that go on.
const again = time.Minute

// log writes an event to the logger. Calls fail once a second while a system is
// down, which may be all night.
func (k *keeper) log(ev Event) {
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
