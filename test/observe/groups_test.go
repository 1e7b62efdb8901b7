package observe_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// byKind runs a test on a bucket of either kind.
func byKind(t *testing.T, f func(t *testing.T, srv *natslab.Server)) {
	t.Helper()
	for kind, makeBucket := range kinds {
		t.Run(kind, func(t *testing.T) {
			srv := natslab.Start(t)
			makeBucket(t, srv.Connect(t))
			f(t, srv)
		})
	}
}

func TestObserverOfManyFollowsElections(t *testing.T) {
	t.Parallel()
	byKind(t, func(t *testing.T, srv *natslab.Server) {
		begun := time.Now().Truncate(time.Millisecond)
		a := lead(t, srv.Connect(t), "team.one", "a")
		o := observe(t, srv.Connect(t), "team.>")
		events := o.until("the end of the present state", func(e event) bool { return e.present })
		if !presents(events, "team.one", "a") || events[0].info.Term != a.Status().Term || events[0].info.Correlation == "" {
			t.Errorf("told %v, term %d", events, a.Status().Term)
		}
		// All clocks are this machine's.
		acquired := a.Status().Acquired
		if i := events[0].info; !i.Acquired.Equal(acquired) || acquired.Before(begun) || i.Renewed.Before(acquired) || i.Renewed.After(time.Now()) {
			t.Errorf("acquired at %v and renewed at %v, want %v and later", i.Acquired, i.Renewed, acquired)
		}
		lead(t, srv.Connect(t), "team.two.deep", "b")
		o.leads("team.two.deep", "b")
		lead(t, srv.Connect(t), "elsewhere", "x")
		o.until("a renewal", func(e event) bool {
			return e.renewed && e.info.Group == "team.one" && time.Until(e.info.Until) > ttl/2 && e.info.Acquired.Equal(acquired) && e.info.Renewed.After(acquired)
		})
		if err := a.Resign(natslab.Within(t)); err != nil {
			t.Fatal(err)
		}
		o.until("the vacancy", func(e event) bool {
			return e.info.Group == "team.one" && e.info.ID == "" && e.info.Reason == leader.ReasonResigned && e.info.Acquired.Equal(acquired)
		})
		for _, e := range o.all() {
			if g := e.info.Group; g != "" && !strings.HasPrefix(g, "team.") {
				t.Errorf("told of %s", g)
			}
		}
		infos, err := leader.Snapshot(natslab.Within(t), srv.Connect(t), "b", ">")
		if err != nil || len(infos) != 3 || infos[0].Group != "elsewhere" || infos[2].ID != "b" {
			t.Errorf("%+v, %v", infos, err)
		}
	})
}

// The leader's process is gone; only its lease tells.
func TestObserverOfManySeesASilentLeaderExpire(t *testing.T) {
	t.Parallel()
	byKind(t, func(t *testing.T, srv *natslab.Server) {
		nc := natslab.Connect(t, srv.URL())
		lead(t, nc, "team.one", "a")
		o := observe(t, srv.Connect(t), "team.*")
		o.leads("team.one", "a")
		nc.Close()
		o.until("its end", func(e event) bool { return e.info.ID == "" && e.info.Reason == leader.ReasonExpired })
	})
}

func TestObserverOfManyHearsOfWhatHappenedWhileTheServerWasAway(t *testing.T) {
	t.Parallel()
	byKind(t, func(t *testing.T, srv *natslab.Server) {
		lead(t, srv.Connect(t), "team.one", "a")
		o := observe(t, srv.Connect(t), ">")
		o.leads("team.one", "a")
		srv.Restart()
		lead(t, srv.Connect(t), "team.two", "b")
		o.leads("team.two", "b")
		n := 0
		o.until("the present state once more", func(e event) bool {
			if e.present {
				n++
			}
			return n == 2
		})
	})
}

// One subscription or one consumer, one heap of expiries. What it takes is
// logged; the bounds are loose.
//
// It counts goroutines and memory of the process, and so runs alone.
func TestTenThousandGroupsAreObservedByFewGoroutines(t *testing.T) {
	const groups = 10_000
	byKind(t, func(t *testing.T, srv *natslab.Server) {
		writer := srv.Connect(t)
		renewAll(t, writer, groups)
		nc := srv.Connect(t)
		before, goroutines, subs := heap(), runtime.NumGoroutine(), nc.NumSubscriptions()
		known, present, done := 0, make(chan int, 10), make(chan error)
		renewed := make(chan struct{}, 1<<20)
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		go func() {
			done <- leader.ObserveFunc(ctx, nc, "b", "team.*", leader.Observer{
				Leader:  func(leader.LeaderInfo) { known++ },
				Renewed: func(leader.LeaderInfo) { renewed <- struct{}{} },
				Present: func() { present <- known },
			})
		}()
		select {
		case n := <-present:
			if n != groups {
				t.Errorf("the present state had %d of %d groups", n, groups)
			}
		case <-natslab.Within(t).Done():
			t.Fatal("the present state is never complete")
		}
		took := time.Since(start)
		bytes, more := (int64(heap())-int64(before))/groups, runtime.NumGoroutine()-goroutines
		t.Logf("present state of %d groups after %v; %d bytes of heap for each, %d goroutines (client and server), %d subscriptions more",
			groups, took.Round(time.Millisecond), bytes, more, nc.NumSubscriptions()-subs)
		if bytes > 4000 || more > 20 {
			t.Error("more than an observer may cost")
		}
		start = time.Now()
		renewAll(t, writer, groups)
		for range groups {
			select {
			case <-renewed:
			case <-natslab.Within(t).Done():
				t.Fatal("renewals are missing")
			}
		}
		t.Logf("%d renewals written and heard in %v", groups, time.Since(start).Round(time.Millisecond))
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// renewAll writes a record of each group, as fast as the server takes them.
func renewAll(tb testing.TB, nc *nats.Conn, groups int) {
	tb.Helper()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(500))
	if err != nil {
		tb.Fatal(err)
	}
	for i := range groups {
		record := fmt.Appendf(nil, `{"id":"instance-%d","token":"%d-%d","ttl":3600000,"term":%d}`, i, os.Getpid(), i, i+1)
		if _, err := js.PublishAsync(fmt.Sprintf("$KV.b.team.%d", i), record, jetstream.WithStallWait(natslab.Patience)); err != nil {
			tb.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-natslab.Within(tb).Done():
		tb.Fatal("the records were not written")
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
