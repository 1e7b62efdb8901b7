package natsstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/writes"
)

// A Store is a [store.Store] over one key-value bucket. It is also a
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter] and
// [store.Checker]. Its methods may be called concurrently.
type Store struct {
	*client

	mu     sync.Mutex // guards all that follows; taken before the lock of a hub
	closed bool
	hub    *hub // nil while nobody watches or listens
}

var (
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
	_ store.AsyncWriter    = (*Store)(nil)
)

// New returns a store over the bucket. It sends nothing; use [Store.Check] to
// learn whether the bucket is there and suits. The connection stays the
// caller's: the store neither closes it nor changes its handlers.
func New(nc *nats.Conn, bucket string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	if err := validate(nc, bucket, opts); err != nil {
		return nil, err
	}
	c, err := newClient(nc, bucket, opts)
	if err != nil {
		return nil, err
	}
	return &Store{client: c}, nil
}

// Bucket returns the bucket's name.
func (s *Store) Bucket() string { return s.names.Bucket }

// Close ends all watches and registrations and waits until the store's
// goroutine is gone, unless it is called by one of their functions. Get and
// CompareAndSwap still work afterwards, Watch does not. Close may be called more
// than once.
func (s *Store) Close() {
	s.mu.Lock()
	// First, so that nobody starts another hub from now on.
	s.closed = true
	h := s.hub
	s.mu.Unlock()
	if h == nil {
		return
	}
	h.loop.Lock()
	h.shutdown()
	own := h.loop.Inside()
	h.loop.Unlock()
	if !own {
		<-h.loop.Done()
		h.writes.Wait()
	}
	s.drop(h)
}

// Get implements [store.Store] by a direct get, which any replica answers; see
// Reads in the package documentation for which answers count. From
// a bucket that refuses direct gets it reads by STREAM.MSG.GET, for which the
// user then needs permission (it covers all keys).
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	return s.get(ctx, key, s.read)
}

// StoredAt returns when the server stored the present entry of a key, by the
// server's clock, and the entry's revision. The zero time means that the time is
// unknown: the key has no entry, or the bucket refuses direct gets. It needs the
// right of Get, believes the same answers, and returns the same errors.
func (s *Store) StoredAt(ctx context.Context, key string) (at time.Time, revision uint64, err error) {
	r := readRequest{subject: s.names.Direct(key), decode: func(key string, answer *nats.Msg) (store.Entry, error) {
		at, _ = time.Parse(time.RFC3339Nano, wire.Appended(answer.Header, jetstream.TimeStampHeaer)) // zero in an answer without an entry
		return s.names.DirectAnswer(key, answer)
	}}
	e, err := s.get(ctx, key, func(ctx context.Context, key string) (store.Entry, error) { return s.readBy(ctx, r, key) })
	switch {
	case err == nil:
		return at.UTC(), e.Revision, nil
	case store.Classify(err) == store.Transient && s.noDirect.Load(): // which the failure may have shown
		return time.Time{}, 0, nil
	}
	return time.Time{}, 0, err
}

// CostlyWatch reports whether the server keeps a consumer for each watched key,
// which sends heartbeats while nothing changes, as far as Check or a watch found
// out. An election asks its store, and then reads seldom what need not be known
// at once.
func (s *Store) CostlyWatch() bool { return s.consumes.Load() }

// withHub calls f with the lock of the store's hub, which it starts if there is
// none. It returns that hub, and the error of f. A hub ends by itself when it
// is idle, from whatever goroutine ends its last watch. So whether it has is
// asked with its lock, which f then runs with.
func (s *Store) withHub(f func(h *hub) error) (*hub, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%w: the store was closed", store.ErrPermanent)
	}
	if h := s.hub; h != nil {
		h.loop.Lock()
		if !h.loop.Ended() {
			defer h.loop.Unlock()
			return h, f(h)
		}
		h.loop.Unlock()
	}
	h := newHub(s.client)
	h.writes = writes.New(author{s}, s.nc, s.names, s.attendant)
	s.hub = h
	h.loop.Lock()
	defer h.loop.Unlock()
	h.loop.Start()
	return h, f(h)
}

// present returns the store's hub, or nil if there is none. It may have ended.
func (s *Store) present() *hub {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hub
}

// drop forgets a hub that has ended. Another may have taken its place by now.
func (s *Store) drop(h *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.loop.Lock()
	defer h.loop.Unlock()
	if s.hub == h && h.loop.Ended() {
		s.hub = nil
	}
}
