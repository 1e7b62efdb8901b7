package quorumstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
	"github.com/seed-ff2cb582/leader/store/quorumstore/internal/ballot"
)

// A Member is one of the stores that keep each register together.
type Member struct {
	// Name identifies the member among the others, permanently.
	Name string
	// Store is polled where it is no store.Watcher.
	Store store.Store
}

// Options configure a Store. The zero value is ready.
type Options struct {
	// Timeout bounds one request to a member. The default is 2 s.
	Timeout time.Duration
	// Logger receives failures of members, with their names. Nil is silent.
	Logger *slog.Logger
}

// A Store keeps each register in all of its members. Its methods may be called
// concurrently. Close it when it is no longer used.
type Store struct {
	group   *ballot.Group
	members []*member
	opts    Options

	ctx    context.Context // until Close
	cancel context.CancelFunc
	start  sync.Once
	ttl    atomic.Int64 // the shortest lease that Check was asked about
	beat   atomic.Int64 // the shortest heartbeat
	feed   *feed.Feed   // serves the watches
	news   atomic.Pointer[feed.News]

	mu     sync.Mutex
	closed bool
	stops  []func()
	keys   map[string]*register
	work   sync.WaitGroup // requests to members, and watches
}

var (
	_ store.Checker        = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
)

// New returns a store that keeps each register in all members and answers when
// more than half of them do. It opens nothing and sends nothing. The members'
// stores remain the caller's to close.
func New(members []Member, opts Options) (*Store, error) {
	n := len(members)
	if n < 3 || n > ballot.MaxMembers || n%2 == 0 {
		return nil, fmt.Errorf("%w: members: %d: must be 3 or %d, since more than half of them decide", store.ErrInvalid, n, ballot.MaxMembers)
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 2 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{opts: opts, keys: make(map[string]*register)}
	var names []string
	for i, m := range members {
		switch {
		case m.Name == "":
			return nil, fmt.Errorf("%w: member %d has no name", store.ErrInvalid, i)
		case m.Store == nil:
			return nil, fmt.Errorf("%w: member %q has no store", store.ErrInvalid, m.Name)
		case slices.Contains(names, m.Name):
			return nil, fmt.Errorf("%w: two members have the name %q", store.ErrInvalid, m.Name)
		}
		names = append(names, m.Name)
		s.members = append(s.members, &member{name: m.Name, number: i, Store: m.Store, timeout: opts.Timeout, log: opts.Logger})
	}
	s.group = ballot.NewGroup(setOf(names), n)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.feed = feed.New(source{s}, feed.Options{Timeout: 2 * opts.Timeout, Logger: opts.Logger})
	return s, nil
}

// setOf returns the number that identifies the group with these members. Their
// order does not matter.
func setOf(names []string) uint64 {
	h := sha256.New()
	for _, name := range slices.Sorted(slices.Values(names)) {
		fmt.Fprintf(h, "%d:%s", len(name), name)
	}
	return max(binary.BigEndian.Uint64(h.Sum(nil)), 1)
}

func (s *Store) quorum() int { return len(s.members)/2 + 1 }

// Close ends all watches and all requests to members. Later calls fail with
// store.ErrClosed. The members' stores stay open.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	stops := s.stops
	s.stops = nil
	s.mu.Unlock()
	s.cancel()
	s.feed.Close()
	for _, stop := range stops {
		stop()
	}
	s.work.Wait()
	return nil
}

// do runs f on a goroutine that Close waits for. After Close it does not run f
// and returns false.
func (s *Store) do(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// admit decides on a call before any member is asked.
func (s *Store) admit(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if !store.ValidKey(key) {
			return fmt.Errorf("%w: key %q", store.ErrInvalid, key)
		}
	}
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: nothing was attempted: %w", store.ErrTransient, context.Cause(ctx))
	}
	return nil
}

// register returns what is known of key.
func (s *Store) register(key string) *register {
	s.start.Do(s.follow)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.keys[key]
	if r == nil {
		r = newRegister(s, key)
		s.keys[key] = r
	}
	return r
}

// known returns the registers whose keys match the pattern.
func (s *Store) known(pattern string) (all []*register) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.keys {
		if store.MatchPattern(pattern, key) {
			all = append(all, r)
		}
	}
	return all
}

// follow listens to the connections of the members.
func (s *Store) follow() {
	for _, m := range s.members {
		c, ok := m.Store.(store.ConnReporter)
		if !ok {
			continue
		}
		stop := c.OnConnState(func(now store.ConnState) {
			if now == store.Connected {
				m.back()
				m.epoch.Add(1) // it may have been made again
			}
		})
		s.mu.Lock()
		s.stops = append(s.stops, stop)
		s.mu.Unlock()
	}
}

// CompareAndSwap implements [store.Store]. It waits for more than half of the
// members, or for all of them where the key has no value yet.
func (s *Store) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := s.admit(ctx, w.Key); err != nil {
		return 0, err
	}
	return s.register(w.Key).compareAndSwap(ctx, w)
}

// impossible is a revision that no register has. A call that expects it ends
// with Conflict after it has given a key or a member its memory.
const impossible = 1 << 53

// settle chooses the present state of key again, in each member that answers.
func (s *Store) settle(ctx context.Context, key string) error {
	_, err := s.CompareAndSwap(ctx, store.Write{Key: key, Expected: impossible})
	if store.Classify(err) == store.Conflict {
		return nil
	}
	return err
}
