package election_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A laggard is a store whose watch can be held up, while its writes are
// answered.
type laggard struct {
	*natsstore.Store

	mu      sync.Mutex
	held    bool
	queue   []store.Entry
	deliver func(store.Entry)
}

func (l *laggard) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	l.mu.Lock()
	l.deliver = deliver
	l.mu.Unlock()
	return l.Store.Watch(ctx, keys, func(e store.Entry) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held {
			l.queue = append(l.queue, e)
		} else {
			deliver(e)
		}
	})
}

func (l *laggard) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// one delivers the first entry that waits, and reports whether there was one.
func (l *laggard) one() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return false
	}
	l.deliver(l.queue[0])
	l.queue = l.queue[1:]
	return true
}

func (l *laggard) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.queue {
		l.deliver(e)
	}
	l.queue, l.held = nil, false
}

// A watch may tell of our own writes long after their answers. That is no sign
// of a store that has lost writes, and costs nobody the wait that such a store
// calls for.
func TestWatchThatLagsBehindOwnWritesIsNoLostWrite(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	st, err := natsstore.New(nc, "b", natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	lag := &laggard{Store: st}
	g := newGroup(t, "b")
	a := g.over(lag, "a")
	a.start()
	g.leader()
	b := g.join(srv.Connect(t), "b")
	for range 5 {
		b.follows(a)
		lag.hold()
		// A write, of which the watch will tell late.
		if err := a.ValidateToken(natslab.Within(t)); err != nil {
			t.Fatal(err)
		}
		a.resign()
		g.await("b leads", b.IsLeader)
		g.await("the watch tells of a's write", lag.one)
		// Nothing tells that a has taken it in. Where this moment is too short
		// for it, the test sees less, and never fails for nothing.
		<-time.After(20 * time.Millisecond)
		lag.release()
		g.handover(b, a)
	}
	if n := a.noted(leader.NoteRegressed); len(n) > 0 {
		t.Errorf("%d notes of lost writes", len(n))
	}
}
