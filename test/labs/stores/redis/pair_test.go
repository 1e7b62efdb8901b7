package redis_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A pair is a master, a replica, and the way between them.
type pair struct {
	tb              testing.TB
	master, replica *databases.Redis
	link            *natslab.Relay
}

func newPair(tb testing.TB) *pair {
	tb.Helper()
	master := databases.StartRedis(tb, "--repl-diskless-sync-delay", "0")
	link := natslab.NewRelay(tb, master.Addr())
	_, port, _ := strings.Cut(link.Addr(), ":")
	p := &pair{tb: tb, master: master, link: link, replica: databases.StartRedis(tb, "--replicaof", "127.0.0.1", port)}
	p.joined()
	return p
}

// joined waits until the replica has all that the master has.
func (p *pair) joined() {
	p.tb.Helper()
	trial.Await(p.tb, "the replica follows the master", func() bool {
		return strings.Contains(p.replica.Must("INFO", "replication"), "master_link_status:up") &&
			strings.Contains(p.master.Must("INFO", "replication"), "state=online")
	})
}

// caughtUp waits until the replica has a key's content.
func (p *pair) caughtUp(key string) {
	p.tb.Helper()
	trial.Await(p.tb, "the replica has the key", func() bool {
		return p.replica.Must("GET", key) == p.master.Must("GET", key)
	})
}

// failOver freezes the master and promotes the replica, as Sentinel does.
func (p *pair) failOver() {
	p.tb.Helper()
	p.master.Freeze()
	p.replica.Must("REPLICAOF", "NO", "ONE")
}

// succeed parts the two for a while, puts the replica in the master's place,
// and has that join it.
func (p *pair) succeed(r *rand.Rand, lead func(addr string)) {
	p.tb.Helper()
	trial.Part(r, p.link)
	p.failOver()
	p.master.Kill()
	p.master, p.replica = p.replica, p.master
	lead(p.master.Addr())
	trial.Rejoin(p.link, p.master.Addr())
	p.replica.Run()
	_, port, _ := strings.Cut(p.link.Addr(), ":")
	p.replica.Must("REPLICAOF", "127.0.0.1", port) // and give up the unacknowledged writes
	p.joined()
}

// TestFailoverLosesAcknowledgedWrites shows why a store with replicas is
// reported as forgetful: replication follows the acknowledgement.
func TestFailoverLosesAcknowledgedWrites(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	old := over(t, dial(t, p.master.Addr()), redisstore.Options{})
	rev := put(t, old, "reports", 0, "held")
	p.caughtUp("leader:reports")
	p.link.Hold(natslab.ToServer, natslab.ToClient)
	lost := put(t, old, "reports", rev, "acknowledged")
	p.failOver()
	next := over(t, dial(t, p.replica.Addr()), redisstore.Options{})
	if e := trial.Get(t, next, "reports"); e.Revision != rev || string(e.Value) != "held" {
		t.Fatalf("after the failover the register is at %+v; revision %d was acknowledged", e, lost)
	}
	if again := put(t, next, "reports", rev, "acknowledged as well"); again <= rev {
		t.Errorf("revision %d follows %d", again, rev)
	}
}

func TestWriteThatNoReplicaHasIsUnknown(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	st := over(t, dial(t, p.master.Addr()), redisstore.Options{Wait: 1})
	rev := replicated(t, st, "reports", 0, "held")
	if e := trial.Get(t, st, "reports"); e.Revision != rev {
		t.Fatalf("a write that waited for its replica reads as %+v", e)
	}
	p.replica.Freeze()
	_, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: "reports", Expected: rev, Value: []byte("renewed")})
	if store.Classify(err) != store.Unknown {
		t.Errorf("a write that the replica does not have ended %v", err)
	}
	if at := p.master.Must("GET", "leader:reports"); !strings.HasSuffix(at, "renewed") {
		t.Errorf("the master holds %q", at)
	}
	// The candidate looks whether its write was applied: it must not learn so
	// from a master that may be replaced by one that never heard of it.
	if e, err := st.Get(trial.Within(t), "reports"); store.Classify(err) != store.Transient {
		t.Errorf("what the replica does not have reads as %+v, %v", e, err)
	}
	p.replica.Thaw()
	trial.Await(t, "the write is shown", func() bool {
		e, err := st.Get(trial.Within(t), "reports")
		return err == nil && string(e.Value) == "renewed"
	})
}

// TestFailoverKeepsWhatWaitedForTheReplica is the same failover as above, by a
// store that waits.
func TestFailoverKeepsWhatWaitedForTheReplica(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	old := over(t, dial(t, p.master.Addr()), redisstore.Options{Wait: 1})
	var known uint64 // the latest that was acknowledged
	for i := range 20 {
		known = replicated(t, old, "reports", known, strconv.Itoa(i))
	}
	p.link.Hold(natslab.ToServer, natslab.ToClient)
	_, err := old.CompareAndSwap(trial.Within(t), store.Write{Key: "reports", Expected: known, Value: []byte("unknown")})
	if store.Classify(err) != store.Unknown {
		t.Errorf("a write that the replica does not have ended %v", err)
	}
	p.failOver()
	if e := trial.Get(t, over(t, dial(t, p.replica.Addr()), redisstore.Options{}), "reports"); e.Revision != known {
		t.Errorf("after the failover the register is at %d; %d was acknowledged", e.Revision, known)
	}
}

// With Wait a watch shows only what the replicas have.
func TestWatchShowsNothingThatNoReplicaHas(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	st := over(t, dial(t, p.master.Addr()), redisstore.Options{Wait: 1})
	rev := replicated(t, st, "reports", 0, "held")
	heard := make(chan store.Entry, 64)
	stop, err := st.Watch(trial.Within(t), []string{"reports"}, func(e store.Entry) { heard <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	trial.Await(t, "the subscription", func() bool { return p.master.Must("PUBLISH", "leader:reports", "hint") == "1" })
	rev = replicated(t, st, "reports", rev, "renewed")
	for e := range heard {
		if e.Revision == rev {
			break
		}
	}
	p.replica.Freeze()
	ctx, cancel := context.WithTimeout(trial.Within(t), 3*time.Second)
	defer cancel()
	if _, err := st.CompareAndSwap(ctx, store.Write{Key: "reports", Expected: rev, Value: []byte("doubtful")}); store.Classify(err) != store.Unknown {
		t.Fatalf("a write that the replica does not have ended %v", err)
	}
	select {
	case e := <-heard:
		if string(e.Value) == "doubtful" {
			t.Fatalf("the watch shows %+v, which the replica does not have", e)
		}
	default:
	}
	p.replica.Thaw()
	for e := range heard {
		if string(e.Value) == "doubtful" {
			break
		}
	}
}

// TestCoolDownSurvivesAFailoverThatLosesTheLeader: the replica that is promoted
// has never heard of the leader, and nor has the candidate that starts there.
func TestCoolDownSurvivesAFailoverThatLosesTheLeader(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	elections.FailoverThatForgets(t, elections.Failover{
		Before: func(tb testing.TB) store.Store {
			return over(tb, dial(tb, p.master.Addr()), redisstore.Options{Fenced: true})
		},
		After: func(tb testing.TB) store.Store {
			return over(tb, dial(tb, p.replica.Addr()), redisstore.Options{Fenced: true})
		},
		Part:   func() { p.link.Hold(natslab.ToServer, natslab.ToClient) },
		Happen: p.failOver,
	})
	p.master.Thaw() // so that a can be stopped
}
