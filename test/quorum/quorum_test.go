package quorum_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// hands explains why a claim on what an operator does to a key is not examined.
const hands = "an operator's tools reach the members and not the quorum"

func TestConformance(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		bucket := b.bucket(tb)
		open := func(tb testing.TB) store.Store { return b.open(tb, bucket) }
		if strings.HasSuffix(tb.Name(), "/CounterLosesNoIncrement") || strings.HasSuffix(tb.Name(), "/WatchShowsWhatTheWritersWrote") {
			// The claims do not accept an unknown outcome, which processes that
			// compete without a pause may get. Here they are in one process.
			s := open(tb)
			open = func(testing.TB) store.Store { return s }
		}
		return storetest.Harness{
			Open: open,
			Interrupt: func() error {
				for _, srv := range b.servers {
					srv.DropClients()
				}
				return nil
			},
		}
	}, storetest.Caps{NoDelete: hands, NoPut: hands, NoPurge: hands, NoVisible: hands, Patience: natslab.Patience})
}

func TestHistoriesHaveAnOrder(t *testing.T) {
	t.Parallel()
	sides := map[string]func(t *testing.T) []store.Store{
		"memory":               func(t *testing.T) []store.Store { return inMemory(t, 3) },
		"memory, five members": func(t *testing.T) []store.Store { return inMemory(t, 5) },
		"servers": func(t *testing.T) (all []store.Store) {
			b := newBed(t)
			bucket := b.bucket(t)
			for range 4 {
				all = append(all, b.open(t, bucket))
			}
			return all
		},
	}
	for name, stores := range sides {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tally, err := histories.Trial{Patience: natslab.Patience, Writes: 400}.WithoutFaults(t.Context(), *trials, stores(t))
			t.Log(tally)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// inMemory returns four processes' stores over n members in memory.
func inMemory(t *testing.T, n int) (all []store.Store) {
	var members []quorumstore.Member
	for i := range n {
		members = append(members, quorumstore.Member{Name: "abcde"[i : i+1], Store: memstore.New()})
	}
	for range 4 {
		s, err := quorumstore.New(members, quorumstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		all = append(all, s)
	}
	return all
}

// TestLeaderOutlivesMembersThatAreKilled kills one member's process after the
// other without a warning (SIGKILL), and returns each.
func TestLeaderOutlivesMembersThatAreKilled(t *testing.T) {
	t.Parallel()
	members := newMembers(t)
	g := newGroup(t)
	for i := range 3 {
		g.join(openAt(t, members[0].bucket, urls(members)), fmt.Sprint("c", i), *lease, min(*lease/4, 100*time.Millisecond))
	}
	l := g.leader()
	stalls := keepTime(t)
	for i := range *kills {
		m := i % 3
		members[m].Kill()
		g.renews(l, 3)
		members[m].Run()
		rejoined(t, l, m) // otherwise the next kill may leave one member
		if lost := l.losses(); len(lost) > 0 {
			t.Fatalf("at kill %d, at %s, the leader lost its term: %v\n%s\nthis process stood still: %v", i+1, time.Now().Format("05.000"), lost, strings.Join(l.slow, "\n"), stalls())
		}
	}
	t.Logf("%d members killed, no term lost", *kills)
}

func TestTwoOfFiveMembersMayBeDown(t *testing.T) {
	t.Parallel()
	b := newBedOf(t, 5)
	bucket := b.bucket(t)
	g := newGroup(t)
	for i := range 3 {
		g.join(b.open(t, bucket), fmt.Sprint("c", i), 2*time.Minute, 100*time.Millisecond)
	}
	l := g.leader()
	for _, down := range [][2]int{{0, 1}, {2, 3}, {4, 0}} {
		for _, i := range down {
			b.servers[i].Stop()
		}
		g.renews(l, 3)
		if lost := l.losses(); len(lost) > 0 {
			t.Fatalf("without the members %v the leader lost its term: %v", down, lost)
		}
		for _, i := range down {
			b.servers[i].Run()
			rejoined(t, l, i)
		}
	}
	b.servers[1].Stop()
	b.servers[2].Stop()
	if err := l.Resign(natslab.Within(t)); err != nil {
		t.Fatal(err)
	}
	g.await("another leads without two members", func() bool {
		return slices.ContainsFunc(g.all, func(c *candidate) bool { return c != l && c.IsLeader() })
	})
}

func TestLeaderHandsOver(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	bucket := b.bucket(t)
	g := newGroup(t)
	for i := range 2 {
		g.join(b.open(t, bucket), fmt.Sprint("c", i), 2*time.Minute, 100*time.Millisecond)
	}
	for _, stopped := range []int{-1, 0, 1, 2} { // the servers' numbers
		if stopped >= 0 {
			b.servers[stopped].Stop()
		}
		l := g.leader()
		if err := l.Resign(natslab.Within(t)); err != nil && !errors.Is(err, leader.ErrNotLeader) {
			t.Fatal(err)
		}
		g.await("the other leads", func() bool {
			for _, c := range g.all {
				if c != l && c.IsLeader() {
					return true
				}
			}
			return false
		})
		if stopped >= 0 {
			b.servers[stopped].Run()
			next := g.leader()
			before := next.count("renew ok")
			g.await("renewals", func() bool { return next.count("renew ok") > before })
		}
	}
}

func TestNoLeaderWithoutAMajority(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	bucket := b.bucket(t)
	g := newGroup(t)
	for i := range 3 {
		g.join(b.open(t, bucket), fmt.Sprint("c", i), time.Second, 250*time.Millisecond)
	}
	g.leader()
	b.servers[0].Stop()
	b.servers[1].Stop()
	none := func() bool {
		for _, c := range g.all {
			if c.IsLeader() {
				return false
			}
		}
		return true
	}
	g.await("the leader stops", none)
	terms := func() (n int) {
		for _, c := range g.all {
			c.mu.Lock()
			n += c.terms
			c.mu.Unlock()
		}
		return n
	}
	failed := func() (n int) {
		for _, c := range g.all {
			n += c.count("acquire transient") + c.count("acquire unknown")
		}
		return n
	}
	before, claims := terms(), failed()
	g.await("claims that fail", func() bool { return failed() >= claims+4 })
	if !none() || terms() != before {
		t.Error("a candidate was promoted while one of three members was there")
	}
	b.servers[1].Run()
	g.leader()
}

// TestWipedMemberLosesNoWrite wipes one member after the other, and returns it
// empty, while two processes write in turn. Another process that knows nothing
// then finds the last acknowledged write, also without any other member.
func TestWipedMemberLosesNoWrite(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	bucket := b.bucket(t)
	s, other, rev := b.open(t, bucket), b.open(t, bucket), uint64(0)
	write := func(value string) {
		t.Helper()
		s, other = other, s
		natslab.Eventually(t, "a write", func(ctx context.Context) error {
			next, err := s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: rev, Value: []byte(value)})
			if store.Classify(err) == store.Unknown || store.Classify(err) == store.Conflict {
				// An attempt of unknown outcome may have been applied.
				if e, err := s.Get(ctx, "k"); err == nil && string(e.Value) == value {
					rev = e.Revision
					return nil
				}
			}
			if err == nil {
				rev = next
			}
			return err
		})
	}
	write("first")
	for i := range *wipes {
		w := i % 3
		b.servers[w].Stop()
		b.servers[w].Wipe()
		b.servers[w].Run()
		ensure(t, b.servers[w].Connect(t), bucket)
		natslab.Eventually(t, "the member is healed", func(ctx context.Context) error {
			write(fmt.Sprint("after wipe ", i, " ", rev))
			states, err := s.Inspect(ctx, "k")
			if err == nil && !states[w].Memory {
				err = fmt.Errorf("%+v", states[w])
			}
			return err
		})
		e, err := s.Get(natslab.Within(t), "k")
		if err != nil {
			t.Fatal(err)
		}
		away := (w + 1 + i%2) % 3
		b.servers[away].Stop()
		fresh := b.open(t, bucket)
		natslab.Eventually(t, "a read without another member", func(ctx context.Context) error {
			got, err := fresh.Get(ctx, "k")
			if err == nil && (got.Revision < e.Revision || got.Revision == e.Revision && !bytes.Equal(got.Value, e.Value)) {
				t.Fatalf("wipe %d: a read shows %q at %d, and %q at %d was acknowledged", i, got.Value, got.Revision, e.Value, e.Revision)
			}
			return err
		})
		_ = fresh.Close()
		b.servers[away].Run()
	}
	t.Logf("%d members wiped, no acknowledged write lost", *wipes)
}
