package leader_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A redelivering store has a watch that can lag, and that delivers an entry
// again when it is told to, as one does that was interrupted and reads anew.
type redelivering struct {
	*memstore.Store

	mu      sync.Mutex
	lags    bool
	deliver func(store.Entry)
	latest  store.Entry // of the record, as delivered
}

func (r *redelivering) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	r.mu.Lock()
	r.deliver = deliver
	r.mu.Unlock()
	return r.Store.Watch(ctx, keys, func(e store.Entry) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.Key == "g" {
			if r.lags {
				return
			}
			r.latest = e
		}
		deliver(e)
	})
}

// lag has the watch deliver nothing of the record until it catches up.
func (r *redelivering) lag() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags = true
}

// catchUp delivers the present entry, and goes on from there.
func (r *redelivering) catchUp(present store.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags, r.latest = false, present
	r.deliver(present)
}

// again delivers the latest entry once more and returns its revision.
func (r *redelivering) again() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliver(r.latest)
	return r.latest.Revision
}

// A watch may deliver an entry again, after the answer to a later write of
// ours. The revision is older than ours, but the watch has not gone back: the
// store has lost nothing, and nothing is doubted.
func TestAnEntryThatTheWatchRepeatsIsNoRegress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, shared := newJournal(), memstore.New()
		st := &redelivering{Store: shared}
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteRegressed {
				j.noteAt("%s", n.Text)
			}
		}
		a := start(t, st, cfg)
		// after has the watch repeat what was there before a write of a's.
		after := func(write func()) {
			t.Helper()
			st.lag()
			write()
			synctest.Wait()
			e, _ := stored(t, shared)
			if again := st.again(); again >= e.Revision {
				t.Fatalf("revision %d is repeated, which is not older than %d", again, e.Revision)
			}
			synctest.Wait()
			st.catchUp(e)
			synctest.Wait()
		}
		mustLead(t, a)
		term := a.Term()
		for range 3 {
			after(func() { time.Sleep(heartbeat) }) // a renewal
		}
		time.Sleep(ttl)
		mustLead(t, a)
		if a.Term() != term {
			t.Errorf("term %v, was %v", a.Term(), term)
		}
		after(func() { // a release
			if err := a.Pause(t.Context(), "upgrade"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		})
		j.demand(t)
		mustNotLead(t, a)
		if err := a.Resume(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(jitter) // and no lease, as in doubt
		mustLead(t, a)
	})
}

// A laggard is a store whose watch can be held up while its writes are
// answered.
type laggard struct {
	*memstore.Store

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

// A watch may deliver our own writes long after their answers. The store has
// lost no writes then, and nobody waits as after such a loss.
func TestWatchThatLagsBehindOwnWritesIsNoLostWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, shared, cfg := newJournal(), memstore.New(), config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteRegressed {
				j.noteAt("%s", n.Text)
			}
		}
		lag := &laggard{Store: shared}
		a, b := start(t, lag, cfg), start(t, shared, config("b"))
		for range 5 {
			mustLead(t, a, b)
			time.Sleep(heartbeat / 2)
			lag.hold()
			// A write that the watch delivers late.
			if err := a.ValidateToken(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := a.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustLead(t, b, a)
			if !lag.one() {
				t.Fatal("the watch delivers nothing of a's write")
			}
			synctest.Wait()
			lag.release()
			synctest.Wait()
			if err := b.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mustLead(t, a, b)
		j.demand(t)
	})
}
