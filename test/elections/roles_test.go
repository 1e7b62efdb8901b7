package elections_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Leases that are long enough for a busy machine, so that roles move when they
// are asked for and not because a renewal was late.
const rolesLease = 20 * time.Second

func TestRolesSettleEvenlyInAClusterAndMoveBackGently(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	ensure(t, cluster.Connect(t), natsstore.BucketConfig{Bucket: rolesBucket, Replicas: 3})
	f := newFleet(t, 40)
	is := make([]*instance, 4)
	begun := time.Now()
	for n := range is {
		is[n] = f.start(cluster.Connect(t), template(fmt.Sprint("i", n), rolesLease))
	}
	f.settled([]int{10, 10, 10, 10}, is...)
	t.Logf("settled after %v and %d handovers", time.Since(begun), f.moved())

	f.stop(is[3])
	natslab.Eventually(t, "every role has a leader", func(context.Context) error {
		if n := sum(led(is[:3]...)); n != 40 {
			return fmt.Errorf("%d have", n)
		}
		return nil
	})
	t.Logf("taken over as %v", led(is[:3]...)) // 14 at most, where nobody is held up
	f.settled([]int{13, 13, 14}, is[:3]...)
	t.Logf("taken over with %d handovers", f.moved())

	begun = time.Now()
	is[3] = f.start(cluster.Connect(t), template("i3", rolesLease))
	f.settled([]int{10, 10, 10, 10}, is...)
	n := f.moved()
	t.Logf("moved back in %v and %d handovers", time.Since(begun), n)
	// An instance that loses leases on a busy machine gets some back.
	if n > 20 {
		t.Errorf("%d roles moved, want the 10 that have to, and few more", n)
	}
}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

// All roles share one subscription, and in buckets that do not republish one
// consumer.
func TestThousandRolesNeedOneWatch(t *testing.T) {
	t.Parallel()
	const n = many
	for name, foreign := range map[string]bool{"OurBucket": false, "BucketOfOthers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natslab.Start(t)
			if foreign {
				natslab.KV(t, srv.Connect(t), jetstream.KeyValueConfig{Bucket: rolesBucket, Storage: jetstream.FileStorage})
			} else {
				ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: rolesBucket})
			}
			nc := srv.Connect(t)
			before := subscriptions(t, srv)
			f := newFleet(t, n)
			cfg := template("a", time.Minute)
			a := f.start(nc, cfg)
			f.settled([]int{n}, a)
			want := 0
			if foreign {
				want = 1
			}
			// On a busy machine a consumer may have been given up, and another
			// made; the server removes the first after a while.
			natslab.Eventually(t, "no more than the watch needs", func(context.Context) error {
				consumers, subs := srv.Consumers("KV_"+rolesBucket), subscriptions(t, srv)-before
				// Subscriptions for the watch, its replies, the replies of its
				// writes, and the replies of the connection's requests and
				// publishes.
				if consumers != want || subs > 7 {
					return fmt.Errorf("%d roles: %d consumers, want %d, and %d subscriptions on the server", n, consumers, want, subs)
				}
				return nil
			})
		})
	}
}

func subscriptions(t *testing.T, srv *natslab.Server) int {
	t.Helper()
	v, err := srv.Inner().Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return int(v.Subscriptions)
}

// Renewals do not wait for each other. The test runs alone, since it judges how
// long they take.
func TestThousandRenewalsArePipelined(t *testing.T) {
	const n, delay = many, 50 * time.Millisecond
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: rolesBucket})
	proxy := natslab.NewRelay(t, srv.Addr())
	proxy.Delay(delay, natslab.ToServer, natslab.ToClient)
	calls := &stopwatch{renewed: make(map[string]int)}
	f := newFleet(t, 1)
	m, err := leader.NewRoleManager(natslab.Connect(t, proxy.URL()), template("a", 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	for i := range n {
		name := fmt.Sprintf("role.%04d", i)
		if err := m.Add(t.Context(), leader.Role{Name: name, Hooks: leader.Hooks{Call: func(c leader.Call) { calls.note(name, c) }}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.settled([]int{n}, &instance{m, "a"})
	natslab.Eventually(t, "each role renewed twice", func(context.Context) error { return calls.each(n, 2) })
	took := calls.times()
	t.Logf("%d renewals of %d roles, %v on the way: median %v, p99 %v, longest %v",
		len(took), n, 2*delay, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	// If they came one after the other, half of them would wait for n times the
	// delay or longer.
	if median := took[len(took)/2]; median > n*delay/4 {
		t.Errorf("half of the renewals took longer than %v", median)
	}
}

// A stopwatch notes how long renewals took.
type stopwatch struct {
	mu      sync.Mutex
	took    []time.Duration
	renewed map[string]int
}

func (s *stopwatch) note(role string, c leader.Call) {
	if c.Kind != "renew" || c.Err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, c.Took)
	s.renewed[role]++
}

func (s *stopwatch) each(roles, times int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.renewed) < roles {
		return fmt.Errorf("%d roles were renewed", len(s.renewed))
	}
	for role, n := range s.renewed {
		if n < times {
			return fmt.Errorf("%s was renewed %d times", role, n)
		}
	}
	return nil
}

func (s *stopwatch) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.took))
}

// A role costs a process one goroutine and a few kilobytes. The test runs
// alone, since it measures the process.
func TestThousandRolesCostOneGoroutineEach(t *testing.T) {
	const n, heapEach = many, 8 << 10
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: rolesBucket})
	for _, id := range []string{"leader", "follower"} {
		nc := srv.Connect(t)
		goroutines, heap := usageOfRoles()
		m, err := leader.NewRoleManager(nc, template(id, 10*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Stop() })
		for i := range n {
			if err := m.Add(t.Context(), leader.Role{
				Name: fmt.Sprintf("role.%04d", i), OnPromote: func(context.Context, string) {}, OnDemote: func() {},
			}); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		started := time.Since(begun)
		natslab.Eventually(t, "every role has a leader", func(context.Context) error {
			for _, r := range m.Roles() {
				if r.LeaderID != "leader" {
					return fmt.Errorf("%s: %+v", r.Name, r.ElectionStatus)
				}
			}
			return nil
		})
		settled := time.Since(begun)
		const besides = 50 // for the connection, in the client and in the server of this process
		var each, heapBytes int
		natslab.Eventually(t, id+": the goroutines of the start have ended", func(context.Context) error {
			after, now := usageOfRoles()
			each, heapBytes = after-goroutines, int(now-heap)
			if each > n+besides {
				return fmt.Errorf("%d goroutines", each)
			}
			return nil
		})
		t.Logf("%s: %.2f goroutines and %d bytes for each role; started in %v, settled in %v",
			id, float64(each)/n, heapBytes/n, started, settled)
		// Loosely: the server of this process keeps 4 MB of what the leader
		// wrote, and the race detector may be in it.
		if heapBytes > 2*heapEach*n {
			t.Errorf("%s: %d bytes", id, heapBytes)
		}
		runtime.KeepAlive(m)
	}
}

// usageOfRoles counts the heap and the goroutines, without those that an
// election has only for the first TTL, in case its watch does not report
// pauses.
func usageOfRoles() (goroutines int, heap int64) {
	runtime.GC()
	runtime.GC() // what finalizers and pools released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
	for alike := range strings.SplitSeq(stacks.String(), "\n\n") {
		var n int
		if _, err := fmt.Sscanf(strings.TrimSpace(alike), "%d @", &n); err == nil && !strings.Contains(alike, "(*election).join") {
			goroutines += n
		}
	}
	return goroutines, int64(m.HeapAlloc)
}
