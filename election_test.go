package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestFirstCandidateLeadsAndStopHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		b := start(t, st, config("b"))
		time.Sleep(10 * time.Second)
		mustLead(t, a, b)
		if b.LeaderID() != "a" {
			t.Fatal(status(b))
		}
		halt(t, a)
		mustLead(t, b, a)
		if b.LeaderID() != "b" {
			t.Fatal(status(b))
		}
	})
}

func TestSilentLeaderIsReplacedAfterItsLeaseAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a := start(t, f.Client("a"), config("a"))
		mustLead(t, a)
		b := start(t, f.Client("b"), config("b"))
		synctest.Wait()
		f.BlackHole("a")
		time.Sleep(trust - 1)
		mustLead(t, a, b)
		time.Sleep(time.Nanosecond)
		mustNotLead(t, a, b)
		time.Sleep(wait - trust - 1)
		mustNotLead(t, a, b)
		time.Sleep(1 + jitter)
		mustLead(t, b, a)
		f.Heal("a")
		mustBe(t, a, leader.StateFollower)
		mustLead(t, b, a)
	})
}

// The previous process looks the same as one that hangs, and leads for as long
// as it may.
func TestCandidateThatRestartsUnderItsNameWaitsForItsOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		old := start(t, f.Client("old"), config("a"))
		mustLead(t, old)
		first := old.Term()
		f.BlackHole("old")
		again := start(t, f.Client("new"), config("a"))
		time.Sleep(wait - 1)
		mustNotLead(t, again)
		time.Sleep(1 + contention)
		mustLead(t, again, old)
		if term := again.Term(); term.Number <= first.Number || term.Token == first.Token {
			t.Errorf("%v after %v", term, first)
		}
	})
}

func TestLeaderKeepsItsTermForAsLongAsItRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		term := a.Term()
		time.Sleep(24 * time.Hour)
		mustLead(t, a)
		if a.Term() != term {
			t.Fatalf("%v, want %v", a.Term(), term)
		}
		if _, r := stored(t, st); r.Renewal < 86_000 || r.Renewal > 86_400 || r.Term != term.Number {
			t.Fatalf("a day of heartbeats each second: %+v", r)
		}
	})
}

func TestTermsOfAGroupOnlyGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		var last leader.Term
		for i := range 10 {
			e := start(t, st, config(fmt.Sprint("candidate-", i)))
			mustLead(t, e)
			if term := e.Term(); !term.Supersedes(last) || term.Number <= last.Number {
				t.Fatalf("%v after %v", term, last)
			}
			last = e.Term()
			if i%2 == 0 {
				st.Delete("g")
				mustNotLead(t, e)
			}
			halt(t, e)
		}
	})
}

func TestElectionsOfTwoGroupsDoNotMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, cfg := start(t, st, config("a")), config("b")
		cfg.Group = "other"
		b := start(t, st, cfg)
		mustLead(t, a)
		mustLead(t, b)
	})
}

// The configuration is a value: later changes of the caller's map do not affect
// it.
func TestNewElectionCopiesMeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.Meta, cfg.ConnectionParams = map[string]string{"zone": "eu"}, []byte("x")
		a := candidate(t, st, cfg)
		cfg.Meta["zone"], cfg.ConnectionParams[0] = "us", 'y'
		started(t, a)
		synctest.Wait()
		if _, r := stored(t, st); r.Meta["zone"] != "eu" || r.Params == nil || string(*r.Params) != "x" {
			t.Fatalf("%v %v", r.Meta, r.Params)
		}
	})
}

// A mailbox is a store whose writes nobody waits for.
type mailbox struct {
	*memstore.Store
	begin    func(w store.Write, done func(uint64, error))
	waited   atomic.Int32 // writes that somebody waited for
	canceled atomic.Int32
}

func (m *mailbox) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	m.waited.Add(1)
	return m.Store.CompareAndSwap(ctx, w)
}

func (m *mailbox) CompareAndSwapAsync(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	go func() {
		<-ctx.Done()
		done(0, errors.Join(store.ErrUnknown, ctx.Err())) // again, perhaps
	}()
	if m.begin != nil {
		m.begin(w, done)
	}
	return canceling(func() { m.canceled.Add(1); cancel() })
}

type canceling func()

func (c canceling) Cancel() { c() }

// deliver writes, and answers as the server's answer would.
func (m *mailbox) deliver(w store.Write, done func(uint64, error)) {
	rev, err := m.Store.CompareAndSwap(context.Background(), w)
	go done(rev, err)
}

// An election writes without waiting where it can, and a store that answers
// twice harms nobody.
func TestAsyncWritesAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &mailbox{Store: memstore.New()}
		st.begin = st.deliver
		cfg := config("a")
		a := start(t, st, cfg)
		time.Sleep(3 * ttl)
		if !a.IsLeader() {
			t.Fatal(status(a))
		}
		halt(t, a)
		if n := st.waited.Load(); n > 0 {
			t.Errorf("%d writes were waited for", n)
		}
		cfg.InstanceID = "b"
		b := start(t, st, cfg)
		time.Sleep(ttl / 2)
		if !b.IsLeader() {
			t.Errorf("the record was not released: %s", status(b))
		}
		halt(t, b)
		time.Sleep(time.Hour) // for the second answers
	})
}

// A write without an answer ends with the election, and leaves nothing behind.
func TestUnansweredAsyncWritesEndWithTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &mailbox{Store: memstore.New()}
		cfg := config("a")
		cfg.ConnectionTimeout = ttl
		var calls []leader.Call
		cfg.Hooks.Call = func(c leader.Call) { calls = append(calls, c) }
		a := start(t, st, cfg)
		time.Sleep(ttl / 10)
		halt(t, a)
		last := calls[len(calls)-1]
		if st.canceled.Load() != 1 || !errors.Is(last.Err, context.Canceled) || last.Outcome != store.Unknown {
			t.Errorf("%d canceled; the last call: %+v", st.canceled.Load(), last)
		}
	})
}

// The specified interface, as programs that were written to it use it.
type specified interface {
	Start(ctx context.Context) error
	Stop() error
	StopWithContext(ctx context.Context, opts leader.StopOptions) error
	IsLeader() bool
	LeaderID() string
	Token() string
	Status() leader.ElectionStatus
	OnPromote(f func(ctx context.Context, token string))
	OnDemote(f func())
}

func TestSpecifiedInterfaceIsImplemented(t *testing.T) {
	type create func(*nats.Conn, leader.ElectionConfig) (leader.Election, error)
	e, err := create(leader.NewElection)(new(nats.Conn), leader.ElectionConfig{
		Bucket: "leaders", Group: "g", InstanceID: "a", TTL: 5 * time.Second, HeartbeatInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	var s specified = e
	if s.IsLeader() || s.LeaderID() != "" || s.Token() != "" {
		t.Errorf("before its start: %+v", s.Status())
	}
}
