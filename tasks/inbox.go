package tasks

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/shield"
)

// An inbox is what waits for the goroutine that owns a state: it may be added
// to by anybody, without waiting.
type inbox[E any] struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []E
}

func newInbox[E any]() *inbox[E] { return &inbox[E]{wake: make(chan struct{}, 1)} }

func (b *inbox[E]) put(e E) {
	b.mu.Lock()
	b.waiting = append(b.waiting, e)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // the owner has not yet seen the last signal
	}
}

// take returns all that waits. The slice that it returned before, if given
// back, is used again.
func (b *inbox[E]) take(spare []E) []E {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.waiting
	clear(spare)
	b.waiting = spare[:0]
	return all
}

// guarded calls f, and returns a panic as an error that matches ErrPanicked.
func guarded(logger *slog.Logger, what string, f func() error) (err error) {
	shield.Call(func() { err = f() }, func(value any, stack []byte) {
		logger.Error("panicked", "what", what, "value", fmt.Sprint(shield.Value(value)), "stack", string(stack))
		err = fmt.Errorf("%w: %s: %v", ErrPanicked, what, shield.Value(value))
	})
	return err
}

func orSilent(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// A warner logs warnings that other programs can cause, and bounds their number.
type warner struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time
	said    int // since then
	omitted int // since the last line
}

// warnings is how many lines a warner logs in a second at most.
const warnings = 100

func (w *warner) warn(msg string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.since) >= time.Second {
		w.since, w.said = now, 0
	}
	if w.said == warnings {
		w.omitted++
		return
	}
	if w.omitted > 0 {
		args = append(args, "omitted_before", w.omitted)
	}
	w.said, w.omitted = w.said+1, 0
	w.log.Warn(msg, args...) //nolint:sloglint // the callers' messages are constants
}

// cut returns what is logged of a name that may have any length.
func cut(name string) string { return name[:min(len(name), MaxName+1)] }
