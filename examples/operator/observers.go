package main

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/seed-ff2cb582/leader"
)

// observers see who leads, in the buckets that somebody asked for.
type observers struct {
	nc     *nats.Conn
	events chan event.TypedGenericEvent[place] // a group of a bucket has changed

	mu      sync.Mutex
	ctx     context.Context // of the manager's run; nil before
	running sync.WaitGroup
	buckets map[string]bool
	seen    map[place]observation
}

// A place is a group of a bucket.
type place struct{ bucket, group string }

// An observation is who leads a group, and since when.
type observation struct {
	leader.LeaderInfo

	since time.Time // when it was first seen to lead in this term
}

func newObservers(nc *nats.Conn) *observers {
	return &observers{nc: nc, events: make(chan event.TypedGenericEvent[place], 128), buckets: map[string]bool{}, seen: map[place]observation{}}
}

// Start implements manager.Runnable: it lets observations run until ctx is
// done. As a Runnable without a word of its own it runs where this copy leads.
func (o *observers) Start(ctx context.Context) error {
	o.mu.Lock()
	o.ctx = ctx
	for bucket := range o.buckets {
		o.observe(bucket)
	}
	o.mu.Unlock()
	<-ctx.Done()
	o.running.Wait()
	return nil
}

// leader returns who leads, as far as it is known, and sees to it that the
// bucket is watched.
func (o *observers) leader(p place) (observation, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.buckets[p.bucket] {
		o.buckets[p.bucket] = true
		if o.ctx != nil {
			o.observe(p.bucket)
		}
	}
	s, ok := o.seen[p]
	return s, ok
}

// observe watches a bucket, again after a failure. The caller holds mu.
func (o *observers) observe(bucket string) {
	ctx := o.ctx
	o.running.Go(func() {
		for ctx.Err() == nil {
			for info, err := range leader.Observe(ctx, o.nc, bucket, ">") {
				if err != nil {
					break
				}
				o.see(ctx, bucket, info)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second): // the bucket may not be there yet
			}
		}
	})
}

func (o *observers) see(ctx context.Context, bucket string, info leader.LeaderInfo) {
	p := place{bucket, info.Group}
	o.mu.Lock()
	last, known := o.seen[p]
	changed := !known || last.ID != info.ID || last.Term != info.Term
	if changed {
		o.seen[p] = observation{info, time.Now()}
	}
	o.mu.Unlock()
	if !changed {
		return
	}
	select {
	case o.events <- event.TypedGenericEvent[place]{Object: p}:
	case <-ctx.Done():
	}
}
