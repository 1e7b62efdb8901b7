package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// errTimeout ends calls that take too long.
var errTimeout = errors.New("discovery: the system did not answer in time")

// call makes one call to the system. It has a goroutine of its own, which an
// adapter may end.
func (k *keeper) call(ctx context.Context, f func(context.Context) error) (err error) {
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
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
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

// failed takes in a failure, and returns when to try again.
func (k *keeper) failed(what string, e Entry, err error) time.Duration {
	over := errors.Is(err, errOver)
	if over && k.election.Term().Number != e.Term || !over && !errors.Is(err, errTimeout) && errors.Is(err, context.Canceled) {
		return 0 // something else is to be done now
	}
	k.failures++
	if errors.Is(err, ErrChanged) && k.failures <= swift {
		return 0 // somebody was faster, as the last leader is that withdraws
	}
	rest := k.policy().After(k.failures)
	k.calm = time.Now().Add(rest)
	if !errors.Is(err, ErrChanged) || k.failures > 2*swift {
		k.tell(Event{Kind: Failed, Entry: e, Err: fmt.Errorf("%s: %w", what, err)})
	}
	return rest
}

// watch has the system tell of changes, if it can, until unwatch is called.
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
	level := slog.LevelInfo
	switch ev.Kind {
	case Failed, Superseded, Displaced:
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
