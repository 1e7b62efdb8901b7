package election_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// acquisitions is how many claims were sent and answered so far, by everybody.
func (g *group) acquisitions() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		n += m.count("acquire")
	}
	return n
}

// followers waits until everybody but the leader follows it.
func (g *group) followers(l *member) {
	g.tb.Helper()
	g.await("everybody follows "+l.id, func() bool {
		for _, m := range g.members {
			if s := m.Status(); m != l && (s.State != leader.StateFollower || s.LeaderID != l.id) {
				return false
			}
		}
		return true
	})
}

// herd bounds the claims that a release among 200 candidates may cost.
const herd = 40

// It runs alone: what others take of the processors would cost claims.
func TestReleaseAmong200CandidatesCausesNoHerd(t *testing.T) {
	const n, conns = 200, 20
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "b"})
	var clients []*nats.Conn
	for range conns {
		clients = append(clients, srv.Connect(t))
	}
	g := newGroup(t, "b")
	for i := range n {
		g.candidate(clients[i%conns], fmt.Sprintf("c%03d", i))
	}
	var all sync.WaitGroup
	for _, m := range g.members {
		all.Go(m.start)
	}
	all.Wait()
	l := g.leader()
	g.followers(l)
	t.Logf("claims at the start of all: %d", g.acquisitions())
	var claims []int
	for range 11 {
		before := g.acquisitions()
		l.resign()
		l = g.leaderAfter(l)
		g.followers(l)
		claims = append(claims, g.acquisitions()-before)
	}
	t.Logf("claims at each release: %v", claims)
	// Where the machine stalls for longer than candidates wait, a release may
	// cost more; make bench has the figures of a machine at rest.
	slices.Sort(claims)
	if median := claims[len(claims)/2]; median > herd {
		t.Errorf("half of the releases cost %d claims or more, above %d: %v", median, herd, claims)
	}
}

// A process may take part in a thousand elections over one connection: little
// memory, few goroutines, and nothing that the server keeps. The test runs
// alone, since it measures the process.
func TestThousandElectionsOnOneConnection(t *testing.T) {
	const n = 1000
	const goroutinesEach, heapEach = 1, 16 << 10
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "b"})
	make1000 := func(id string) []leader.Election {
		t.Helper()
		nc := srv.Connect(t)
		es := make([]leader.Election, n)
		for i := range es {
			var err error
			if es[i], err = leader.NewElection(nc, leader.ElectionConfig{
				Bucket: "b", Group: fmt.Sprintf("g%04d", i), InstanceID: id, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
				// The renewals would only disturb the count.
				TTL: 10 * long, HeartbeatInterval: 3 * long,
			}); err != nil {
				t.Fatal(err)
			}
		}
		return es
	}
	measure := func(id string, settled func(leader.Election) bool) {
		t.Helper()
		before := usage()
		es := make1000(id)
		begun := time.Now()
		var all sync.WaitGroup
		for _, e := range es {
			all.Go(func() {
				// Its end would be the election's.
				if err := e.Start(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		t.Logf("%s: started after %v", id, time.Since(begun))
		awaitAll(t, es, settled)
		t.Logf("%s: settled after %v", id, time.Since(begun))
		t.Cleanup(func() { stopThem(t, es) })
		// What the connection itself needs, in the client and in the server of
		// this process.
		const besides = 50
		var used consumption
		natslab.Eventually(t, id+": few goroutines once all that was under way has ended", func(context.Context) error {
			if used = usage().sub(before); used.goroutines > goroutinesEach*n+besides {
				return fmt.Errorf("%d for %d elections", used.goroutines, n)
			}
			return nil
		})
		t.Logf("%s: %.2f goroutines and %d bytes of heap per election", id, float64(used.goroutines)/n, used.heap/n)
		if used.heap > 4*heapEach*n { // loosely: the race detector and the server are in it
			t.Errorf("%s: %d bytes for %d elections", id, used.heap, n)
		}
		runtime.KeepAlive(es)
	}
	measure("leader", func(e leader.Election) bool { return e.IsLeader() })
	measure("follower", func(e leader.Election) bool { return e.LeaderID() == "leader" })
	if c := srv.Consumers("KV_b"); c != 0 {
		t.Errorf("%d consumers on the server", c)
	}
}

// awaitAll waits until all elections have settled, for as long as one after the
// other does: how long that takes in all is the machine's affair.
func awaitAll(t *testing.T, es []leader.Election, settled func(leader.Election) bool) {
	t.Helper()
	for done := 0; done < len(es); {
		natslab.Eventually(t, fmt.Sprintf("more than %d of %d settled", done, len(es)), func(context.Context) error {
			n, last := 0, leader.ElectionStatus{}
			for _, e := range es {
				if settled(e) {
					n++
				} else {
					last = e.Status()
				}
			}
			if n <= done {
				return fmt.Errorf("one that has not: %+v", last)
			}
			done = n
			return nil
		})
	}
}

func stopThem(t *testing.T, es []leader.Election) {
	begun := time.Now()
	var all sync.WaitGroup
	for _, e := range es {
		all.Go(func() {
			if err := e.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	t.Logf("stopped in %v", time.Since(begun))
}

type consumption struct {
	goroutines int
	heap       int64
}

func usage() consumption {
	runtime.GC()
	runtime.GC() // what finalizers and pools released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return consumption{runtime.NumGoroutine(), int64(m.HeapAlloc)}
}

func (c consumption) sub(b consumption) consumption {
	return consumption{c.goroutines - b.goroutines, c.heap - b.heap}
}
