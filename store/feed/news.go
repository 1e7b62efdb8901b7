package feed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// News receives the changes that the system of a [Follower] reports. Its
// methods may be called concurrently, and do not block.
type News struct {
	f     *Feed
	begun bool // guarded by f.mu
}

// Begun reports that no new change is missed from now on. The Feed then reads
// everything that is watched, for changes that were missed before, and delivers
// it once more: an interruption may have passed unnoticed, since a client may
// connect again by itself.
func (n *News) Begun() {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	n.begun, f.following, f.denied, f.behind = true, true, false, true
	f.awaitAll()
	f.wake()
}

// Entry reports a key's new state. The Feed keeps the value, which must not be
// modified after the call. It ignores an entry of a key without a watch, and an
// entry that is not newer than the known state. If the last read found the key
// gone, the Feed reads it again: the news may be from before its end.
func (n *News) Entry(e store.Entry) { n.f.news(e) }

// Changed reports that the keys may have changed. The Feed reads them.
func (n *News) Changed(keys ...string) {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		if f.watched(key) {
			f.dirty[key] = struct{}{}
		}
	}
	f.wake()
}

// Reread is Changed for a Follower that reads sooner than the Feed would, such
// as on the connection that brought the news. read is called once, with the
// watched ones among the keys, unless none is watched; it begins after the
// call, and returns what [Source.Read] does. Where it fails, the Feed reads,
// and Reread returns the error.
func (n *News) Reread(keys []string, read func(keys []string) ([]store.Entry, error)) error {
	f := n.f
	f.mu.Lock()
	began := f.clock
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !f.watched(key) })
	f.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	entries, err := read(keys)
	if err != nil {
		n.Changed(keys...)
		return err
	}
	f.read(keys, entries, began, nil)
	return nil
}

// Wanted returns the keys and the patterns that are watched, and a channel that
// is closed when they change. A Follower that asks its system for single keys
// then asks for the new ones, and calls [News.Changed] with them once it misses
// no new change of them: they may have changed before.
func (n *News) Wanted() (keys, patterns []string, others <-chan struct{}) {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	wide := make(map[string]struct{})
	for w := range f.wide {
		wide[w.pattern] = struct{}{}
	}
	return slices.Sorted(maps.Keys(f.exact)), slices.Sorted(maps.Keys(wide)), f.renamed
}

// follow has the source follow, again and again, until ctx is done.
func (f *Feed) follow(ctx context.Context, src Follower) {
	pace := backoff.Policy{Initial: firstDelay, Max: 5 * time.Second, Jitter: 0.25}
	said := ""
	for failures := 1; ctx.Err() == nil; failures++ {
		n := &News{f: f}
		err := f.followOnce(ctx, src, n)
		denied := store.Classify(err) == store.Permanent
		begun := f.broken(n, denied)
		if ctx.Err() != nil {
			return
		}
		if !denied {
			f.heard(store.ErrTransient)
		}
		if begun {
			failures, said = 1, ""
		}
		if text := fmt.Sprint(err); text != said {
			said = text
			shield.Call(func() { f.log().Warn("watch lost; polling until it is restored", "err", err) }, func(any, []byte) {})
		}
		if !backoff.Sleep(ctx, pace.After(failures)) {
			return
		}
	}
}

func (f *Feed) followOnce(ctx context.Context, src Follower, n *News) (err error) {
	if !shield.Call(func() {
		faults.Point("follow")
		err = src.Follow(ctx, n)
	}, f.panicked) {
		err = store.ErrTransient
	}
	return err
}

// broken records that the news have ended, and why. It reports whether they had
// started.
func (f *Feed) broken(n *News, denied bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.begun {
		f.awaitAll()
	}
	f.following, f.denied = false, denied
	f.wake() // looks come more often now
	return n.begun
}
