//go:build unix

package app

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestASignalIsTheCauseOfAnEnd(t *testing.T) {
	ctx, stop := UntilSignal(t.Context(), syscall.SIGUSR1, syscall.SIGUSR2)
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the signal ends nothing")
	}
	// A context that is made of it has the same cause.
	below, cancel := context.WithCancel(ctx)
	defer cancel()
	cause := context.Cause(below)
	if s, ok := errors.AsType[SignalError](cause); !ok || s.Signal != syscall.SIGUSR2 || !errors.Is(cause, context.Canceled) {
		t.Errorf("the cause is %v", cause)
	}
}

func TestCauseIsNilWithoutASignal(t *testing.T) {
	ctx, stop := UntilSignal(t.Context(), syscall.SIGUSR1)
	if ctx.Err() != nil {
		t.Error("it has ended already")
	}
	stop()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		t.Errorf("the cause is %v", cause)
	}
}
