package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

func TestCheckRefusesReplicasThatMayLeadBesideTheirMaster(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for _, c := range []struct {
		name    string
		demands string // min-replicas-to-write
		lag     string // min-replicas-max-lag
		opts    redisstore.Options
		refused bool
	}{
		{"without protection", "0", "10", redisstore.Options{}, true},
		{"a demand without a lag, which the server ignores", "1", "0", redisstore.Options{}, true},
		{"the server demands a replica", "1", "10", redisstore.Options{}, false},
		{"writes wait for the replica", "0", "10", redisstore.Options{Wait: 1}, false},
		{"a guard", "0", "10", redisstore.Options{Fenced: true}, false},
	} {
		p.master.Must("CONFIG", "SET", "min-replicas-to-write", c.demands, "min-replicas-max-lag", c.lag)
		r, err := check(t, over(t, dial(t, p.master.Addr()), c.opts))
		if !c.refused {
			if err != nil || r.Forgetful != (c.opts.Wait == 0) {
				t.Errorf("%s: %+v, %v", c.name, r, err)
			}
			continue
		}
		if store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), "?wait=1") || !strings.Contains(err.Error(), "?fenced=true") {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

// leads starts a candidate on the server, and returns it when it leads.
func leads(t *testing.T, id, addr string, opts redisstore.Options) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(over(t, dial(t, addr), opts), leader.ElectionConfig{
		Group: "reports", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(trial.Within(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	trial.Await(t, id+" leads", e.IsLeader)
	return e
}

// The hole that Fenced owns up to: what two masters acknowledge has two leaders.
func TestHoleAReplicaPromotedBesideItsMasterHasASecondLeader(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	old := leads(t, "old", p.master.Addr(), redisstore.Options{Fenced: true})
	p.caughtUp("leader:reports")
	p.replica.Must("REPLICAOF", "NO", "ONE")
	leads(t, "new", p.replica.Addr(), redisstore.Options{Fenced: true})
	if !old.IsLeader() {
		t.Error("the leader at the old master gave up by itself: doc.go documents that it does not")
	}
}

func TestAnOldMasterWhoseWritesWaitForItsReplicaHasNoLeader(t *testing.T) {
	t.Parallel()
	for name, protect := range map[string]func(*pair) redisstore.Options{
		"Wait": func(*pair) redisstore.Options { return redisstore.Options{Wait: 1} },
		"min-replicas-to-write": func(p *pair) redisstore.Options {
			p.master.Must("CONFIG", "SET", "min-replicas-to-write", "1")
			return redisstore.Options{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			old := leads(t, "old", p.master.Addr(), protect(p))
			p.caughtUp("leader:reports")
			p.replica.Must("REPLICAOF", "NO", "ONE")
			trial.Await(t, "the leader at the old master gives up", func() bool { return !old.IsLeader() })
			st := over(t, dial(t, p.master.Addr()), protect(p))
			e, err := st.Get(trial.Within(t), "reports")
			if err == nil {
				_, err = st.CompareAndSwap(trial.Within(t), store.Write{Key: "reports", Expected: e.Revision, Value: []byte("v")})
			}
			if err == nil {
				t.Error("the old master acknowledges a write")
			}
		})
	}
}
