package elections_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
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
const herd = 60

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
func TestThousandElectionsOnOneConnectionCostAGoroutineEach(t *testing.T) {
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
		// The goroutines that the connection itself needs, in the client and in
		// the server of this process.
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

// A thousand elections by NewElection, in a bucket that does not republish.
// Each had a store, and each store two consumers; when heartbeats were late,
// because the processor was, the consumers were given up and the load of making
// them again cost terms by the hundred. The test runs alone, since it keeps
// every processor busy.
func TestThousandElectionsKeepTheirTermsInABucketThatDoesNotRepublish(t *testing.T) {
	const n, renewals = 1000, 3
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	natslab.KV(t, nc, jetstream.KeyValueConfig{Bucket: "b"})
	var demoted, renewed atomic.Int64
	es := make([]leader.Election, n)
	for i := range es {
		var err error
		es[i], err = leader.NewElection(nc, leader.ElectionConfig{
			Bucket: "b", Group: fmt.Sprintf("g%d", i), InstanceID: "i", AcquireGrace: leader.GraceOff,
			TTL: long, HeartbeatInterval: time.Second,
			Hooks: leader.Hooks{Call: func(c leader.Call) {
				if c.Kind == "renew" && c.Outcome == store.OK {
					renewed.Add(1)
				}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		es[i].OnDemote(func() { demoted.Add(1) })
	}
	var all sync.WaitGroup
	for _, e := range es {
		all.Go(func() {
			if err := e.Start(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	t.Cleanup(func() { stopThem(t, es) })
	awaitAll(t, es, leader.Election.IsLeader)
	defer load()()
	before, asked := renewed.Load(), requests(t, srv)
	until := before + renewals*n
	for last := before; last < until; { // for as long as they go on
		natslab.Eventually(t, "further renewals", func(context.Context) error {
			got := renewed.Load()
			if got <= last {
				return fmt.Errorf("%d of %d", got, until)
			}
			last = got
			return nil
		})
	}
	// Nothing except the renewals should be sent. It was four times as much,
	// caused by consumers that were recreated for ever. Without that it is
	// somewhat more on a busy machine: 2.1 and 2.5 times as much were seen at
	// loads of 32 and 45, with no term lost.
	if asked, renewed := requests(t, srv)-asked, renewed.Load()-before; asked > 3*renewed {
		t.Errorf("%d messages to the server for %d renewals", asked, renewed)
	}
	if lost := demoted.Load(); lost != 0 {
		t.Errorf("%d terms were lost", lost)
	}
	// The server removes those that nobody listens to after some seconds.
	natslab.Eventually(t, "few consumers", func(context.Context) error {
		if c := srv.Consumers("KV_b"); c == 0 || c > 10 {
			return fmt.Errorf("%d consumers", c)
		}
		return nil
	})
}

// requests is how many messages the server has received from clients.
func requests(tb testing.TB, srv *natslab.Server) int64 {
	tb.Helper()
	v, err := srv.Inner().Varz(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return v.InMsgs
}

// load keeps every processor busy until stop is called. It yields often, so
// that another goroutine waits for some tenths of a millisecond, and not for
// the scheduler's ten.
func load() (stop func()) {
	var done atomic.Bool
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for x := 0; !done.Load(); runtime.Gosched() {
				for i := range 1 << 16 {
					x ^= i
				}
				runtime.KeepAlive(x)
			}
		})
	}
	return func() {
		done.Store(true)
		all.Wait()
	}
}
