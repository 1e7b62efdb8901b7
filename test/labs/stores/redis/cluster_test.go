package redis_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// slots is how many parts the keys of a cluster have.
const slots = 16384

// startCluster starts a cluster of masters that have an equal share of the
// keys.
func startCluster(t *testing.T, n int) []*databases.Redis {
	t.Helper()
	nodes, buses := make([]*databases.Redis, n), ports.Free(t, n)
	for i := range nodes {
		nodes[i] = databases.StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(buses[i]))
		nodes[i].Must("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
		nodes[0].Must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(nodes[i].Port()), strconv.Itoa(buses[i]))
	}
	for _, node := range nodes {
		trial.Await(t, "the cluster is whole", func() bool {
			info := node.Must("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	return nodes
}

func TestConformanceInACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	admin := clusterClient(t, nodes)
	var names atomic.Int64
	storetest.Run(t, func(testing.TB) storetest.Harness {
		prefix := fmt.Sprintf("conformance%d:", names.Add(1))
		return storetest.Harness{
			Open: func(t testing.TB) store.Store {
				st := over(t, clusterClient(t, nodes), redisstore.Options{Prefix: prefix})
				st.Pace(200 * time.Millisecond)
				return st
			},
			Delete: func(key string) error { return admin.Del(trial.Within(t), prefix+key).Err() },
			Put:    func(key string, value []byte) error { return admin.Set(trial.Within(t), prefix+key, value, 0).Err() },
			Purge:  func(key string) error { return admin.Unlink(trial.Within(t), prefix+key).Err() },
		}
	}, storetest.Caps{
		MaxValue:    redisstore.MaxValue,
		NoVisible:   "Redis has no deletion that keeps a value: the record's first line marks it",
		NoInterrupt: "a cluster whose nodes restart is without a state for seconds; one server is interrupted in TestConformance",
	})
}

func clusterClient(t testing.TB, nodes []*databases.Redis) *redis.ClusterClient {
	t.Helper()
	// In the automatic mode the clients of a cluster write to one configuration
	// under locks of their own (go-redis 9.23, initConn), which is a data race.
	opts := &redis.ClusterOptions{MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}}
	for _, n := range nodes {
		opts.Addrs = append(opts.Addrs, n.Addr())
	}
	rdb := redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestCheckOfAClusterExaminesEachMaster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	st := over(t, clusterClient(t, nodes), redisstore.Options{})
	if r, err := check(t, st); err != nil || r.Forgetful || len(r.Warnings) > 0 {
		t.Errorf("of a sound cluster: %+v, %v", r, err)
	}
	nodes[1].Must("CONFIG", "SET", "appendfsync", "everysec")
	if r, err := check(t, st); err != nil || !r.Forgetful || len(r.Warnings) != 1 {
		t.Errorf("with one master that syncs each second: %+v, %v", r, err)
	}
}

// In a cluster a write waits on the connection to the master of its key.
func TestWriteInAClusterWaitsForTheReplicaOfItsMaster(t *testing.T) {
	t.Parallel()
	master, bus := startCluster(t, 1)[0], ports.Free(t, 1)[0]
	replica := databases.StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--repl-diskless-sync-delay", "0")
	master.Must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(replica.Port()), strconv.Itoa(bus))
	natslab.Eventually(t, "the replica follows", func(context.Context) error {
		_, err := replica.Say("CLUSTER", "REPLICATE", master.Must("CLUSTER", "MYID"))
		return err
	})
	trial.Await(t, "the replica has what the master has", func() bool {
		return strings.Contains(master.Must("INFO", "replication"), "state=online")
	})
	st := over(t, clusterClient(t, []*databases.Redis{master}), redisstore.Options{Wait: 1})
	if r, err := check(t, st); err != nil || r.Forgetful || len(r.Warnings) > 0 {
		t.Errorf("Check: %+v, %v", r, err)
	}
	rev := put(t, st, "reports", 0, "held")
	if e := trial.Get(t, st, "reports"); e.Revision != rev {
		t.Errorf("the register is at %+v", e)
	}
	replica.Freeze()
	if _, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: "reports", Expected: rev}); store.Classify(err) != store.Unknown {
		t.Errorf("a write that the replica does not have ended %v", err)
	}
	if e, err := st.Get(trial.Within(t), "reports"); store.Classify(err) != store.Transient {
		t.Errorf("what the replica does not have reads as %+v, %v", e, err)
	}
	replica.Thaw()
}
