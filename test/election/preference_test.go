package election_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// onEach runs a test on one server, and on a cluster of three with a bucket of
// three replicas.
func onEach(t *testing.T, test func(t *testing.T, connect func() *nats.Conn)) {
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		srv := natslab.Start(t)
		test(t, func() *nats.Conn { return srv.Connect(t) })
	})
	t.Run("cluster of three", func(t *testing.T) {
		t.Parallel()
		cluster := natslab.StartCluster(t, 3)
		ensure(t, cluster.Connect(t), natsstore.BucketConfig{Bucket: "b", Replicas: 3})
		test(t, func() *nats.Conn { return cluster.Connect(t) })
	})
}

// prefers gives a candidate a priority, and lets it take over and be taken over
// soon.
func prefers(priority int, tenure time.Duration) tweak {
	return func(c *leader.ElectionConfig) {
		c.Priority, c.AllowPriorityTakeover, c.MinTenure = priority, true, tenure
	}
}

// Overlap 0 is what the group itself looks for all the time.
func TestAPreferredCandidateTakesOverWithoutOverlap(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, connect func() *nats.Conn) {
		const tenure = 2 * time.Second
		g := newGroup(t, "b")
		low := g.join(connect(), "low", prefers(1, tenure), ttl(5*time.Second))
		g.leader()
		begun := time.Now()
		other := g.join(connect(), "other", prefers(1, tenure), ttl(5*time.Second))
		high := g.join(connect(), "high", prefers(2, tenure), ttl(5*time.Second))
		g.await("high leads", high.IsLeader)
		if d := time.Since(begun); d < tenure {
			t.Errorf("taken over after %v, less than the minimum tenure", d)
		}
		left, vacancy := low.left()
		if left.Reason != leader.ReasonOutranked || left.By != "high" {
			t.Errorf("low left by %+v", left)
		}
		t.Logf("leaderless for %v, low's work included", high.since().Sub(vacancy).Round(10*time.Microsecond))
		low.follows(high)
		other.follows(high)
	})
}

// left is the transition by which the member's latest term ended, and when.
func (m *member) left() (leader.Transition, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range slices.Backward(m.passages) {
		if p.Event == leader.EventDemoted {
			return p, p.At
		}
	}
	return leader.Transition{}, time.Time{}
}

// since is when the member was promoted last.
func (m *member) since() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range slices.Backward(m.passages) {
		if p.Event == leader.EventPromoted {
			return p.At
		}
	}
	return time.Time{}
}

func TestWhoIsPreferredGoesFirstAtAVacancyOfTheServer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, connect func() *nats.Conn) {
		g := newGroup(t, "b")
		rank := func(p int) tweak {
			return func(c *leader.ElectionConfig) { c.Priority, c.HeartbeatInterval = p, 100*time.Millisecond }
		}
		// A step of 50 ms for each rank: far more than a handover takes, unless
		// the machine is busy.
		leads := g.join(connect(), "p0", rank(0))
		g.leader()
		byRank := map[int]*member{}
		for _, p := range []int{2, 4, 1, 3} {
			byRank[p] = g.join(connect(), fmt.Sprint("p", p), rank(p))
			byRank[p].follows(leads)
		}
		for p := 4; p >= 1; p-- {
			heard(t, connect(), g, p)
			leads.stop(leader.StopOptions{DeleteKey: true, WaitForDemote: true})
			next := g.leaderAfter(leads)
			if next != byRank[p] {
				g.await("its claim is told", func() bool { return next.waited() > 0 })
				if waited, due := next.waited(), time.Duration(p-next.priority(t))*50*time.Millisecond; waited < due {
					t.Fatalf("%s leads after %s, and waited for %v, want p%d, or %v", next.id, leads.id, waited, p, due)
				}
				t.Logf("p%d came too late on a busy machine; %s has waited", p, next.id)
				if err := next.Transfer(natslab.Within(t), byRank[p].id); err != nil {
					t.Fatal(err)
				}
				g.await("the preferred one leads", byRank[p].IsLeader)
			}
			leads = byRank[p]
		}
	})
}

// waited is for how long the member let others go first at the vacancy that it
// took last.
func (m *member) waited() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range slices.Backward(m.passages) {
		if p.To == leader.StateCandidate {
			return m.claimed.Sub(p.At)
		}
	}
	return 0
}

func (m *member) priority(t *testing.T) (p int) {
	t.Helper()
	if _, err := fmt.Sscanf(m.id, "p%d", &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// heard waits until the record tells of so many standings of priority 1 and
// more.
func heard(t *testing.T, nc *nats.Conn, g *group, n int) {
	t.Helper()
	kv, err := natslab.JetStream(t, nc).KeyValue(natslab.Within(t), g.bucket)
	if err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, fmt.Sprint(n, " standings heard"), func(ctx context.Context) error {
		e, err := kv.Get(ctx, g.name)
		if err != nil {
			return err
		}
		if known := standingsOf(t, e.Value()); known < n {
			return fmt.Errorf("%s", e.Value())
		}
		return nil
	})
}

func TestAVersionedRolloutMovesOnceAndToTheNewVersion(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	version := func(v string) tweak {
		return func(c *leader.ElectionConfig) {
			c.Version, c.VersionPolicy, c.AllowPriorityTakeover, c.MinTenure = v, leader.PreferNewer, true, time.Second
		}
	}
	old := g.join(srv.Connect(t), "old", version("1.9.0"), ttl(5*time.Second))
	g.leader()
	next := g.join(srv.Connect(t), "next", version("1.10.0"), ttl(5*time.Second))
	g.await("the new version leads", next.IsLeader)
	old.follows(next)
	third := g.join(srv.Connect(t), "third", version("1.10.0"), ttl(5*time.Second))
	third.follows(next)
	if old.told() != "promote demote" || third.told() != "" {
		t.Errorf("old: %s, third: %s", old.told(), third.told())
	}
}

type flag struct{ bad atomic.Bool }

func (f *flag) Check(context.Context) bool { return !f.bad.Load() }

func TestAnUnhealthyLeaderDrainsAndReleasesAndStandsAgainWhenHealthy(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, connect func() *nats.Conn) {
		g := newGroup(t, "b")
		var health flag
		a := g.join(connect(), "a", func(c *leader.ElectionConfig) {
			// A check may take no longer than the time to the next, and a busy
			// machine takes its time.
			c.HealthChecker, c.HealthCheckInterval = &health, 500*time.Millisecond
		})
		g.leader()
		b := g.join(connect(), "b")
		b.follows(a)
		health.bad.Store(true)
		g.await("b leads", b.IsLeader)
		if why := a.lost(); why != leader.ReasonUnhealthy {
			t.Errorf("a lost its term by %q", why)
		}
		b.stop(leader.StopOptions{DeleteKey: true, WaitForDemote: true})
		// Its release may be answered later than b was told of it.
		g.await("a sees the vacancy", func() bool { s := a.Status(); return s.State == leader.StateCandidate && s.LeaderID == "" })
		if s := a.Status(); s.Barred != leader.ReasonUnhealthy {
			t.Errorf("%+v", s)
		}
		health.bad.Store(false)
		g.await("a leads again", a.IsLeader)
	})
}
