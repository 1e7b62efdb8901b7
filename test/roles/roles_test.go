package roles_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Leases that are long enough for a busy machine, so that roles move when they
// are asked for and not because a renewal was late.
const lease = 20 * time.Second

func TestHundredRolesSettleEvenlyAndMoveBackGently(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) func() *nats.Conn{
		"OneServer": func(t *testing.T) func() *nats.Conn {
			srv := natslab.Start(t)
			return func() *nats.Conn { return srv.Connect(t) }
		},
		"ClusterOfThree": func(t *testing.T) func() *nats.Conn {
			c := natslab.StartCluster(t, 3)
			return func() *nats.Conn { return c.Connect(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connect := start(t)
			replicas := 1
			if name != "OneServer" {
				replicas = 3
			}
			ensure(t, connect(), natsstore.BucketConfig{Replicas: replicas})
			f := newFleet(t, 100)
			is := make([]*instance, 4)
			begun := time.Now()
			for n := range is {
				is[n] = f.start(connect(), template(fmt.Sprint("i", n), lease))
			}
			f.settled([]int{25, 25, 25, 25}, is...)
			t.Logf("settled after %v and %d handovers", time.Since(begun), f.moved())

			f.stop(is[3])
			natslab.Eventually(t, "every role has a leader", func(context.Context) error {
				if n := sum(led(is[:3]...)); n != 100 {
					return fmt.Errorf("%d have", n)
				}
				return nil
			})
			t.Logf("taken over as %v", led(is[:3]...)) // 34 at most, where nobody is held up
			f.settled([]int{33, 33, 34}, is[:3]...)
			t.Logf("taken over with %d handovers", f.moved())

			begun = time.Now()
			is[3] = f.start(connect(), template("i3", lease))
			f.settled([]int{25, 25, 25, 25}, is...)
			n := f.moved()
			t.Logf("moved back in %v and %d handovers", time.Since(begun), n)
			// An instance that loses leases on a busy machine gets some back.
			if n > 50 {
				t.Errorf("%d roles moved, want the 25 that have to, and few more", n)
			}
		})
	}
}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

func TestRolesAreAddedAndRemovedWhileOthersRun(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{})
	f := newFleet(t, 10)
	a, b := f.start(srv.Connect(t), template("a", lease)), f.start(srv.Connect(t), template("b", lease))
	f.settled([]int{5, 5}, a, b)
	for n := range 10 {
		name := fmt.Sprint("more.", n)
		f.add(a, name)
		f.add(b, name)
	}
	f.settled([]int{10, 10}, a, b)
	for n := range 10 {
		if err := a.Remove(t.Context(), fmt.Sprint("more.", n)); err != nil {
			t.Fatal(err)
		}
	}
	natslab.Eventually(t, "b leads what a has no more", func(context.Context) error {
		for n := range 10 {
			if name := fmt.Sprint("more.", n); !b.Election(name).IsLeader() {
				return fmt.Errorf("not %s", name)
			}
		}
		return nil
	})
}

func TestInstanceThatIsCutOffIsReplacedAndComesBack(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{})
	proxy := natslab.NewProxy(t, srv.Addr())
	f := newFleet(t, 30)
	a := f.start(natslab.Connect(t, proxy.URL()), template("a", lease/4))
	b, c := f.start(srv.Connect(t), template("b", lease/4)), f.start(srv.Connect(t), template("c", lease/4))
	f.settled([]int{10, 10, 10}, a, b, c)
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	f.settled([]int{0, 15, 15}, a, b, c)
	if n := led(a)[0]; n != 0 {
		t.Errorf("the instance that is cut off leads %d roles", n)
	}
	proxy.Resume()
	f.settled([]int{10, 10, 10}, a, b, c)
}

// One subscription serves all roles, and in buckets that do not republish one
// consumer.
func TestThousandRolesNeedOneWatch(t *testing.T) {
	t.Parallel()
	const n = many
	for name, foreign := range map[string]bool{"OurBucket": false, "BucketOfOthers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natslab.Start(t)
			if foreign {
				natslab.KV(t, srv.Connect(t), jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.FileStorage})
			} else {
				ensure(t, srv.Connect(t), natsstore.BucketConfig{})
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
				consumers, subs := srv.Consumers("KV_"+bucket), subscriptions(t, srv)-before
				// The watch, its replies, those of its writes, and those of the
				// connection's requests and publishes.
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
	ensure(t, srv.Connect(t), natsstore.BucketConfig{})
	proxy := natslab.NewProxy(t, srv.Addr())
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
	// One after the other, half of them would wait for n times the delay and
	// longer.
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
