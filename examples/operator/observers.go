package main

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/seed-ff2cb582/leader"
)

// observers see who leads, in the buckets that LeaderGroups name.
type observers struct {
	nc     *nats.Conn
	events chan event.TypedGenericEvent[place] // a group of a bucket has changed

	mu      sync.Mutex
	ctx     context.Context // of the manager's run; nil before
	running sync.WaitGroup
	buckets map[string]*watched
	named   map[types.NamespacedName]string // the bucket that each LeaderGroup names
}

// A watched bucket is one that somebody names.
type watched struct {
	namers int
	stop   context.CancelFunc // nil before the manager's run
	seen   map[string]observation
	whole  bool // seen has all groups that are there
}

// A place is a group of a bucket.
type place struct{ bucket, group string }

// An observation is who leads a group, and since when.
type observation struct {
	leader.LeaderInfo

	since time.Time // when it was first seen to lead in this term
}

func newObservers(nc *nats.Conn) *observers {
	return &observers{
		nc: nc, events: make(chan event.TypedGenericEvent[place], 128),
		buckets: map[string]*watched{}, named: map[types.NamespacedName]string{},
	}
}

// Start implements manager.Runnable: it lets observations run until ctx is
// done. As it does not implement LeaderElectionRunnable, it runs where this
// copy leads.
func (o *observers) Start(ctx context.Context) error {
	o.mu.Lock()
	o.ctx = ctx
	for bucket, w := range o.buckets {
		o.observe(bucket, w)
	}
	o.mu.Unlock()
	<-ctx.Done()
	o.running.Wait()
	return nil
}

// leader returns who leads, and whether that is known, for a LeaderGroup that
// names the place. Its bucket is watched from now on, in place of one that the
// LeaderGroup has named before.
func (o *observers) leader(namer types.NamespacedName, p place) (seen observation, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.named[namer] != p.bucket {
		o.drop(namer)
		w := o.buckets[p.bucket]
		if w == nil {
			w = &watched{seen: map[string]observation{}}
			o.buckets[p.bucket] = w
			if o.ctx != nil {
				o.observe(p.bucket, w)
			}
		}
		o.named[namer] = p.bucket
		w.namers++
	}
	w := o.buckets[p.bucket]
	seen, known = w.seen[p.group]
	return seen, known || w.whole
}

// forget takes in that a LeaderGroup is gone.
func (o *observers) forget(namer types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(namer)
}

// drop ends the watch of the bucket that a LeaderGroup has named, if no other
// names it. The caller holds mu.
func (o *observers) drop(namer types.NamespacedName) {
	bucket, ok := o.named[namer]
	if !ok {
		return
	}
	delete(o.named, namer)
	w := o.buckets[bucket]
	w.namers--
	if w.namers > 0 {
		return
	}
	delete(o.buckets, bucket)
	if w.stop != nil {
		w.stop()
	}
}

// observe watches a bucket, which may not be there yet. The caller holds mu.
func (o *observers) observe(bucket string, w *watched) {
	ctx, stop := context.WithCancel(o.ctx)
	w.stop = stop
	see := func(info leader.LeaderInfo) { o.see(ctx, bucket, w, info) }
	present := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		w.whole = true
	}
	o.running.Go(func() {
		defer stop()
		// A renewal may come with another address.
		_ = leader.ObserveFunc(ctx, o.nc, bucket, ">", leader.Observer{
			Leader: see, Renewed: see, Present: present, Failed: func(error) {}, // which is tried again
		})
	})
}

func (o *observers) see(ctx context.Context, bucket string, w *watched, info leader.LeaderInfo) {
	if !o.note(w, info) {
		return
	}
	select {
	case o.events <- event.TypedGenericEvent[place]{Object: place{bucket, info.Group}}:
	case <-ctx.Done():
	}
}

// note reports whether anything that is shown is news.
func (o *observers) note(w *watched, info leader.LeaderInfo) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, known := w.seen[info.Group]
	since := time.Now()
	if known && last.ID == info.ID && last.Term == info.Term {
		if last.Address == info.Address {
			return false
		}
		since = last.since
	}
	w.seen[info.Group] = observation{info, since}
	return true
}
