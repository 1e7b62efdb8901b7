package redis_test

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

var figures = flag.Int("figures", 0, "how many handovers and round trips to measure; 0: none")

// TestFigures prints the figures of Redis for docs/reference/stores.md. It
// judges nothing: the machine may be busy.
func TestFigures(t *testing.T) {
	if *figures == 0 {
		t.Skip("nothing is measured without -args -figures=200")
	}
	srv := databases.StartRedis(t)
	rdb := dial(t, srv.Addr())
	st := over(t, rdb, redisstore.Options{})
	rev := uint64(0)
	value := string(make([]byte, 300)) // as long as a record
	plain := timed(*figures, func() {
		if err := rdb.Set(trial.Within(t), "plain", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	})
	cas := timed(*figures, func() { rev = put(t, st, "cas", rev, value) })
	led := make(chan struct{}, 1)
	a, b := elect(t, srv, "a", led), elect(t, srv, "b", led)
	trial.Await(t, "a leader", func() bool { return a.IsLeader() || b.IsLeader() })
	<-led
	if b.IsLeader() {
		a, b = b, a
	}
	var handovers []time.Duration
	for range *figures {
		trial.Await(t, "a follower", func() bool {
			return b.Status().State == leader.StateFollower && a.IsLeader() && b.Status().LeaderID == a.Status().LeaderID
		})
		start := time.Now()
		if err := a.Resign(trial.Within(t)); err != nil {
			t.Fatal(err)
		}
		<-led // a spinning loop would keep the network waiting
		handovers = append(handovers, time.Since(start))
		a, b = b, a
	}
	report := func(what string, all []time.Duration) time.Duration {
		slices.Sort(all)
		median := all[len(all)/2]
		t.Logf("%-48s p50 %v, p99 %v, n %d", what, median.Round(time.Microsecond), all[len(all)*99/100].Round(time.Microsecond), len(all))
		return median
	}
	report("SET by the same client", plain)
	c := report("compare-and-swap", cas)
	h := report("handover, Resign to the successor's IsLeader", handovers)
	t.Logf("handover is %.1f × a compare-and-swap", float64(h)/float64(c))
}

// timed calls f, and returns how long each call took.
func timed(n int, f func()) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		start := time.Now()
		f()
		all[i] = time.Since(start)
	}
	return all
}

// elect starts a candidate that has its own client, and reports when it leads.
func elect(t *testing.T, srv *databases.Redis, id string, led chan<- struct{}) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(over(t, dial(t, srv.Addr()), redisstore.Options{}), leader.ElectionConfig{
		Group: "figures", InstanceID: id, TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second,
		Hooks: leader.Hooks{Transition: func(tr leader.Transition) {
			if tr.To == leader.StateLeader {
				led <- struct{}{}
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e
}
