package storetest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A recorder is a watch that keeps what it hears, and finds fault with what no
// watch may do.
type recorder struct {
	x       *exam
	keys    []string // that are watched, or
	pattern string
	stop    func()
	lossy   bool // the store's state is destroyed during the watch: revisions may decrease

	inside atomic.Int32

	mu      sync.Mutex
	heard   []store.Entry
	marks   []mark        // the calls of present
	news    chan struct{} // closed and replaced at each delivery
	stopped bool
	faults  []string
}

// A mark is one call of present.
type mark struct {
	after int // entries heard before
	err   error
}

// watcher opens a client that can watch.
func (x *exam) watcher() store.Watcher {
	x.Helper()
	w, ok := x.open().(store.Watcher)
	if !ok {
		x.Fatal("the store is not a store.Watcher; state in Caps.NoWatch why")
	}
	return w
}

// watch begins a watch that ends with the claim.
func (x *exam) watch(w store.Watcher, keys ...string) *recorder {
	x.Helper()
	return x.watchUnder(context.Background(), w, keys...)
}

func (x *exam) watchUnder(ctx context.Context, w store.Watcher, keys ...string) *recorder {
	x.Helper()
	var r *recorder
	stop := x.begun(fmt.Sprintf("Watch(%q)", keys), func() (func(), error) {
		r = &recorder{x: x, keys: slices.Clone(keys), news: make(chan struct{})}
		return w.Watch(ctx, keys, r.deliver)
	})
	if !slices.Equal(keys, r.keys) {
		x.Errorf("Watch changed its caller's keys to %q", keys)
	}
	r.stop = stop
	x.Cleanup(r.end)
	return r
}

// end stops the watch and reports the faults that it had.
func (r *recorder) end() {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, f := range r.faults {
		r.x.Errorf("watch of %s: %s", r, f)
	}
	r.faults = nil
}

// wants reports whether the watch is of the key.
func (r *recorder) wants(k string) bool {
	return slices.Contains(r.keys, k) || r.pattern != "" && store.MatchPattern(r.pattern, k)
}

// String names what is watched.
func (r *recorder) String() string {
	if r.pattern != "" {
		return strconv.Quote(r.pattern)
	}
	return fmt.Sprintf("%q", r.keys)
}

// deliver is what the store calls.
func (r *recorder) deliver(e store.Entry) {
	r.called(func() {
		if fault := r.judge(e); fault != "" {
			r.faults = append(r.faults, fault)
		}
		r.heard = append(r.heard, e)
	})
}

// present is the function that the store calls at the end of the current state.
func (r *recorder) present(err error) {
	r.called(func() { r.marks = append(r.marks, mark{after: len(r.heard), err: err}) })
}

// called notes a call of the store's, which must not overlap with another.
func (r *recorder) called(note func()) {
	if r.inside.Add(1) != 1 {
		r.fault("calls of deliver overlap")
	}
	runtime.Gosched() // an overlapping call gets its chance to be seen
	r.mu.Lock()
	note()
	close(r.news)
	r.news = make(chan struct{})
	r.mu.Unlock()
	r.inside.Add(-1)
}

func (r *recorder) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// judge returns what is wrong with hearing e now. r.mu is held.
func (r *recorder) judge(e store.Entry) string {
	if !r.wants(e.Key) {
		return fmt.Sprintf("heard of key %q", e.Key)
	}
	if e.Revision == 0 && (len(e.Value) != 0 || e.Tombstone) {
		return fmt.Sprintf("the entry of an unknown key is not empty: %+v", e)
	}
	for _, old := range slices.Backward(r.heard) {
		switch {
		case old.Key != e.Key:
			continue
		case e.Revision < old.Revision && !r.lossy:
			return fmt.Sprintf("heard revision %d of key %q after %d", e.Revision, e.Key, old.Revision)
		case e.Revision == old.Revision && (!bytes.Equal(e.Value, old.Value) || e.Tombstone != old.Tombstone):
			return fmt.Sprintf("heard revision %d of key %q twice with different content", e.Revision, e.Key)
		}
		break
	}
	return ""
}

// entries returns what was heard of the key so far, or of all keys if k is
// empty.
func (r *recorder) entries(k string) []store.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.heard), func(e store.Entry) bool { return k != "" && e.Key != k })
}

// await waits until something heard satisfies the condition, and returns it.
func (r *recorder) await(what string, ok func(store.Entry) bool) store.Entry {
	r.x.Helper()
	limit := time.After(r.x.caps.Patience)
	for {
		r.mu.Lock()
		heard, news := r.heard, r.news // only appended to
		r.mu.Unlock()
		if i := slices.IndexFunc(heard, ok); i >= 0 {
			return heard[i]
		}
		select {
		case <-news:
		case <-limit:
			r.x.Fatalf("the watch of %s did not hear of %s within %v; it heard %s", r, what, r.x.caps.Patience, r.summary())
		}
	}
}

// reaches waits until the key's revision was heard, and checks what came with
// it.
func (r *recorder) reaches(k string, rev uint64, value string, tombstone bool) {
	r.x.Helper()
	e := r.await(fmt.Sprintf("key %q at revision %d", k, rev), func(e store.Entry) bool { return e.Key == k && e.Revision == rev })
	if string(e.Value) != value || e.Tombstone != tombstone {
		r.x.Fatalf("the watch heard of key %q at revision %d: %s, tombstone %t; want %q, %t", k, rev, brief(e.Value), e.Tombstone, value, tombstone)
	}
}

// begins waits for the first entry of the key.
func (r *recorder) begins(k string) store.Entry {
	r.x.Helper()
	return r.await(fmt.Sprintf("the current state of key %q", k), func(e store.Entry) bool { return e.Key == k })
}

func (r *recorder) summary() string {
	heard := r.entries("")
	var b bytes.Buffer
	for i, e := range heard {
		if i == 10 {
			fmt.Fprintf(&b, "… (%d in all)", len(heard))
			break
		}
		fmt.Fprintf(&b, "%s@%d ", e.Key, e.Revision)
	}
	if len(heard) == 0 {
		return "nothing"
	}
	return b.String()
}
