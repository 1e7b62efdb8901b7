package k8sstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/seed-ff2cb582/leader/store/feed"
)

// whole is the watch of all Leases of the namespace. No key is empty.
const whole = ""

// Follow implements [feed.Follower] by watches of the API server: one for each
// key, which delivers nothing about other Leases and needs no right to them, or
// one for the whole namespace where patterns are watched, or many keys. Each
// begins with the current state (no resourceVersion is named), so that none can
// be too old.
func (s source) Follow(ctx context.Context, news *feed.News) error {
	ctx, cancel := context.WithCancelCause(ctx)
	f := &follower{s: s, news: news, cancel: cancel, streams: make(map[string]context.CancelFunc), pending: make(map[string]struct{})}
	for ctx.Err() == nil {
		keys, patterns, others := news.Wanted()
		f.want(ctx, keys, patterns)
		select {
		case <-others:
		case <-ctx.Done():
		}
	}
	cancel(nil)
	f.running.Wait()
	return context.Cause(ctx)
}

// A follower is what Follow has under way.
type follower struct {
	s       source
	news    *feed.News
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	streams map[string]context.CancelFunc // by key, or whole

	mu       sync.Mutex
	pending  map[string]struct{} // the names of the first streams that have not started
	begun    bool
	complete bool // the first streams have all been started
}

// want starts a stream for each name that is watched, and ends the others.
func (f *follower) want(ctx context.Context, keys, patterns []string) {
	if len(patterns) > 0 || len(keys) > few {
		keys = []string{whole}
	}
	wanted := make(map[string]struct{}, len(keys))
	for _, name := range keys {
		wanted[name] = struct{}{}
		if _, is := f.streams[name]; is {
			continue
		}
		f.mu.Lock()
		b := added
		if !f.complete {
			b = first
			f.pending[name] = struct{}{}
		}
		f.mu.Unlock()
		one, cancel := context.WithCancel(ctx)
		f.streams[name] = cancel
		f.running.Go(func() { f.keep(one, name, b) })
	}
	for name, cancel := range f.streams {
		if _, is := wanted[name]; !is {
			cancel()
			delete(f.streams, name)
			f.abandon(name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.complete = true
	f.begin()
}

// abandon has nobody wait for the beginning of a stream that is no longer
// wanted.
func (f *follower) abandon(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pending, name)
}

// begin reports that no change is missed from now on, once all of the first
// streams have started. f.mu is held.
func (f *follower) begin() {
	if !f.begun && f.complete && len(f.pending) == 0 {
		f.begun = true
		f.news.Begun()
	}
}

// A beginning is why a stream begins.
type beginning uint8

const (
	first beginning = iota // it is one of those with which the follower begins
	added                  // its name is watched since then
	again                  // the server ended the one before
)

// stable is how long a stream at least lasts that the server ends in the usual
// way, which it does after half an hour or more.
const stable = 3 * time.Second

// keep keeps a stream until ctx is done, or ends the follower with the stream's
// failure.
func (f *follower) keep(ctx context.Context, name string, b beginning) {
	for ; ctx.Err() == nil; b = again {
		started := time.Now()
		err := f.stream(ctx, name, b)
		if ctx.Err() == nil && (err != nil || time.Since(started) < stable) {
			if err == nil {
				err = errEnded
			}
			f.cancel(f.s.readError(ctx, "watching", err))
		}
	}
}

// errEnded ends a stream that the server has ended.
var errEnded = errors.New("the API server ended the watch")

// stream runs one watch to its end.
func (f *follower) stream(ctx context.Context, name string, b beginning) error {
	request := f.s.request(http.MethodGet).Param("watch", "true")
	if name != whole {
		request = request.Param("fieldSelector", "metadata.name="+f.s.names.lease(name))
	}
	w, err := request.Watch(quiet(ctx))
	if err != nil {
		return err
	}
	defer w.Stop()
	f.established(name, b)
	for {
		select {
		case ev, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			if err := f.take(ev); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// established notes that nothing new of the name is missed.
func (f *follower) established(name string, b beginning) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case b == first:
		delete(f.pending, name)
		f.begin()
	case b == again, name == whole:
		// The client takes some ends of a connection for the end of a watch,
		// too: so everything is read, and delivered once more.
		f.news.Begun()
	default:
		f.news.Changed(name)
	}
}

// take takes in one event.
func (f *follower) take(ev watch.Event) error {
	if ev.Type == watch.Error {
		return fmt.Errorf("the API server ended the watch: %w", apierrors.FromObject(ev.Object))
	}
	sent, ok := ev.Object.(*coordinationv1.Lease)
	if !ok {
		return nil // a bookmark, or a type of later servers
	}
	key, ok := f.s.names.key(sent.Name, sent.Annotations[keyAnnotation])
	if !ok {
		return nil
	}
	if ev.Type == watch.Deleted {
		f.news.Changed(key)
		return nil
	}
	l, err := f.s.known.see(key, sent, true)
	if err != nil {
		return err
	}
	f.news.Entry(l.entry())
	return nil
}

var _ feed.Follower = source{}
