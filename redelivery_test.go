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
