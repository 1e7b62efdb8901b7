package faultstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Options configure Faults. The zero value is a perfect network.
type Options struct {
	// Policy decides what happens to each call.
	Policy Policy
	// FirstRevision is the first write's revision; 0 means 1.
	FirstRevision uint64
	// Memory is how far back stale reads and rollbacks reach. The default is
	// one minute.
	Memory time.Duration
	// WatchTimeout is how long a Watch tries before it fails when its call is
	// lost. The default is 5 s.
	WatchTimeout time.Duration
	// Ages makes the store report its age, by calls with fates like others.
	Ages bool
}

// Faults is the registers, the network before them, and what goes wrong with
// both. Its methods may be called concurrently, but not from within a deliver
// or a Policy.
type Faults struct {
	opts Options
	mem  *memstore.Store // changed with mu held, so that the log and the events have its order
	done chan struct{}   // closed by Close
	wg   sync.WaitGroup  // scheduled functions and watches' goroutines

	mu      sync.Mutex
	closed  bool
	clients []*Client
	past    history
	made    time.Time // when the registers were made
	timers  map[*time.Timer]struct{}
	counts  [kinds]uint64
}

// New returns empty registers. Close ends what they started.
func New(o Options) *Faults {
	if o.Policy == nil {
		o.Policy = func(Call) Fate { return Fate{} }
	}
	if o.Memory <= 0 {
		o.Memory = time.Minute
	}
	if o.WatchTimeout <= 0 {
		o.WatchTimeout = 5 * time.Second
	}
	o.FirstRevision = max(o.FirstRevision, 1)
	return &Faults{
		opts:   o,
		mem:    memstore.NewWithOptions(memstore.Options{FirstRevision: o.FirstRevision}),
		done:   make(chan struct{}),
		made:   time.Now(),
		past:   history{base: make(map[string]store.Entry), baseLast: o.FirstRevision - 1},
		timers: make(map[*time.Timer]struct{}),
	}
}

// Close ends all watches and all calls under way, whose writes are not applied
// any more, and returns when no goroutine is left.
func (f *Faults) Close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.done)
	}
	for t := range f.timers {
		if t.Stop() {
			f.wg.Done()
		}
	}
	clear(f.timers)
	var watches []*watch
	for _, c := range f.clients {
		watches = append(watches, c.watches...)
	}
	f.mu.Unlock()
	for _, w := range watches {
		w.close()
	}
	f.wg.Wait()
}

// Client returns the link of the given name, and makes it at the first call.
func (f *Faults) Client(name string) *Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.clients, func(c *Client) bool { return c.name == name }); i >= 0 {
		return f.clients[i]
	}
	c := &Client{f: f, name: name, calls: make(map[callKind]uint64), listeners: make(map[*func(store.ConnState)]struct{})}
	f.clients = append(f.clients, c)
	return c
}

// Entry returns the register as it is, for oracles: no fault touches it.
func (f *Faults) Entry(key string) store.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entry(key)
}

// entry is Entry with f.mu held.
func (f *Faults) entry(key string) store.Entry {
	e, err := f.mem.Get(context.Background(), key)
	if err != nil {
		return store.Entry{Key: key} // an invalid key is unknown
	}
	return e
}

// Put overwrites the key without a condition, as a foreign tool does.
func (f *Faults) Put(key string, value []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mem.Put(key, value)
	f.changed(key)
}

// Delete leaves a bare tombstone, as an operator's tool does.
func (f *Faults) Delete(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mem.Delete(key)
	f.changed(key)
}

// Purge destroys every trace of the key; the counter of revisions goes on.
func (f *Faults) Purge(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mem.Purge(key)
	f.changed(key)
}

// Rollback takes the registers and their counter back to where they were d ago,
// at most Options.Memory: a store that lost acknowledged writes. Revisions
// repeat after it.
func (f *Faults) Rollback(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(f.past.at(time.Now().Add(-d)))
}

// Wipe loses everything, the counter of revisions included.
func (f *Faults) Wipe() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(nil, f.opts.FirstRevision-1)
}

// Remake deletes the registers and makes others, which are empty. Revisions go
// on above the earlier ones, as they do in a bucket that this project makes.
func (f *Faults) Remake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = time.Now()
	f.forget(nil, f.past.last())
}

// forget restores an earlier state and lets every watch hear it. f.mu is held.
func (f *Faults) forget(entries map[string]store.Entry, last uint64) {
	now := time.Now()
	f.mem.Restore(slices.Collect(maps.Values(entries)), last)
	present, _ := f.past.at(now)
	lost := false
	for key, was := range present {
		if is := f.entry(key); is.Revision != was.Revision || !bytes.Equal(is.Value, was.Value) {
			lost = true
			f.past.add(now, f.opts.Memory, is, last)
		}
	}
	if !lost {
		return
	}
	f.counts[Forgotten]++
	for _, c := range f.clients {
		c.resync()
	}
}

// Count returns how often the fault had an effect.
func (f *Faults) Count(kind Fault) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[kind]
}

// Counts returns how often each fault had an effect, those that never had
// included.
func (f *Faults) Counts() map[Fault]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := make(map[Fault]uint64, kinds)
	for kind, n := range f.counts {
		m[Fault(kind)] = n
	}
	return m
}

// Unseen returns the faults in Counts that never had an effect.
func (f *Faults) Unseen() (never []Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, n := range f.counts {
		if n == 0 {
			never = append(never, Fault(kind))
		}
	}
	return never
}

// changed notes the key's new state and sends it to the watches. f.mu is held.
func (f *Faults) changed(key string) {
	e := f.entry(key)
	f.past.add(time.Now(), f.opts.Memory, e, max(e.Revision, f.past.last()))
	for _, c := range f.clients {
		for _, w := range c.watches {
			if w.wants(key) {
				c.event(w, e)
			}
		}
	}
}

// state returns what a watch hears when it hears the current state. For a
// pattern that is each key which existed within Options.Memory, so that a watch
// also hears of keys that vanished. f.mu is held.
func (f *Faults) state(w *watch) (entries []store.Entry) {
	for _, key := range w.keys {
		entries = append(entries, f.entry(key))
	}
	if w.pattern == "" {
		return entries
	}
	past, _ := f.past.at(time.Now())
	for _, key := range slices.Sorted(maps.Keys(past)) {
		if w.wants(key) {
			entries = append(entries, f.entry(key))
		}
	}
	return append(entries, store.Entry{Key: complete})
}

// after lets do happen d later with f.mu held, unless f was closed. f.mu is
// held.
func (f *Faults) after(d time.Duration, do func()) {
	switch {
	case f.closed:
		return
	case d <= 0:
		do()
		return
	}
	f.wg.Add(1)
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		defer f.wg.Done()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.timers, t)
		if !f.closed {
			do()
		}
	})
	f.timers[t] = struct{}{}
}
