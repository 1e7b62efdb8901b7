package memstore

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// maxValue is the size in bytes of the largest value that a Store takes. It is
// the payload limit of a NATS server as installed (max_payload), so that what
// passes here passes there.
const maxValue = 1 << 20

// Options configure a Store. The zero value is what [New] uses.
type Options struct {
	// FirstRevision is the revision of the first write; 0 means 1. Set it to
	// uint64(time.Now().UnixMicro()) where revisions must grow across restarts
	// of the process (as long as the clock does, and with fewer than a million
	// writes a second).
	FirstRevision uint64
	// Logger receives, at level error, a panic in the function of a watch. Nil
	// is silent.
	Logger *slog.Logger
}

// A Store is a set of registers in memory. It implements [store.Watcher],
// [store.PatternWatcher] and [store.Checker]; having no connection that could
// break, it is no [store.ConnReporter]. Its methods may be called concurrently. Make one with
// [New] or [NewWithOptions]; it needs no closing.
type Store struct {
	first uint64
	log   *slog.Logger // nil: silent

	mu      sync.Mutex
	last    uint64                 // the revision given most recently, of any key
	entries map[string]store.Entry // holds no entry with revision 0
	watches map[string]map[*watch]struct{}
	wide    map[*watch]string // watches of patterns
}

var (
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
)

// New returns an empty Store whose revisions start at 1.
func New() *Store { return NewWithOptions(Options{}) }

// NewWithOptions returns an empty Store.
func NewWithOptions(o Options) *Store {
	first := max(o.FirstRevision, 1)
	return &Store{
		first:   first,
		log:     o.Logger,
		last:    first - 1,
		entries: make(map[string]store.Entry),
		watches: make(map[string]map[*watch]struct{}),
		wide:    make(map[*watch]string),
	}
}

// Get returns the register's current state; it is never stale. It fails with
// store.ErrInvalid for a key outside [store.ValidKey], and with
// store.ErrTransient if ctx is done.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := admit(ctx, key); err != nil {
		return store.Entry{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state(key), nil
}

// CompareAndSwap implements [store.Store]. Its outcome is never unknown: if ctx
// is done when it begins, nothing is written and the error is
// store.ErrTransient; after that it does not wait for anything.
func (s *Store) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := admit(ctx, w.Key); err != nil {
		return 0, err
	}
	if len(w.Value) > maxValue {
		return 0, fmt.Errorf("%w: the value has %d bytes, more than %d", store.ErrInvalid, len(w.Value), maxValue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.state(w.Key).Revision; at != w.Expected {
		return 0, fmt.Errorf("%w: key %q has revision %d, not %d", store.ErrConflict, w.Key, at, w.Expected)
	}
	if s.last == math.MaxUint64 {
		return 0, fmt.Errorf("%w: no revisions are left", store.ErrPermanent)
	}
	return s.write(store.Entry{Key: w.Key, Value: bytes.Clone(w.Value), Tombstone: w.Tombstone}), nil
}

// Check finds nothing that makes an election unsafe. It warns if revisions
// start at 1 in each process, and never reports the store as forgetful: it
// cannot lose its state while a candidate lives (see the package
// documentation).
func (s *Store) Check(ctx context.Context, _ store.CheckRequest) (store.Report, error) {
	if err := ctx.Err(); err != nil {
		return store.Report{}, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	var r store.Report
	if s.first == 1 {
		r.Warnings = append(r.Warnings, "The revisions of this in-memory store start at 1 in every process, "+
			"so a fenced resource that outlives the process refuses the next one's terms; "+
			"set memstore.Options.FirstRevision to the current time in microseconds.")
	}
	return r, nil
}

// panicked reports a panic of a function that a delivery called.
func (s *Store) panicked(value any, stack []byte) {
	log := s.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// A panic of the Logger has no receiver any more.
	shield.Call(func() {
		log.Error("panic", "of", "a function that a watch calls", "value", shield.Value(value), "stack", string(stack))
	}, func(any, []byte) {})
}

// admit decides on a call before it touches the registers.
func admit(ctx context.Context, key string) error {
	if !store.ValidKey(key) {
		return fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: nothing was attempted: %w", store.ErrTransient, err)
	}
	return nil
}

// state returns what is known of key. s.mu is held.
func (s *Store) state(key string) store.Entry {
	if e, ok := s.entries[key]; ok {
		return e
	}
	return store.Entry{Key: key}
}

// write stores e under the next revision and notifies the watches. s.mu is
// held.
func (s *Store) write(e store.Entry) uint64 {
	s.last++
	e.Revision = s.last
	s.entries[e.Key] = e
	s.tell(e)
	return e.Revision
}

// tell hands a register's new state to its watches. s.mu is held, which keeps
// deliveries in the order of the writes.
func (s *Store) tell(e store.Entry) {
	for w := range s.watches[e.Key] {
		w.Push(e)
	}
	for w, pattern := range s.wide {
		if store.MatchPattern(pattern, e.Key) {
			w.Push(e)
		}
	}
}
