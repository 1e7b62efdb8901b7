package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A distant store cannot be reached while it is told so. It watches.
type distant struct {
	store.Watcher

	check, watch atomic.Bool
}

func (d *distant) Check(context.Context, store.CheckRequest) (store.Report, error) {
	if d.check.Load() {
		return store.Report{}, store.ErrTransient
	}
	return store.Report{}, nil
}

func (d *distant) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	if d.watch.Load() {
		return nil, store.ErrTransient
	}
	return d.Watcher.Watch(ctx, keys, deliver)
}

// A follower writes nothing and reads nothing: that it has begun to follow is
// all that shows that a trouble at its start is over.
func TestAFollowerThatBeganBeforeItsStoreTellsOfNoErrorOnceItFollows(t *testing.T) {
	for name, far := range map[string]func(*distant) *atomic.Bool{
		"check": func(d *distant) *atomic.Bool { return &d.check },
		"watch": func(d *distant) *atomic.Bool { return &d.watch },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				mustLead(t, start(t, st, config("a")))
				d := &distant{Watcher: st}
				far(d).Store(true)
				b := start(t, d, config("b"))
				time.Sleep(time.Minute)
				if s := b.Status(); !errors.Is(s.LastError, store.ErrTransient) {
					t.Errorf("of a store that cannot be reached the status tells %v", s.LastError)
				}
				far(d).Store(false)
				time.Sleep(time.Minute)
				mustBe(t, b, leader.StateFollower)
				if s := b.Status(); s.LastError != nil || !s.LastErrorAt.IsZero() {
					t.Errorf("still tells %v of %v", s.LastError, s.LastErrorAt)
				}
			})
		})
	}
}

func TestAPollingFollowerTellsOfNoErrorOnceItReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		mustLead(t, start(t, mem, config("a")))
		st := &controlOnly{Store: mem}
		b := start(t, st, config("b"))
		st.refuses.Store(true)
		time.Sleep(2 * heartbeat)
		if s := b.Status(); !errors.Is(s.LastError, store.ErrPermanent) {
			t.Errorf("after a read that failed the status tells %v", s.LastError)
		}
		st.refuses.Store(false)
		time.Sleep(2 * heartbeat)
		mustBe(t, b, leader.StateFollower)
		if s := b.Status(); s.LastError != nil {
			t.Errorf("still tells %v", s.LastError)
		}
	})
}
