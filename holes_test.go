package leader_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
)

// These tests show what no election can give, as docs/protocol.md says under
// Limits. They pass because the hole is there, and because a fenced resource
// closes it.

// A ledger is a protected resource that fences: it refuses a term that does not
// supersede all it has seen.
type ledger struct {
	mu                sync.Mutex
	last              leader.Term
	fenced, unguarded []uint64 // terms whose writes were accepted with the rule, and without it
}

func (l *ledger) write(t leader.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unguarded = append(l.unguarded, t.Number)
	if t.Supersedes(l.last) {
		l.last = t
		l.fenced = append(l.fenced, t.Number)
	}
}

// stale reports whether a term's write was accepted after that of a later term.
func stale(terms []uint64) bool {
	for i := 1; i < len(terms); i++ {
		if terms[i] < terms[i-1] {
			return true
		}
	}
	return false
}

func (l *ledger) judge(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !stale(l.unguarded) {
		t.Errorf("the hole was not there: writes of terms %v", l.unguarded)
	}
	if stale(l.fenced) {
		t.Errorf("the fenced resource accepted a stale write: %v", l.fenced)
	}
}

// candidates are a leader a, which is about to lose its connection, and b,
// which will succeed it.
func candidates(t *testing.T, grace leader.AcquireGrace) (net *faultstore.Faults, a, b leader.Election) {
	net = faultstore.New(faultstore.Options{})
	begin := func(id string) leader.Election {
		cfg := config(id)
		cfg.AcquireGrace, cfg.DemoteTimeout = grace, time.Second
		e, err := leader.NewElectionWithStore(net.Client(id), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	a, b = begin("a"), begin("b")
	t.Cleanup(net.Close)
	return net, a, b
}

func startOne(t *testing.T, e leader.Election) {
	t.Helper()
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func stopAll(t *testing.T, es ...leader.Election) {
	for _, e := range es {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestHolePauseBetweenIsLeaderAndUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, a, b := candidates(t, leader.GraceOff)
		startOne(t, a)
		startOne(t, b)
		var l ledger
		term := a.Term()
		if !a.IsLeader() {
			t.Fatal("a does not lead")
		}
		// Here the scheduler, the garbage collector or a page fault takes the
		// thread for a while.
		net.BlackHole("a")
		time.Sleep(10 * time.Second)
		l.write(b.Term())
		l.write(term) // what a had decided to do
		l.judge(t)
		stopAll(t, a, b)
	})
}

func TestHoleWriteInFlightAfterDemotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := candidates(t, leader.GraceOff)
		startOne(t, a)
		startOne(t, b)
		var l ledger
		arrived := make(chan struct{})
		term := a.Term()
		time.AfterFunc(5*time.Second, func() { // sent now, by a leader in its full right
			l.write(term)
			close(arrived)
		})
		stopAll(t, a) // and even a graceful hand-over does not call it back
		mustLead(t, b, a)
		l.write(b.Term())
		<-arrived
		l.judge(t)
		stopAll(t, b)
	})
}

func TestHoleWorkThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := candidates(t, leader.GraceOff)
		var l ledger
		over := make(chan struct{})
		a.OnPromote(func(ctx context.Context, _ string) {
			term, _ := leader.TermFromContext(ctx)
			time.Sleep(10 * time.Second) // not a look at ctx
			l.write(term)
			close(over)
		})
		startOne(t, a)
		startOne(t, b)
		if err := a.Stop(); err == nil {
			t.Error("Stop does not tell that the work went on")
		}
		mustLead(t, b, a)
		l.write(b.Term())
		<-over
		l.judge(t)
		stopAll(t, b)
	})
}

// A store that forgets what it acknowledged shows two leaders, unless new
// leaders cool down.
func TestHoleStoreThatForgets(t *testing.T) {
	leaders := func(t *testing.T, grace leader.AcquireGrace) (most int) {
		synctest.Test(t, func(t *testing.T) {
			net, a, b := candidates(t, grace)
			startOne(t, a)
			time.Sleep(5 * time.Second)
			net.Wipe()
			startOne(t, b) // it never saw a's record
			for range 100 {
				time.Sleep(50 * time.Millisecond)
				n := 0
				for _, e := range []leader.Election{a, b} {
					if e.IsLeader() {
						n++
					}
				}
				most = max(most, n)
			}
			stopAll(t, a, b)
		})
		return most
	}
	if n := leaders(t, leader.GraceOff); n != 2 {
		t.Errorf("the hole was not there: at most %d leaders", n)
	}
	if n := leaders(t, leader.GraceOn); n != 1 {
		t.Errorf("with a cool-down, %d leaders at once", n)
	}
}
