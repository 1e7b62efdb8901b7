// Package stalewriter stalls a leader past its lease and lets it write on,
// against the guard of a resource.
package stalewriter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Resource is what a guard protects.
type Resource struct {
	// Open returns the guarded write of a term. Each call of write leaves one
	// more entry in the log.
	Open func(ctx context.Context, t leader.Term) (write func(ctx context.Context) error, err error)
	// Log returns the number of the term of each entry, in the resource's own
	// order.
	Log func(t *testing.T) []uint64
}

// The numbers of writes. Tries counts those that the stale writer begins after
// its successor's first one was acknowledged.
const (
	Before = 20
	Tries  = 1000
	After  = 200
)

// Try runs two candidates on a NATS server. The first leads, writes, and is cut
// off from the election, of which it learns nothing and which it would ignore,
// while its way to the resource stays open: it writes on and on. The second
// takes over and writes, too. From its first write on, none of the first one's
// is accepted.
func Try(t *testing.T, srv *natslab.Server, r Resource) {
	t.Helper()
	proxy := natslab.NewRelay(t, srv.Addr())
	a := join(t, proxy.URL(), "stalled")
	first := a.leads(t)
	b := join(t, srv.URL(), "successor")

	old := r.open(t, first)
	for range Before {
		if err := old(t.Context()); err != nil {
			t.Fatalf("the leader's write: %v", err)
		}
	}
	w := &writer{write: old, ctx: t.Context(), enough: make(chan struct{})}
	var done sync.WaitGroup
	defer done.Wait()
	defer w.stop.Store(true)
	done.Go(func() { w.run(t) })

	proxy.Hold(natslab.ToServer, natslab.ToClient)
	second := b.leads(t)
	if a.IsLeader() || !second.Supersedes(first) {
		t.Fatalf("term %v after %v, which leads: %v", second, first, a.IsLeader())
	}
	fresh := r.open(t, second)
	if err := fresh(t.Context()); err != nil {
		t.Fatalf("the successor's first write: %v", err)
	}
	w.succeeded.Store(true)
	for range After - 1 {
		if err := fresh(t.Context()); err != nil {
			t.Fatalf("the successor's write: %v", err)
		}
	}
	select {
	case <-w.enough:
	case <-time.After(5 * natslab.Patience):
	}
	if n := w.tries.Load(); n < Tries {
		t.Fatalf("the stale writer tried %d times", n)
	}
	w.stop.Store(true)
	done.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), natslab.Patience)
	defer cancel()
	if write, err := r.Open(ctx, first); err == nil {
		err = write(ctx)
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("the stale writer came in by opening again: %v", err)
		}
	} else if !errors.Is(err, fence.ErrStale) {
		t.Errorf("opening again: %v", err)
	}
	r.check(t, first.Number, second.Number, Before+w.unseen)
	t.Logf("%d writes of the stalled leader before its successor's first, then %d tried, %d accepted; %d of the successor's accepted",
		Before+w.unseen, w.tries.Load(), w.accepted, After)
}

// check compares the log with what was acknowledged.
func (r Resource) check(t *testing.T, first, second uint64, acknowledged int) {
	t.Helper()
	count := map[uint64]int{}
	for i, n := range r.Log(t) {
		count[n]++
		if n == first && count[second] > 0 {
			t.Errorf("entry %d is the stale writer's, after %d of its successor", i, count[second])
		}
	}
	if count[first] != acknowledged || count[second] != After || len(count) != 2 {
		t.Errorf("entries by term: %v; acknowledged were %d of %d and %d of %d", count, acknowledged, first, After, second)
	}
}

// open gives each call a deadline: a guard that is given none ends a call after
// seconds, which a replicated write takes on a machine that is busy enough.
func (r Resource) open(t *testing.T, term leader.Term) func(context.Context) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), natslab.Patience)
	defer cancel()
	write, err := r.Open(ctx, term)
	if err != nil {
		t.Fatalf("opening in term %v: %v", term, err)
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, natslab.Patience)
		defer cancel()
		return write(ctx)
	}
}

// A writer writes without a look at its lease.
type writer struct {
	write     func(context.Context) error
	ctx       context.Context //nolint:containedctx // it ignores the context of its term
	stop      atomic.Bool
	succeeded atomic.Bool // its successor's first write was acknowledged
	tries     atomic.Int64
	enough    chan struct{} // closed when it has tried often enough, or gave up

	// Writes accepted before and after that, in the writer's eyes. They are
	// read when it has stopped.
	unseen, accepted int
}

func (w *writer) run(t *testing.T) {
	enough := sync.OnceFunc(func() { close(w.enough) })
	defer enough()
	for !w.stop.Load() {
		late := w.succeeded.Load()
		err := w.write(w.ctx)
		switch {
		case err != nil && !errors.Is(err, fence.ErrStale):
			t.Errorf("the stale writer's write: %v", err)
			return
		case err == nil && late:
			w.accepted++
			t.Errorf("accepted: a write started after the successor's first one was acknowledged")
			return
		case err == nil:
			w.unseen++
		}
		if late && w.tries.Add(1) == Tries {
			enough()
		}
	}
}

// Promoted has a candidate lead, alone, and returns the context of its term.
func Promoted(t *testing.T, url, id string) context.Context {
	t.Helper()
	return join(t, url, id).await(t)
}

// A candidate is one of the two.
type candidate struct {
	leader.Election
	promoted chan context.Context
}

func join(t *testing.T, url, id string) *candidate {
	t.Helper()
	e, err := leader.NewElection(natslab.Connect(t, url), leader.ElectionConfig{
		Bucket: "leaders", BucketAutoCreate: true, Group: "ledger", InstanceID: id,
		TTL: 3 * time.Second, HeartbeatInterval: 300 * time.Millisecond,
		AcquireGrace: leader.GraceOff, // the bucket is the test's own, and there was none before
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{e, make(chan context.Context, 8)}
	e.OnPromote(func(ctx context.Context, _ string) { c.promoted <- ctx })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.StopWithContext(context.WithoutCancel(t.Context()), leader.StopOptions{Timeout: natslab.Patience}); err != nil {
			t.Errorf("stopping %s: %v", id, err)
		}
	})
	return c
}

func (c *candidate) await(t *testing.T) context.Context {
	t.Helper()
	select {
	case ctx := <-c.promoted:
		return ctx
	case <-time.After(natslab.Patience):
		t.Fatal("never promoted")
		return nil
	}
}

func (c *candidate) leads(t *testing.T) leader.Term {
	t.Helper()
	term, ok := leader.TermFromContext(c.await(t))
	if !ok {
		t.Fatal("promoted without a term")
	}
	return term
}
