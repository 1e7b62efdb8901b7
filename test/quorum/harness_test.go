// Package quorum_test runs quorums of real NATS servers without a cluster:
// conformance, histories, and elections while members are killed, wiped, cut
// off and delayed.
//
// The counts are small by default. make quorum repeats the faults with leases of
// a second, on a machine that does nothing else, and prints measured times.
package quorum_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	kills     = flag.Int("kills", 3, "how often a member is killed while one leads")
	wipes     = flag.Int("wipes", 3, "how often a member is wiped")
	lease     = flag.Duration("ttl", 2*time.Minute, "the lease while one member fails; with the default nothing expires while a test waits")
	trials    = flag.Int("histories", 4, "how many histories are judged")
	crowdSize = flag.Int("crowd", 200, "how many candidates start at once")
	figures   = flag.Bool("figures", false, "measure")
)

func TestMain(m *testing.M) {
	if natslab.Serving() {
		os.Exit(0)
	}
	leaks.Main(m)
}

// A bed is servers that know nothing of each other.
type bed struct {
	tb      testing.TB
	servers []*natslab.Server
}

var buckets atomic.Int64

// newBed starts three servers.
func newBed(tb testing.TB) *bed {
	tb.Helper()
	return newBedOf(tb, 3)
}

func newBedOf(tb testing.TB, n int) *bed {
	tb.Helper()
	b := &bed{tb: tb}
	for range n {
		b.servers = append(b.servers, natslab.Start(tb))
	}
	return b
}

// bucket makes a bucket in each server.
func (b *bed) bucket(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprint("q", buckets.Add(1))
	for _, srv := range b.servers {
		ensure(tb, srv.Connect(tb), name)
	}
	return name
}

func ensure(tb testing.TB, nc *nats.Conn, bucket string) {
	tb.Helper()
	js := natslab.JetStream(tb, nc)
	natslab.Eventually(tb, "bucket "+bucket+" made", func(ctx context.Context) error {
		return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: bucket})
	})
}

// open returns a process's store, with a separate connection to each server.
func (b *bed) open(tb testing.TB, bucket string) *quorumstore.Store {
	tb.Helper()
	var urls []string
	for _, srv := range b.servers {
		urls = append(urls, srv.URL())
	}
	return openAt(tb, bucket, urls)
}

func openAt(tb testing.TB, bucket string, urls []string, opts ...nats.Option) *quorumstore.Store {
	tb.Helper()
	var members []quorumstore.Member
	for i, url := range urls {
		nc := natslab.Connect(tb, url, append(opts, nats.RetryOnFailedConnect(true))...)
		st, err := natsstore.New(nc, bucket, natsstore.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(st.Close)
		members = append(members, quorumstore.Member{Name: "abcde"[i : i+1], Store: st})
	}
	s, err := quorumstore.New(members, quorumstore.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// keepTime notes when this process did not run for a tenth of a second, which
// explains a lost lease of a second.
func keepTime(tb testing.TB) (stalls func() []string) {
	var mu sync.Mutex
	var seen []string
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if gap := time.Since(last); gap > 100*time.Millisecond {
				mu.Lock()
				seen = append(seen, fmt.Sprintf("%s for %v", time.Now().Format("05.000"), gap))
				mu.Unlock()
			}
		}
	})
	tb.Cleanup(func() { cancel(); all.Wait() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// A group is the candidates of one election.
type group struct {
	tb      testing.TB
	moved   chan struct{}
	lookout *lookout.Lookout
	all     []*candidate
}

// A candidate counts its calls by kind and outcome, and its terms.
type candidate struct {
	leader.Election
	id string
	st *quorumstore.Store // nil where the store is another

	mu    sync.Mutex
	calls map[string]int
	terms int
	lost  []leader.Reason
	slow  []string // calls that failed or took long, for people
}

func newGroup(tb testing.TB) *group {
	tb.Helper()
	g := &group{tb: tb, moved: make(chan struct{}, 1), lookout: lookout.Keep(tb)}
	tb.Cleanup(func() {
		var all sync.WaitGroup
		for _, c := range g.all {
			all.Go(func() {
				_ = c.StopWithContext(context.WithoutCancel(tb.Context()), leader.StopOptions{WaitForDemote: true})
			})
		}
		all.Wait()
	})
	return g
}

// join starts a candidate over a store of its own.
func (g *group) join(st store.Store, id string, ttl, heartbeat time.Duration) *candidate {
	g.tb.Helper()
	c := g.candidate(st, id, ttl, heartbeat)
	if err := c.Start(context.Background()); err != nil {
		g.tb.Fatalf("starting %s: %v", id, err)
	}
	return c
}

// candidate adds a candidate that has not started.
func (g *group) candidate(st store.Store, id string, ttl, heartbeat time.Duration) *candidate {
	g.tb.Helper()
	c := &candidate{id: id, calls: map[string]int{}}
	c.st, _ = st.(*quorumstore.Store)
	stir := func() {
		select {
		case g.moved <- struct{}{}:
		default:
		}
	}
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "g", InstanceID: id, TTL: ttl, HeartbeatInterval: heartbeat, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
		Hooks: leader.Hooks{
			Transition: func(t leader.Transition) {
				c.mu.Lock()
				if t.To == leader.StateLeader {
					c.terms++
				}
				if t.From == leader.StateLeader {
					c.lost = append(c.lost, t.Reason)
				}
				c.mu.Unlock()
				g.lookout.Look()
				stir()
			},
			Call: func(call leader.Call) {
				c.mu.Lock()
				c.calls[call.Kind+" "+call.Outcome.String()]++
				if call.Err != nil || call.Took > 100*time.Millisecond {
					c.slow = append(c.slow, fmt.Sprintf("%s %s in %v: %v", time.Now().Format("05.000"), call.Kind, call.Took, call.Err))
				}
				c.mu.Unlock()
				stir()
			},
		},
	})
	if err != nil {
		g.tb.Fatal(err)
	}
	c.Election = e
	g.lookout.Add(id, e)
	g.all = append(g.all, c)
	return c
}

func (c *candidate) count(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

// losses returns why terms ended.
func (c *candidate) losses() []leader.Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]leader.Reason(nil), c.lost...)
}

func (g *group) await(what string, cond func() bool) {
	g.tb.Helper()
	natslab.Await(natslab.Within(g.tb), g.tb, what, g.moved, cond, func() string {
		text := ""
		for _, c := range g.all {
			s := c.Status()
			c.mu.Lock()
			text += fmt.Sprintf("%s: %s (%s), leader %q, calls %v, terms lost by %v\n", c.id, s.State, s.Reason, s.LeaderID, c.calls, c.lost)
			c.mu.Unlock()
		}
		return text
	})
}

// leader waits until a candidate leads.
func (g *group) leader() (l *candidate) {
	g.tb.Helper()
	g.await("a leader", func() bool {
		for _, c := range g.all {
			if c.IsLeader() {
				l = c
				return true
			}
		}
		return false
	})
	return l
}
