package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
)

// A member is one of the stores, and how it answered so far.
type member struct {
	store.Store
	name    string
	number  int
	timeout time.Duration
	log     *slog.Logger
	epoch   atomic.Uint64 // of what it showed; grows when that is to be read again

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	last     error
	trip     time.Duration // a round trip, averaged
}

// away returns how long a member is not asked after so many failures in a row.
func away(failures int) time.Duration {
	return backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Second, Jitter: 0.2}.After(failures)
}

// Get reads a register, unless the member failed just now.
func (m *member) Get(ctx context.Context, key string) (e store.Entry, err error) {
	err = m.ask(ctx, func(ctx context.Context) error {
		e, err = m.Store.Get(ctx, key)
		return err
	})
	return e, err
}

// CompareAndSwap writes a register, unless the member failed just now.
func (m *member) CompareAndSwap(ctx context.Context, w store.Write) (rev uint64, err error) {
	err = m.ask(ctx, func(ctx context.Context) error {
		rev, err = m.Store.CompareAndSwap(ctx, w)
		return err
	})
	return rev, err
}

// ask makes a request. A member that failed is not asked again for a while, so
// that it delays nobody.
func (m *member) ask(ctx context.Context, request func(context.Context) error) error {
	m.mu.Lock()
	if time.Now().Before(m.until) {
		defer m.mu.Unlock()
		return fmt.Errorf("%w: member %q is not asked for now: %s", store.ErrTransient, m.name, m.last.Error())
	}
	m.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	began := time.Now()
	err := request(bounded)
	if err == nil || ctx.Err() == nil {
		m.answered(err, time.Since(began))
	}
	if err != nil {
		err = fmt.Errorf("member %q: %w", m.name, err)
	}
	return err
}

func (m *member) answered(err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch store.Classify(err) {
	case store.Transient, store.Unknown:
		m.failures++
		m.until = time.Now().Add(away(m.failures))
		m.last = err
		if m.failures == 1 {
			m.log.Warn("member does not answer", "member", m.name, "err", err)
		}
	default:
		if m.failures > 0 {
			m.log.Info("member answers again", "member", m.name, "failures", m.failures)
		}
		m.failures, m.until = 0, time.Time{}
		m.trip += (took - m.trip) / 8
	}
}

// back has the member asked again at once.
func (m *member) back() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = time.Time{}
}

// answers reports whether the member is asked for now, and the connection, if
// any, is not interrupted.
func (m *member) answers() bool {
	m.mu.Lock()
	away := time.Now().Before(m.until)
	m.mu.Unlock()
	c, ok := m.Store.(store.ConnReporter)
	return !away && (!ok || c.ConnState() == store.Connected)
}

func (m *member) roundTrip() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trip
}

// refusal returns the error of a call that a majority of members refused, or
// that too few answered.
func refusal(kind error, key string, causes []error) error {
	invalid := false
	var texts []error
	for _, err := range causes {
		if err != nil {
			invalid = invalid || errors.Is(err, store.ErrInvalid)
			texts = append(texts, errors.New(err.Error())) // without its class
		}
	}
	if invalid && errors.Is(kind, store.ErrPermanent) {
		kind = store.ErrInvalid
	}
	if len(texts) == 0 {
		return fmt.Errorf("%w: key %q", kind, key)
	}
	return fmt.Errorf("%w: key %q: %w", kind, key, errors.Join(texts...))
}
