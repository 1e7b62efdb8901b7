package quorumstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
)

// A part is a member that is opened by its URL, perhaps later than the quorum.
type part struct {
	name    string
	url     string
	drivers []store.Driver
	ctx     context.Context // until close
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu    sync.Mutex
	inner store.Opened // nil until it is open
	why   error        // it is not
	moved map[*func(store.ConnState)]func()
}

var (
	_ store.Watcher        = (*part)(nil)
	_ store.PatternWatcher = (*part)(nil)
	_ store.Checker        = (*part)(nil)
	_ store.ConnReporter   = (*part)(nil)
)

func newPart(name, url string) *part {
	p := &part{name: name, url: url, moved: make(map[*func(store.ConnState)]func())}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// begin opens the member before ctx is done, and sends the error, or nil. If that
// fails, it goes on to try: also what is refused permanently may be mended while
// the others serve.
func (p *part) begin(ctx context.Context, opened chan<- error) {
	p.work.Go(func() {
		first, cancel := context.WithCancel(ctx)
		defer context.AfterFunc(p.ctx, cancel)()
		defer cancel()
		err := p.open(first)
		opened <- err
		if err == nil || p.ctx.Err() != nil {
			return
		}
		retry := backoff.Policy{Initial: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.25}
		retry.Repeat(p.ctx, func() bool {
			ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
			defer cancel()
			return p.open(ctx) == nil
		})
	})
}

func (p *part) open(ctx context.Context) error {
	inner, err := store.Open(ctx, p.url, p.drivers...)
	if err != nil {
		err = fmt.Errorf("member %q: %w", p.name, err)
	}
	listeners, err := p.take(inner, err)
	for _, f := range listeners {
		f(store.Connected)
	}
	return err
}

// take takes in that the member was opened, or why not. It returns those who
// listen to the connection.
func (p *part) take(inner store.Opened, err error) (listeners []func(store.ConnState), _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = err
	if err != nil {
		return nil, err
	}
	if p.ctx.Err() != nil {
		_ = inner.Close()
		return nil, store.ErrClosed
	}
	p.inner = inner
	for f := range p.moved {
		p.moved[f] = p.listen(*f)
		listeners = append(listeners, *f)
	}
	return listeners, nil
}

// listen passes on the state of the member's connection. p.mu is held.
func (p *part) listen(f func(store.ConnState)) (stop func()) {
	if c, ok := p.inner.(store.ConnReporter); ok {
		return c.OnConnState(f)
	}
	return func() {}
}

// close ends the attempts to open the member, and closes it.
func (p *part) close() error {
	p.cancel()
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inner == nil {
		return nil
	}
	return p.inner.Close()
}

// opened returns the member's store.
func (p *part) opened() (store.Opened, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inner == nil {
		return nil, fmt.Errorf("%w: not open: %s", store.ErrTransient, cause(p.why))
	}
	return p.inner, nil
}

// cause returns the text of err, without its class: what cannot be opened for
// now may be opened later.
func cause(err error) string {
	if err == nil {
		return "not tried yet"
	}
	return err.Error()
}

// Get implements [store.Store].
func (p *part) Get(ctx context.Context, key string) (store.Entry, error) {
	s, err := p.opened()
	if err != nil {
		return store.Entry{}, err
	}
	return s.Get(ctx, key)
}

// CompareAndSwap implements [store.Store].
func (p *part) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	s, err := p.opened()
	if err != nil {
		return 0, err
	}
	return s.CompareAndSwap(ctx, w)
}

// Watch implements [store.Watcher]. It fails if the member is none.
func (p *part) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	s, err := p.opened()
	if err != nil {
		return nil, err
	}
	w, ok := s.(store.Watcher)
	if !ok {
		return nil, fmt.Errorf("%w: the store does not report changes", store.ErrPermanent)
	}
	return w.Watch(ctx, keys, deliver)
}

// WatchPattern implements [store.PatternWatcher]. It fails if the member is
// none.
func (p *part) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	s, err := p.opened()
	if err != nil {
		return nil, err
	}
	w, ok := s.(store.PatternWatcher)
	if !ok {
		return nil, fmt.Errorf("%w: the store does not report patterns", store.ErrPermanent)
	}
	return w.WatchPattern(ctx, pattern, deliver, present)
}

// Check implements [store.Checker].
func (p *part) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	s, err := p.opened()
	if err != nil {
		return store.Report{}, err
	}
	if c, ok := s.(store.Checker); ok {
		return c.Check(ctx, req)
	}
	return store.Report{}, nil
}

// ConnState implements [store.ConnReporter].
func (p *part) ConnState() store.ConnState {
	s, err := p.opened()
	if err != nil {
		return store.Disconnected
	}
	if c, ok := s.(store.ConnReporter); ok {
		return c.ConnState()
	}
	return store.Connected
}

// OnConnState implements [store.ConnReporter].
func (p *part) OnConnState(f func(store.ConnState)) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved[&f] = func() {}
	if p.inner != nil {
		p.moved[&f] = p.listen(f)
	}
	return func() {
		p.mu.Lock()
		stop := p.moved[&f]
		delete(p.moved, &f)
		p.mu.Unlock()
		if stop != nil {
			stop()
		}
	}
}
