package redis_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A subscription that has become a black hole is noticed, though all else goes
// on.
func TestSilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	var spoilt atomic.Bool // whether new connections go by the proxy
	rdb := dial(t, srv.Addr(), func(o *redis.Options) {
		o.PoolSize = 1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if spoilt.Load() {
				addr = proxy.Addr()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	st := over(t, rdb, redisstore.Options{})
	rev := put(t, st, "reports", 0, "held") // by the only connection that is not a subscription
	spoilt.Store(true)
	states := make(chan store.ConnState, 16)
	defer st.OnConnState(func(s store.ConnState) { states <- s })()
	heard := make(chan store.Entry, 64)
	stop, err := st.Watch(trial.Within(t), []string{"reports"}, func(e store.Entry) { heard <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	trial.Await(t, "the subscription", func() bool { return srv.Must("PUBLISH", "leader:reports", "hint") == "1" })
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	spoilt.Store(false)
	for _, want := range []store.ConnState{store.Disconnected, store.Connected} {
		select {
		case got := <-states:
			if got != want {
				t.Errorf("the connection is %v, not %v", got, want)
			}
		case <-trial.Within(t).Done():
			t.Fatalf("the connection is not reported as %v", want)
		}
	}
	rev = put(t, st, "reports", rev, "renewed")
	for e := range heard {
		if e.Revision == rev {
			break
		}
	}
}

// A key under the prefix that is not a record is left alone: a watch of all
// keys, or of another key, still delivers every record.
func TestAListUnderThePrefixHidesNoRecord(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	st := over(t, dial(t, srv.Addr()), redisstore.Options{})
	rev := put(t, st, "reports", 0, "held")
	put(t, st, "lost", 0, "held")
	srv.Must("RPUSH", "leader:list", "element")
	entries := make(chan store.Entry, 1000)
	var gone atomic.Bool
	stop, err := st.WatchPattern(trial.Within(t), ">", func(e store.Entry) {
		if e.Key == "lost" && e.Revision == 0 {
			gone.Store(true)
		}
		entries <- e
	}, func(err error) {
		if err != nil {
			t.Errorf("the initial state: %v", err)
		}
		entries <- store.Entry{}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	present := false
	for e := range entries {
		if e.Key == "" {
			break
		}
		present = present || e.Key == "reports" && e.Revision == rev
	}
	if !present {
		t.Error("the initial state is reported as complete, without the record")
	}
	// The unreported end of a record is found by looking, and so is a record
	// that became a list.
	srv.Must("DEL", "leader:lost")
	srv.Must("RPUSH", "leader:lost", "element")
	trial.Await(t, "the record's end", gone.Load)
}
