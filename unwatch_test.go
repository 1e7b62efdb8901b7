package leader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A lingerer is a store whose watches still deliver for a while after their
// context has ended.
type lingerer struct {
	*memstore.Store
	running atomic.Int32
}

func (l *lingerer) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	inner, err := l.Store.Watch(ctx, keys, deliver)
	if err != nil {
		return nil, err
	}
	l.running.Add(1)
	return func() { inner(); l.running.Add(-1) }, nil
}

// The end of the watch's context begins its end; only its stop function waits
// for it.
func TestStopAwaitsTheEndOfTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lingerer{Store: memstore.New()}
		e, err := leader.NewElectionWithStore(l, config("a"))
		if err != nil {
			t.Fatal(err)
		}
		started(t, e)
		synctest.Wait()
		if n := l.running.Load(); n != 1 {
			t.Fatalf("%d watches", n)
		}
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
		if n := l.running.Load(); n != 0 {
			t.Errorf("%d watches are running after Stop", n)
		}
	})
}
