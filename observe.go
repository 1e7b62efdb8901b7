package leader

import (
	"context"
	"iter"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// observerPoll is how often the state of a store that has no watch is read.
const observerPoll = time.Second

// ObserveWithStore yields who leads group without taking part: the present state first, then each
// change, until ctx is done. Nothing is ever written. A slow reader skips states.
//
// A leader that falls silent is yielded as gone when its lease has run out as
// seen from here (its TTL plus DefaultClockDrift after its latest renewal arrived).
//
// An error is yielded when the store cannot be watched. If the reader goes on after it, it is tried
// again. A store without a watch is polled, and a read that fails is passed over.
func ObserveWithStore(ctx context.Context, st store.Store, group string) iter.Seq2[LeaderInfo, error] {
	return func(yield func(LeaderInfo, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		o := observer{group: group, entries: make(chan store.Entry, 1)}
		for {
			stop, err := o.watch(ctx, st)
			if err == nil {
				o.run(ctx, yield)
				stop()
				return
			}
			if ctx.Err() != nil || !yield(LeaderInfo{Group: group}, err) || !sleep(ctx, observerPoll) {
				return
			}
		}
	}
}

// An observer follows one group's register.
type observer struct {
	group   string
	entries chan store.Entry // the latest one, if it was not taken yet
	last    LeaderInfo
	rev     uint64 // of the entry that last is about
	any     bool
}

// watch begins to fill o.entries.
func (o *observer) watch(ctx context.Context, st store.Store) (stop func(), err error) {
	if w, ok := st.(store.Watcher); ok {
		return w.Watch(ctx, []string{o.group}, o.offer)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if e, err := st.Get(ctx, o.group); err == nil {
				o.offer(e)
			}
			if !sleep(ctx, observerPoll) {
				return
			}
		}
	}()
	return func() { cancel(); <-done }, nil
}

// offer replaces an entry that was not taken yet. Only one goroutine offers.
func (o *observer) offer(e store.Entry) {
	select {
	case <-o.entries:
	default:
	}
	o.entries <- e
}

func (o *observer) run(ctx context.Context, yield func(LeaderInfo, error) bool) {
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		var info LeaderInfo
		select {
		case e := <-o.entries:
			if o.any && e.Revision == o.rev {
				continue // said again, by a poll or after an interruption: no renewal
			}
			o.rev = e.Revision
			info = infoOf(o.group, e, time.Now())
			expiry.Reset(time.Until(info.Until))
		case <-expiry.C:
			info = o.last.asOf(time.Now())
		case <-ctx.Done():
			return
		}
		if o.changed(info) && !yield(info, nil) {
			return
		}
	}
}

// changed notes info and tells whether it is news.
func (o *observer) changed(info LeaderInfo) bool {
	news := !o.any || info.ID != o.last.ID || info.Term != o.last.Term || info.Reason != o.last.Reason
	o.last, o.any = info, true
	return news
}

// infoOf says who leads by an entry that arrived at now.
func infoOf(group string, e store.Entry, now time.Time) LeaderInfo {
	seen, r := record.Read(e)
	info := LeaderInfo{Group: group, Term: termOf(seen)}
	switch seen.Kind {
	case machine.Held:
		info.ID, info.Priority, info.Address, info.Meta = r.ID, r.Priority, r.Address, r.Meta
		ttl := min(seen.Rec.TTL, MaxTTL)
		if ttl <= 0 {
			ttl = MaxTTL
		}
		info.Until = now.Add(machine.Wait(ttl, DefaultClockDrift))
	case machine.Vacant:
		info.Reason, info.By, info.Successor = Reason(r.Reason), r.By, r.Successor
	case machine.Bare:
		info.Reason = ReasonDeleted
	case machine.Garbled:
		info.Reason = ReasonOverwritten
	default:
		info.Reason = ReasonAbsent
	}
	return info
}
