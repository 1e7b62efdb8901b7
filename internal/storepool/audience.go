package storepool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// An audience is the loggers that receive one store's lines.
type audience struct {
	mu      sync.Mutex
	members map[*slog.Logger]int
}

func newAudience() *audience { return &audience{members: make(map[*slog.Logger]int)} }

// join adds a logger, nil standing for the default one, until leave is called.
func (a *audience) join(l *slog.Logger) (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members[l]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.members[l]--
		if a.members[l] == 0 {
			delete(a.members, l)
		}
	}
}

// loggers returns each logger once.
func (a *audience) loggers() (all []*slog.Logger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for l := range a.members {
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		all = append(all, l)
	}
	return all
}

func (a *audience) handler() slog.Handler {
	return relay{a, func(h slog.Handler) slog.Handler { return h }}
}

// A relay is a slog.Handler that hands records to an audience.
type relay struct {
	to   *audience
	wrap func(slog.Handler) slog.Handler // adds what With added
}

func (relay) Enabled(context.Context, slog.Level) bool { return true }

func (r relay) Handle(ctx context.Context, record slog.Record) error {
	var errs []error
	for _, l := range r.to.loggers() {
		if h := r.wrap(l.Handler()); h.Enabled(ctx, record.Level) {
			errs = append(errs, h.Handle(ctx, record.Clone()))
		}
	}
	return errors.Join(errs...)
}

func (r relay) WithAttrs(attrs []slog.Attr) slog.Handler {
	return relay{r.to, func(h slog.Handler) slog.Handler { return r.wrap(h).WithAttrs(attrs) }}
}

func (r relay) WithGroup(name string) slog.Handler {
	return relay{r.to, func(h slog.Handler) slog.Handler { return r.wrap(h).WithGroup(name) }}
}
