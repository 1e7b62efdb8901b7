package quorum_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/quorumlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// TestFigures measures what docs/guides/quorum.md quotes. It judges nothing:
// the times are the machine's.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("-figures measures")
	}
	t.Run("Renewal", renewalFigures)
	t.Run("Processor", processorFigures)
	t.Run("Handover", handoverFigures)
	t.Run("Crash", crashFigures)
	t.Run("Crowd", crowdFigures)
	t.Run("Cluster", clusterFigures)
}

func renewalFigures(t *testing.T) {
	b := newBed(t)
	one, err := natsstore.New(natslab.Connect(t, b.servers[0].URL()), b.bucket(t), natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	three := b.open(t, b.bucket(t))
	for _, pause := range []time.Duration{0, 10 * time.Millisecond} {
		t.Logf("renewal, one server, a pause of %v: %s", pause, quorumlab.Spread(quorumlab.Renewals(t, one, 500, pause)))
		t.Logf("renewal, three servers, a pause of %v: %s", pause, quorumlab.Spread(quorumlab.Renewals(t, three, 500, pause)))
	}
	far := openAt(t, b.bucket(t), b.far(t))
	t.Logf("renewal, members at 1, 20 and 80 ms: %s", quorumlab.Spread(quorumlab.Renewals(t, far, 50, 0)))
	b.servers[0].Stop()
	t.Logf("renewal, members at 20 and 80 ms, the nearest down: %s", quorumlab.Spread(quorumlab.Renewals(t, far, 50, 0)))
}

// far returns the URLs of the members at 1, 20 and 80 ms, as round trips.
func (b *bed) far(t *testing.T) (urls []string) {
	for i, trip := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond} {
		r := natslab.NewRelay(t, b.servers[i].Addr())
		r.Delay(trip/2, natslab.ToServer, natslab.ToClient)
		urls = append(urls, r.URL())
	}
	return urls
}

// processorFigures measures the processor time of a renewal, of its servers and
// its client together: all are in this process.
func processorFigures(t *testing.T) {
	const n = 5000
	b := newBed(t)
	used := func(st store.Store) time.Duration {
		before := harness.Processor()
		quorumlab.Renewals(t, st, n, 0)
		return (harness.Processor() - before) / n
	}
	one, err := natsstore.New(natslab.Connect(t, b.servers[0].URL()), b.bucket(t), natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	single, three := used(one), used(b.open(t, b.bucket(t)))
	t.Logf("processor time of a renewal: one server %v, three servers %v (%.1f times)", single, three, float64(three)/float64(single))
}

// clusterFigures does to a replicated bucket what the test of kills does to a
// quorum, with the same lease: it kills one server of a cluster of three after
// the other, and counts the terms that end.
func clusterFigures(t *testing.T) {
	c := natslab.StartProcesses(t, 3, "")
	nc := c.Connect(t)
	name := fmt.Sprint("q", buckets.Add(1))
	js := natslab.JetStream(t, nc)
	natslab.Eventually(t, "a bucket of three replicas", func(ctx context.Context) error {
		return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: name, Replicas: 3})
	})
	g := newGroup(t)
	for i := range 3 {
		st, err := natsstore.New(c.Connect(t), name, natsstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(st.Close)
		g.join(st, fmt.Sprint("c", i), *lease, min(*lease/4, 100*time.Millisecond))
	}
	var without []time.Duration
	lost := func() (n int) {
		for _, c := range g.all {
			n += len(c.losses())
		}
		return n
	}
	for i := range *kills {
		l := g.leader()
		before := lost()
		c.Nodes[i%3].Kill()
		began := time.Now()
		g.renews(l, 3)
		next := g.leader()
		if lost() > before {
			without = append(without, time.Since(began))
		}
		c.Nodes[i%3].Run()
		c.AwaitReady()
		c.StreamLeader(nc, "KV_"+name)
		g.renews(next, 3)
	}
	t.Logf("a bucket of three replicas, lease %v: %d servers killed, %d terms lost", *lease, *kills, lost())
	if len(without) > 0 {
		t.Logf("from such a kill until somebody leads: %s", quorumlab.Spread(without))
	}
}

func handoverFigures(t *testing.T) {
	b := newBed(t)
	between := func(open func() *quorumstore.Store) *quorumlab.Handovers {
		h, g := quorumlab.NewHandovers(), newGroup(t)
		for i := range 2 {
			c := g.candidate(open(), fmt.Sprint("c", i), 2*time.Minute, time.Second)
			h.Add(c)
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return h
	}
	bucket := b.bucket(t)
	h := between(func() *quorumstore.Store { return b.open(t, bucket) })
	measure := func(what string, h *quorumlab.Handovers) {
		var took []time.Duration
		for range 20 {
			took = append(took, h.Measure(t))
		}
		t.Logf("handover, %s: %s", what, quorumlab.Spread(took))
	}
	measure("all members up", h)
	b.servers[2].Stop()
	measure("one member down", h)
	b.servers[2].Run()
	bucket = b.bucket(t)
	far := b.far(t)
	h = between(func() *quorumstore.Store { return openAt(t, bucket, far) })
	measure("members at 1, 20 and 80 ms", h)
	b.servers[0].Stop()
	measure("members at 20 and 80 ms, the nearest down", h)
}

// crashFigures cuts the leader off, on three servers of which one is down, and
// on one server: the difference is what the quorum costs.
func crashFigures(t *testing.T) {
	const ttl = time.Second
	for _, servers := range []int{3, 1} {
		var took []time.Duration
		for range 10 {
			b := newBed(t)
			took = append(took, b.crash(t, b.servers[:servers], ttl))
		}
		t.Logf("the leader is cut off, servers: %d, TTL %v: the other leads after %s", servers, ttl, quorumlab.Spread(took))
	}
}

// crash returns how long nobody leads after the leader was cut off. Of more than
// one server the last is down.
func (b *bed) crash(t *testing.T, servers []*natslab.Server, ttl time.Duration) time.Duration {
	bucket := b.bucket(t)
	var relays []*natslab.Relay
	var near, far []string
	for _, srv := range servers {
		r := natslab.NewRelay(t, srv.Addr())
		relays, near, far = append(relays, r), append(near, srv.URL()), append(far, r.URL())
	}
	over := func(urls []string) store.Store {
		if len(urls) > 1 {
			return openAt(t, bucket, urls)
		}
		st, err := natsstore.New(natslab.Connect(t, urls[0]), bucket, natsstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(st.Close)
		return st
	}
	g := newGroup(t)
	first := g.join(over(far), "first", ttl, ttl/4)
	g.leader()
	other := g.join(over(near), "other", ttl, ttl/4)
	if len(servers) > 1 {
		servers[len(servers)-1].Stop()
	}
	renewed := first.count("renew ok")
	g.await("a renewal", func() bool { return first.count("renew ok") > renewed })
	for _, r := range relays {
		r.Hold(natslab.ToServer, natslab.ToClient)
	}
	began := time.Now()
	g.await("the other leads", other.IsLeader)
	took := time.Since(began)
	for _, r := range relays {
		r.Resume()
	}
	return took
}

func crowdFigures(t *testing.T) {
	var took []time.Duration
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { took = append(took, crowd(t)) })
	}
	t.Logf("%d candidates start at once: one leads after %s", *crowdSize, quorumlab.Spread(took))
}

// crowd returns how soon one of many candidates that start together leads.
func crowd(t *testing.T) time.Duration {
	b := newBed(t)
	bucket := b.bucket(t)
	revisions := func() (n uint64) {
		for _, srv := range b.servers {
			js := natslab.JetStream(t, srv.Connect(t))
			s, err := js.Stream(natslab.Within(t), "KV_"+bucket)
			if err != nil {
				t.Fatal(err)
			}
			info, err := s.Info(natslab.Within(t))
			if err != nil {
				t.Fatal(err)
			}
			n += info.State.LastSeq
		}
		return n
	}
	stores := make([]*quorumstore.Store, *crowdSize)
	for i := range stores {
		stores[i] = b.open(t, bucket)
	}
	g := newGroup(t)
	before, began := revisions(), time.Now()
	var all sync.WaitGroup
	for i, st := range stores {
		c := g.candidate(st, fmt.Sprint("c", i), 10*time.Second, 2*time.Second)
		all.Go(func() {
			if err := c.Start(t.Context()); err != nil {
				t.Errorf("starting %s: %v", c.id, err)
			}
		})
	}
	g.leader()
	led := time.Since(began)
	all.Wait()
	g.await("all follow", func() bool {
		return !slices.ContainsFunc(g.all, func(c *candidate) bool { return c.LeaderID() == "" })
	})
	t.Logf("one leads after %v, all know after %v, %d writes to the members",
		led.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), revisions()-before)
	return led
}
