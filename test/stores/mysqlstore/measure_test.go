package mysqlstore_test

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

var measured = flag.Int("measure", 0, "how often to measure a compare-and-swap and a handover; 0: not at all")

// median sorts.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// TestMeasure prints what the page of stores says. Run it alone, with
// -args -measure=200.
func TestMeasure(t *testing.T) {
	if *measured == 0 {
		t.Skip("without -measure there is nothing to measure")
	}
	srv := lab.OwnMariaDB(t)
	table := newTable()
	s := made(t, url(srv), table)
	if _, err := srv.DB().Exec("CREATE TABLE plain (id INTEGER PRIMARY KEY, n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	db := srv.DB()
	if _, err := db.Exec("INSERT INTO plain VALUES (1, 0)"); err != nil {
		t.Fatal(err)
	}
	var plain, cas []time.Duration
	value := make([]byte, 400)
	rev := must(t, s, store.Write{Key: "cas", Value: value})
	for range *measured {
		begin := time.Now()
		if _, err := db.Exec("UPDATE plain SET n = n + 1 WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		plain = append(plain, time.Since(begin))
		begin = time.Now()
		rev = must(t, s, store.Write{Key: "cas", Expected: rev, Value: value})
		cas = append(cas, time.Since(begin))
	}
	const heartbeat = time.Second
	var heard []time.Duration
	watcher := open(t, url(srv), table)
	watcher.Pace(heartbeat)
	h := listen(t, watcher, "heard")
	at := uint64(0)
	for i := range *measured {
		begin := time.Now()
		at = must(t, s, store.Write{Key: "heard", Expected: at, Value: value})
		h.until("a write", func(e store.Entry) bool { return e.Revision == at })
		if i > 10 { // it listens by now
			heard = append(heard, time.Since(begin))
		}
	}
	moved := make(chan struct{}, 1)
	var all []leader.Election
	for _, id := range []string{"a", "b"} {
		e, err := leader.NewElectionWithStore(open(t, url(srv), table), leader.ElectionConfig{
			Group: "g", InstanceID: id, TTL: 10 * heartbeat, HeartbeatInterval: heartbeat, AcquireGrace: leader.GraceOff,
			Hooks: leader.Hooks{Transition: func(leader.Transition) {
				select {
				case moved <- struct{}{}:
				default:
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
		all = append(all, e)
	}
	var handovers []time.Duration
	now, next := 0, 1
	until(t, moved, func() bool { return all[0].IsLeader() || all[1].IsLeader() })
	if all[1].IsLeader() {
		now, next = 1, 0
	}
	for range *measured {
		until(t, moved, func() bool { s := all[next].Status(); return s.State == leader.StateFollower && s.LeaderID != "" })
		begin := time.Now()
		if err := all[now].Resign(within(t)); err != nil {
			t.Fatal(err)
		}
		until(t, moved, all[next].IsLeader)
		handovers = append(handovers, time.Since(begin))
		now, next = next, now
	}
	t.Logf("medians of %d: plain UPDATE %v, compare-and-swap %v, the same until a watch has it %v, handover %v (heartbeat %v)",
		*measured, median(plain), median(cas), median(heard), median(handovers), heartbeat)
}

// until looks whenever an election moved, and each tenth of a millisecond.
func until(t *testing.T, moved <-chan struct{}, holds func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	look := time.NewTicker(100 * time.Microsecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-moved:
		case <-look.C:
		case <-limit:
			t.Fatal("not within a minute")
		}
	}
}
