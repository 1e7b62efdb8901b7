package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// A SignalError is the cause (see context.Cause) of a context that a signal
// ended.
type SignalError struct{ syscall.Signal }

// Error returns the signal as text.
func (s SignalError) Error() string { return "signal: " + s.String() }

// Is reports that it is context.Canceled, too: who gives a cause in place of a
// context's error gives both.
func (s SignalError) Is(target error) bool { return target == context.Canceled }

// UntilSignal returns a context that the first of the signals ends. As with
// signal.NotifyContext, the signals keep away from the program until stop is
// called, which ends the context, too. signal.NotifyContext has the signal in
// the text of its error alone.
//
// A signal that was ignored when the process began stays ignored, and for what
// the process starts, too: nohup, and & in a script, are there for it to live
// on. Of the ignored signals Go keeps SIGHUP and SIGINT alone.
func UntilSignal(ctx context.Context, signals ...syscall.Signal) (_ context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 1)
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	go func() {
		select {
		case s := <-got:
			if sig, ok := s.(syscall.Signal); ok { // as all are
				end(SignalError{sig})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		end(context.Canceled)
		signal.Stop(got)
	}
}
