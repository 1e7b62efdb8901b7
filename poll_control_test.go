package leader_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A store that has no watch.
type unwatched struct{ store.Store }

// Each poll of the control record says again what another candidate said once.
// Taken for news, it kept those that are its like silent for good, even when it
// had gone.
func TestAPolledControlRecordIsHeardOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		low := start(t, st, takeover("low", 1))
		high := start(t, unwatched{st}, takeover("high", 2))
		time.Sleep(2 * ttl)
		// It asks too early, is refused, and is never heard of again.
		put(t, st, record.ControlKey("g"), record.Control{Stand: &record.Stand{
			ID: "ghost", Term: low.Term().Number, Priority: 2, Takeover: true,
		}})
		time.Sleep(tenure)
		mustLead(t, high, low)
	})
}

// A request that was refused stays so, however often it is read.
func TestAPolledRequestForARoleIsJudgedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 3), unwatched{memstore.New()}
		a := f.start(st, leader.RoleManagerConfig{Election: spreading("a").Election})
		time.Sleep(2 * ttl)
		mustHold(t, []int{3}, a)
		e := a.Election(f.roles[0])
		put(t, st, record.ControlKey(f.roles[0]), record.Control{Request: record.Request{
			Op: record.OpBalance, Term: e.Term().Number, Successor: "b", Have: 3,
		}})
		time.Sleep(2 * ttl)
		mustHold(t, []int{3}, a)
		f.roles = append(f.roles, "more", "yet.more")
		f.add(a, "a", "more")
		f.add(a, "a", "yet.more")
		term := e.Term()
		time.Sleep(10 * ttl)
		if e.Term() != term {
			t.Errorf("the request was granted after all: %s", status(e))
		}
		stopRoles(t, a)
	})
}

// A reader of records alone: the control record may not be read.
type recordsOnly struct{ store.Store }

func (r recordsOnly) Get(ctx context.Context, key string) (store.Entry, error) {
	if strings.HasPrefix(key, record.ControlKey("")) {
		return store.Entry{}, store.ErrPermanent
	}
	return r.Store.Get(ctx, key)
}

func TestAPollingCandidateThatMayNotReadItsControlRecordGoesOnWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes atomic.Int64
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteNotReady {
				notes.Add(1)
			}
		}
		a := start(t, recordsOnly{memstore.New()}, cfg)
		time.Sleep(ttl - time.Nanosecond)
		mustNotLead(t, a)
		time.Sleep(heartbeat)
		mustLead(t, a)
		time.Sleep(10 * ttl)
		if n := notes.Load(); n != 1 {
			t.Errorf("it was said %d times that the control record cannot be read", n)
		}
	})
}

// Of the group's record nothing can be read, which only the candidate knows.
type controlOnly struct {
	store.Store

	refuses atomic.Bool
}

func (c *controlOnly) Get(ctx context.Context, key string) (store.Entry, error) {
	if c.refuses.Load() && !strings.HasPrefix(key, record.ControlKey("")) {
		return store.Entry{}, store.ErrPermanent
	}
	return c.Store.Get(ctx, key)
}

func TestAPollingCandidateThatMayNotReadItsRecordSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes atomic.Int64
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteNotReady && strings.Contains(n.Text, store.ErrPermanent.Error()) {
				notes.Add(1)
			}
		}
		st := &controlOnly{Store: memstore.New()}
		st.refuses.Store(true)
		a := start(t, st, cfg)
		time.Sleep(2*time.Minute + heartbeat/2)
		mustNotLead(t, a)
		if err := a.Status().LastError; !errors.Is(err, store.ErrPermanent) {
			t.Errorf("the status says %v of reads that fail for good", err)
		}
		if n := notes.Load(); n != 3 {
			t.Errorf("it was said %d times in two minutes that the record cannot be read, want one a minute", n)
		}
		st.refuses.Store(false)
		time.Sleep(2 * wait)
		mustLead(t, a)
	})
}
