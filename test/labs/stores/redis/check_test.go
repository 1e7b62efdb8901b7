package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

func check(t *testing.T, st *redisstore.Store) (store.Report, error) {
	t.Helper()
	return st.Check(trial.Within(t), store.CheckRequest{TTL: 3 * time.Second, HeartbeatInterval: time.Second, Key: "reports", Reads: []string{"_ctl.reports"}})
}

func TestCheckWarnsOfWhatTheServerMayForget(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	st := over(t, dial(t, srv.Addr()), redisstore.Options{})
	for _, c := range []struct {
		name     string
		settings []string // by twos
		want     store.Report
		warning  string
	}{
		{"as it should be", nil, store.Report{}, ""},
		{"synced each second", []string{"appendfsync", "everysec"}, store.Report{Forgetful: true}, "appendfsync everysec"},
		{"never synced", []string{"appendfsync", "no"}, store.Report{Forgetful: true}, "appendfsync no"},
		{"not synced while it is rewritten", []string{"no-appendfsync-on-rewrite", "yes"}, store.Report{Forgetful: true}, "no-appendfsync-on-rewrite yes"},
		{"no file", []string{"appendonly", "no"}, store.Report{Forgetful: true}, "no append-only file"},
		{"evicts any key", []string{"maxmemory", "1gb", "maxmemory-policy", "allkeys-lru"}, store.Report{Expires: true}, "allkeys-lru"},
		{"evicts keys that expire", []string{"maxmemory", "1gb", "maxmemory-policy", "volatile-lru"}, store.Report{}, "refuses writes when"},
		{"evicts nothing", []string{"maxmemory", "1gb", "maxmemory-policy", "noeviction"}, store.Report{}, "refuses writes when"},
		{"a policy without a limit", []string{"maxmemory-policy", "allkeys-lru"}, store.Report{}, ""},
	} {
		sound := []string{
			"appendonly", "yes", "appendfsync", "always", "no-appendfsync-on-rewrite", "no", "maxmemory", "0", "maxmemory-policy", "noeviction",
		}
		for i := range len(sound) / 2 {
			srv.Must("CONFIG", "SET", sound[2*i], sound[2*i+1])
		}
		trial.Await(t, "the server keeps its file", func() bool {
			return strings.Contains(srv.Must("INFO", "persistence"), "aof_rewrite_in_progress:0")
		})
		for i := range len(c.settings) / 2 {
			srv.Must("CONFIG", "SET", c.settings[2*i], c.settings[2*i+1])
		}
		r, err := check(t, st)
		if err != nil || r.Forgetful != c.want.Forgetful || r.Expires != c.want.Expires {
			t.Errorf("%s: %+v, %v; want %+v", c.name, r, err, c.want)
		}
		if said := strings.Join(r.Warnings, "\n"); c.warning == "" && said != "" || !strings.Contains(said, c.warning) {
			t.Errorf("%s: the warnings are %q; want one of %q", c.name, said, c.warning)
		}
	}
}

func TestCheckOfAPair(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for _, c := range []struct {
		wait      int
		forgetful bool
		warning   string
	}{
		{0, true, "has 1 replicas, and a failover"},
		{1, false, ""},
		{2, false, "until there are so many"},
	} {
		r, err := check(t, over(t, dial(t, p.master.Addr()), redisstore.Options{Wait: c.wait, Fenced: c.wait == 0}))
		said := strings.Join(r.Warnings, "\n")
		if err != nil || r.Forgetful != c.forgetful || c.warning == "" && said != "" || !strings.Contains(said, c.warning) {
			t.Errorf("with Wait %d: %+v, %v; want a forgetful store: %t, and a warning of %q", c.wait, r, err, c.forgetful, c.warning)
		}
	}
	rdb := dial(t, p.replica.Addr())
	replica := over(t, rdb, redisstore.Options{})
	if _, err := check(t, replica); !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), "master") {
		t.Errorf("a replica: %v", err)
	}
	if _, err := replica.CompareAndSwap(trial.Within(t), store.Write{Key: "reports", Value: []byte("v")}); store.Classify(err) != store.Transient {
		t.Errorf("a write to a replica: %v", err)
	}
	// The client leaves connections that lead to a replica, and so finds the
	// master when that is another server.
	if n := rdb.PoolStats().TotalConns; n != 0 {
		t.Errorf("after a replica's refusal the client keeps %d connections to it", n)
	}
	p.failOver()
	r, err := check(t, replica)
	if said := strings.Join(r.Warnings, "\n"); err != nil || !r.Forgetful || !strings.Contains(said, "taken another's place") {
		t.Errorf("a replica that was promoted: %+v, %v", r, err)
	}
	p.master.Thaw()
}

func TestClientsThatCannotServeAreRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close() //nolint:errcheck // it was not used
	stale := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadOnly: true})
	defer stale.Close() //nolint:errcheck // it was not used
	var none *redis.Client
	for name, rdb := range map[string]redis.UniversalClient{"a ring": ring, "reads from replicas": stale, "nil": nil, "nil client": none} {
		if _, err := redisstore.New(rdb, redisstore.Options{}); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
	rdb := dial(t, "127.0.0.1:1")
	for name, opts := range map[string]redisstore.Options{
		"a pattern for a prefix": {Prefix: "a*"}, "negative timeout": {Timeout: -1}, "negative wait": {Wait: -1},
	} {
		if _, err := redisstore.New(rdb, opts); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}
