package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// A lab is the registers of one test, and the connections to them.
type lab struct {
	st *memstore.Store

	mu      sync.Mutex
	down    bool
	clients []*client
}

// A client is a store whose reads fail while the lab is down, and whose watches
// are a Feed's.
type client struct {
	*feed.Feed
	lab *lab
}

func (c *client) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := c.lab.reach(); err != nil {
		return store.Entry{}, err
	}
	return c.lab.st.Get(ctx, key)
}

func (c *client) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := c.lab.reach(); err != nil {
		return 0, err
	}
	return c.lab.st.CompareAndSwap(ctx, w)
}

func (l *lab) reach() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return fmt.Errorf("%w: the lab is down", store.ErrTransient)
	}
	return nil
}

// polled is a source without news.
type polled struct{ lab *lab }

func (p polled) Read(ctx context.Context, keys []string) (entries []store.Entry, err error) {
	if err := p.lab.reach(); err != nil {
		return nil, err
	}
	for _, key := range keys {
		e, err := p.lab.st.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (p polled) List(ctx context.Context, pattern string) (entries []store.Entry, err error) {
	if err := p.lab.reach(); err != nil {
		return nil, err
	}
	present := make(chan struct{})
	stop, err := p.lab.st.WatchPattern(ctx, pattern, func(e store.Entry) { entries = append(entries, e) }, func(error) { close(present) })
	if err != nil {
		return nil, err
	}
	select {
	case <-present:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", store.ErrTransient, ctx.Err())
	}
	stop()
	return entries, err
}

// followed is a source with news that name the changed keys, or bring what
// became of them.
type followed struct {
	polled
	whole bool
	cut   chan struct{}
}

func (s *followed) Follow(ctx context.Context, news *feed.News) error {
	if err := s.lab.reach(); err != nil {
		return err
	}
	stop, err := s.lab.st.WatchPattern(ctx, ">", func(e store.Entry) {
		if s.whole {
			news.Entry(e)
		} else {
			news.Changed(e.Key)
		}
	}, func(error) {})
	if err != nil {
		return err
	}
	defer stop()
	news.Begun()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.cut:
		return errors.New("cut")
	}
}

func TestConformance(t *testing.T) {
	for name, source := range map[string]func(*lab, chan struct{}) feed.Source{
		"polled": func(l *lab, _ chan struct{}) feed.Source { return polled{l} },
		"hinted": func(l *lab, cut chan struct{}) feed.Source { return &followed{polled: polled{l}, cut: cut} },
		"brought": func(l *lab, cut chan struct{}) feed.Source {
			return &followed{polled: polled{l}, whole: true, cut: cut}
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(testing.TB) storetest.Harness {
				l := &lab{st: memstore.New()}
				var mu sync.Mutex
				var cuts []chan struct{}
				return storetest.Harness{
					Open: func(t testing.TB) store.Store {
						cut := make(chan struct{})
						mu.Lock()
						cuts = append(cuts, cut)
						mu.Unlock()
						c := &client{lab: l, Feed: feed.New(source(l, cut), feed.Options{Every: 5 * time.Millisecond})}
						t.Cleanup(c.Close)
						l.mu.Lock()
						defer l.mu.Unlock()
						l.clients = append(l.clients, c)
						return c
					},
					Delete: func(key string) error { l.st.Delete(key); return nil },
					Put:    func(key string, value []byte) error { l.st.Put(key, value); return nil },
					Purge:  func(key string) error { l.st.Purge(key); return nil },
					Visible: func(key string) (bool, error) {
						e, err := l.st.Get(t.Context(), key)
						return e.Revision != 0 && !e.Tombstone, err
					},
					Interrupt: func() error {
						mu.Lock()
						defer mu.Unlock()
						l.interrupt(cuts)
						return nil
					},
				}
			}, storetest.Caps{})
		})
	}
}

// interrupt refuses all reads, and ends the news, until each client with a
// watch or a listener has noticed.
func (l *lab) interrupt(cuts []chan struct{}) {
	l.mu.Lock()
	l.down = true
	clients := l.clients
	l.mu.Unlock()
	for _, cut := range cuts {
		select {
		case cut <- struct{}{}:
		case <-time.After(10 * time.Millisecond): // it follows nothing
		}
	}
	for _, c := range clients {
		for limit := time.Now().Add(50 * time.Millisecond); c.ConnState() == store.Connected && time.Now().Before(limit); {
			<-time.After(time.Millisecond)
		}
	}
	l.mu.Lock()
	l.down = false
	l.mu.Unlock()
}
