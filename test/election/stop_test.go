package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A pair is a leader with a follower, and a callback that waits for a word.
type pair struct {
	*group
	a, b   *member
	kv     jetstream.KeyValue
	demote chan struct{} // closing it lets the leader's OnDemote return
}

func newPair(t *testing.T, tweaks ...tweak) pair {
	t.Helper()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	p := pair{group: newGroup(t, "b"), demote: make(chan struct{})}
	p.a = p.candidate(srv.Connect(t), "a", tweaks...)
	p.a.OnDemote(func() { <-p.demote })
	t.Cleanup(func() {
		select {
		case <-p.demote:
		default:
			close(p.demote)
		}
	})
	p.a.start()
	p.leader()
	p.await("a's work has begun", func() bool { return p.a.told() == "promote" }) // a term that ends before has no OnDemote
	p.b = p.join(srv.Connect(t), "b", tweaks...)
	p.b.follows(p.a)
	kv, err := natslab.JetStream(t, nc).KeyValue(natslab.Within(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	p.kv = kv
	return p
}

// patient lets callbacks take as long as they like.
func patient(c *leader.ElectionConfig) { c.DemoteTimeout = time.Hour }

func TestStopWaitsForDemoteAndReleasesAfterIt(t *testing.T) {
	t.Parallel()
	p := newPair(t, patient)
	stopped := make(chan error, 1)
	go func() {
		stopped <- p.a.StopWithContext(natslab.Within(t), leader.StopOptions{DeleteKey: true, WaitForDemote: true})
	}()
	p.await("OnDemote runs", func() bool { return p.a.told() == "promote demote" })
	if p.a.IsLeader() {
		t.Error("leads while it is being demoted")
	}
	// The work has not stopped: the record must be there still.
	if _, err := p.kv.Get(natslab.Within(t), "g"); err != nil {
		t.Errorf("the record before OnDemote returned: %v", err)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Stop returned before OnDemote: %v", err)
	default:
	}
	close(p.demote)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	p.await("b leads", p.b.IsLeader)
}

func TestStopThatDoesNotWaitReturnsWhileDemoteRuns(t *testing.T) {
	t.Parallel()
	p := newPair(t, patient)
	p.a.stop(leader.StopOptions{DeleteKey: true})
	if p.a.IsLeader() {
		t.Error("leads after Stop")
	}
	if p.b.IsLeader() {
		t.Error("b leads before a's work has stopped")
	}
	close(p.demote)
	p.await("b leads", p.b.IsLeader)
}

func TestStopWithoutDeleteKeyLeavesTheRecordToExpire(t *testing.T) {
	t.Parallel()
	p := newPair(t, ttl(2*time.Second))
	close(p.demote)
	p.a.stop(leader.StopOptions{WaitForDemote: true})
	e, err := p.kv.Get(natslab.Within(t), "g")
	if err != nil {
		t.Fatalf("the record after a stop that leaves it: %v", err)
	}
	p.await("b leads", p.b.IsLeader)
	if p.b.Term().Number <= e.Revision() {
		t.Errorf("term %d, and the record stood at %d", p.b.Term().Number, e.Revision())
	}
	if n := p.a.count("release"); n != 0 {
		t.Errorf("%d releases", n)
	}
}

func TestStopGivesUpAfterItsTimeout(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*member) error{
		"Timeout": func(m *member) error {
			return m.StopWithContext(t.Context(),
				leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: 50 * time.Millisecond})
		},
		"Context": func(m *member) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			return m.StopWithContext(ctx, leader.StopOptions{DeleteKey: true, WaitForDemote: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, patient, ttl(time.Second))
			err := stop(p.a)
			if !errors.Is(err, leader.ErrStopTimeout) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Stop returned %v", err)
			}
			// The record expires, although the callback never returned.
			p.await("b leads", p.b.IsLeader)
			close(p.demote)
		})
	}
}

func TestSecondStopChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	close(p.demote)
	for range 3 {
		if err := p.a.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := p.a.Start(t.Context()); !errors.Is(err, leader.ErrStopped) {
		t.Errorf("Start after Stop: %v", err)
	}
	if s := p.a.Status().State; s != leader.StateStopped {
		t.Errorf("state %s", s)
	}
}

func TestRunReleasesWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc, other := srv.Connect(t), srv.Connect(t)
	g := newGroup(t, "b")
	cfg := g.config("runner", nil)
	cfg.DeleteOnStop = false
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	terms, done := make(chan leader.Term, 1), make(chan error, 1)
	go func() {
		done <- leader.Run(ctx, nc, cfg, func(ctx context.Context, term leader.Term) error {
			terms <- term
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	limit := natslab.Within(t)
	var first leader.Term
	select {
	case first = <-terms:
	case <-limit.Done():
		t.Fatal("Run never led")
	}
	b := g.join(other, "b")
	g.await("b follows", func() bool { return b.LeaderID() == "runner" })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
	g.await("b leads", b.IsLeader)
	if !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}
}

func TestRunReturnsWhatTheWorkReturned(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	boom := errors.New("boom")
	err := leader.Run(natslab.Within(t), nc, newGroup(t, "b").config("a", nil),
		func(context.Context, leader.Term) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("Run returned %v", err)
	}
}
