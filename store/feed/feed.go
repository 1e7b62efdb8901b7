package feed

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/delivery"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// A Source reads the registers. Its methods may be called at the same time as
// all others of the store, and return when ctx is done. Their errors are
// classified like the errors of [store.Store.Get].
type Source interface {
	// Read returns the states of the keys, in any order. A key that is not
	// among them, without an error, does not exist in the store. With an error
	// it may return the states of those keys that could be read. Without keys
	// it finds out whether the store answers.
	Read(ctx context.Context, keys []string) ([]store.Entry, error)

	// List returns the states of all keys that match the pattern
	// ([store.MatchPattern]) and exist in the store, in any order. Keys that
	// match no pattern of the call may be among them.
	List(ctx context.Context, pattern string) ([]store.Entry, error)
}

// A Follower is a Source whose system reports changes by itself.
type Follower interface {
	Source

	// Follow delivers news of the keys and patterns in [News.Wanted] until ctx
	// is done or the news break off, and returns why: store.ErrPermanent if the
	// user may not have them, which does not count as a lost connection. It
	// calls [News.Begun] as soon as it misses no new change. The Feed calls it
	// again after a while, one call at a time.
	Follow(ctx context.Context, news *News) error
}

// Options configure a Feed. The zero value is ready.
type Options struct {
	// Every is the time from one read to the next unless a call of [Feed.Pace]
	// set a shorter one. Default: 1 s.
	Every time.Duration
	// Timeout bounds one read. Default: 5 s.
	Timeout time.Duration
	// Logger receives panics in the functions of watches, at level error, and
	// interruptions of the news, at level warning. Nil is silent.
	Logger *slog.Logger
}

// A Feed serves the watches of a store. Make one with [New]; its methods may be
// called concurrently. It has goroutines while somebody watches, or listens to
// the connection's state, and none else.
type Feed struct {
	src    Source
	opts   Options
	notify sync.Mutex // held while listeners are notified of the connection

	mu        sync.Mutex
	closed    bool
	watches   map[*watch]struct{}
	wide      map[*watch]struct{}            // the watches of patterns
	exact     map[string]map[*watch]struct{} // the watches of each key, without the watches of patterns
	known     map[string]state               // of keys that are watched, and of those that match a pattern
	clock     uint64                         // counts changes of known
	dirty     map[string]struct{}            // keys that changed, according to the news
	paces     map[string]time.Duration       // the shortest heartbeat that was set for a key; "" is for no key
	renamed   chan struct{}                  // closed when other names are watched
	following bool
	denied    bool // there are no news to be had, until they begin
	behind    bool // all is to be read, for what the news may have missed
	link      link
	current   *run // nil while nobody watches or listens
	last      *run // the latest
}

// A state is what is known of a register.
type state struct {
	entry store.Entry
	at    uint64 // Feed.clock when it became known
}

var (
	_ store.Watcher        = watcher{}
	_ store.PatternWatcher = watcher{}
	_ store.ConnReporter   = (*Feed)(nil)
)

// watcher is what a store has that embeds a Feed.
type watcher struct {
	store.Store
	*Feed
}

// New returns a Feed on the source.
func New(src Source, opts Options) *Feed {
	if opts.Every <= 0 {
		opts.Every = time.Second
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 5 * time.Second
	}
	return &Feed{
		src: src, opts: opts,
		watches: make(map[*watch]struct{}),
		wide:    make(map[*watch]struct{}),
		exact:   make(map[string]map[*watch]struct{}),
		known:   make(map[string]state),
		dirty:   make(map[string]struct{}),
		paces:   make(map[string]time.Duration),
		renamed: make(chan struct{}),
	}
}

// Pace has the Feed read at least twice in a heartbeat, which is the time from
// one renewal of a record to the next ([store.CheckRequest.HeartbeatInterval]),
// while one of the keys is watched by its name. Without a key, or for the empty
// key of a request that names none, the pace holds permanently. Of several
// heartbeats the shortest holds, and a heartbeat of 0 changes nothing. A
// store's Check passes on the heartbeat of its request, so that an election has
// its pace from then on, and leaves none to others when its watch ends.
func (f *Feed) Pace(heartbeat time.Duration, keys ...string) {
	if heartbeat <= 0 {
		return
	}
	if len(keys) == 0 {
		keys = []string{noKey}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		if known, is := f.paces[key]; !is || heartbeat < known {
			// The pace is kept when the key's last watch ends: the next watcher
			// of the key may have set its heartbeat before.
			f.paces[key] = heartbeat
			f.wake()
		}
	}
}

// noKey is the key of a pace without a key: keys are never empty.
const noKey = ""

// CostlyWatch reports whether each watched key costs requests while nothing
// changes, since the source reports no changes. An election asks its store, and
// then reads seldom what need not be known at once.
func (f *Feed) CostlyWatch() bool {
	_, news := f.src.(Follower)
	return !news
}

// Watch implements [store.Watcher].
func (f *Feed) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	for _, key := range keys {
		if !store.ValidKey(key) {
			return nil, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
		}
	}
	return f.begin(ctx, f.newWatch(deliver, slices.Compact(slices.Sorted(slices.Values(keys))), ""))
}

// WatchPattern implements [store.PatternWatcher].
func (f *Feed) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	if !store.ValidPattern(pattern) {
		return nil, fmt.Errorf("%w: pattern %q", store.ErrInvalid, pattern)
	}
	w := f.newWatch(nil, nil, pattern)
	w.Queue = delivery.New(func(e store.Entry) {
		if e.Key == complete {
			present(w.denied(f))
			return
		}
		deliver(e)
	}, f.panicked)
	return f.begin(ctx, w)
}

// complete marks the end of the current state in a queue. No key is empty.
const complete = ""

// A watch is one call of Watch or WatchPattern.
type watch struct {
	*delivery.Queue
	keys    []string // of Watch
	pattern string   // of WatchPattern; else empty

	// Guarded by Feed.mu.
	// The keys whose state is to be delivered, whatever was delivered before;
	// the pattern.
	pending map[string]struct{}
	refused error // why the pattern's current state cannot be read
	begun   bool
	ready   chan struct{} // closed when the watch has started, or failed
	failure error
}

func (f *Feed) newWatch(deliver func(store.Entry), keys []string, pattern string) *watch {
	w := &watch{keys: keys, pattern: pattern, pending: make(map[string]struct{}), ready: make(chan struct{})}
	if deliver != nil {
		w.Queue = delivery.New(deliver, f.panicked)
	}
	w.await()
	return w
}

// await has everything delivered once more.
func (w *watch) await() {
	for _, key := range w.keys {
		w.pending[key] = struct{}{}
	}
	if w.pattern != "" {
		w.pending[w.pattern] = struct{}{}
	}
}

// awaits reports whether the name's state is to be delivered.
func (w *watch) awaits(name string) bool {
	_, ok := w.pending[name]
	return ok
}

func (w *watch) denied(f *Feed) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return w.refused
}

// begin registers the watch, and waits until its current state is known.
func (f *Feed) begin(ctx context.Context, w *watch) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: nothing is watched: %w", store.ErrTransient, err)
	}
	if err := f.attach(w); err != nil {
		return nil, err
	}
	end := sync.OnceFunc(func() {
		w.Close()
		f.detach(w)
	})
	select {
	case <-w.ready:
		err = w.failure
	case <-ctx.Done():
		err = fmt.Errorf("%w: nothing is watched: %w", store.ErrTransient, context.Cause(ctx))
	}
	if err != nil {
		end()
		w.Wait()
		return nil, err
	}
	forget := context.AfterFunc(ctx, func() { shield.Call(end, f.panicked) })
	return func() {
		forget()
		end()
		w.Wait()
	}, nil
}

func (f *Feed) attach(w *watch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("%w: nothing is watched", store.ErrClosed)
	}
	f.watches[w] = struct{}{}
	if w.pattern != "" {
		f.wide[w] = struct{}{}
	}
	for _, key := range w.keys {
		if f.exact[key] == nil {
			f.exact[key] = make(map[*watch]struct{})
		}
		f.exact[key][w] = struct{}{}
	}
	if len(w.pending) == 0 { // no keys
		w.begin()
	}
	f.rename()
	f.work()
	return nil
}

func (f *Feed) detach(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, w)
	delete(f.wide, w)
	for _, key := range w.keys {
		delete(f.exact[key], w)
		if len(f.exact[key]) == 0 {
			delete(f.exact, key)
		}
	}
	for key := range f.known {
		if !f.watched(key) {
			delete(f.known, key)
		}
	}
	f.rename()
	f.rest()
}

// rename notifies a Follower that other names are watched. f.mu is held.
func (f *Feed) rename() {
	close(f.renamed)
	f.renamed = make(chan struct{})
}

// begin has the watch's caller go on. Feed.mu is held.
func (w *watch) begin() {
	if !w.begun && w.failure == nil {
		w.begun = true
		close(w.ready)
	}
}

// fail has the call that started the watch return an error. Feed.mu is held.
func (w *watch) fail(err error) {
	if !w.begun && w.failure == nil {
		w.failure = err
		close(w.ready)
	}
}

// Close ends all watches and every goroutine of the Feed. Later watches fail
// with store.ErrClosed. It may be called more than once, and not from within a
// function that the Feed calls.
func (f *Feed) Close() {
	f.mu.Lock()
	f.closed = true
	open := slices.Collect(maps.Keys(f.watches))
	for _, w := range open {
		w.fail(fmt.Errorf("%w: nothing is watched", store.ErrClosed))
		w.Close()
	}
	last := f.last
	f.mu.Unlock()
	if last != nil {
		last.cancel()
		<-last.done
	}
	for _, w := range open {
		w.Wait()
	}
	f.connected(store.Closed)
}

// panicked reports a panic of a function that the Feed called.
func (f *Feed) panicked(value any, stack []byte) {
	// A panic of the Logger itself cannot be reported anywhere.
	shield.Call(func() {
		f.log().Error("panic", "of", "a function that a watch calls", "value", shield.Value(value), "stack", string(stack))
	}, func(any, []byte) {})
}

func (f *Feed) log() *slog.Logger {
	if f.opts.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return f.opts.Logger
}
