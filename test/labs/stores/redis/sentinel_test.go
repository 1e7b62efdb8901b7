package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A store by Sentinel goes on at the replica that Sentinel promotes.
func TestStoreFollowsSentinelToTheNextMaster(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	sentinel := databases.StartSentinel(t, "lab", p.master)
	trial.Await(t, "Sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.Must("INFO", "sentinel"), "status=ok") && strings.Contains(sentinel.Must("INFO", "sentinel"), "slaves=1")
	})
	own := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "lab", SentinelAddrs: []string{sentinel.Addr()}})
	t.Cleanup(func() { _ = own.Close() })
	opened, err := store.Open(trial.Within(t), fmt.Sprintf("redis://%s?master=lab&fenced=true", sentinel.Addr()), redisstore.Driver())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	byURL, ok := opened.(*redisstore.Store)
	if !ok {
		t.Fatalf("opened a %T", opened)
	}
	known := make(map[store.Store]uint64)
	all := []*redisstore.Store{over(t, own, redisstore.Options{Fenced: true}), byURL}
	for i, st := range all {
		if r, err := check(t, st); err != nil || !r.Forgetful {
			t.Errorf("Check: %+v, %v", r, err)
		}
		key := fmt.Sprint("reports", i)
		known[st] = put(t, st, key, 0, "before")
		p.caughtUp("leader:" + key)
	}
	heard := make(chan store.Entry, 64)
	stop, err := byURL.Watch(trial.Within(t), []string{"reports1"}, func(e store.Entry) { heard <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p.master.Freeze()
	for i, st := range all {
		key := fmt.Sprint("reports", i)
		natslab.Eventually(t, "a write after the failover", func(context.Context) error {
			rev, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: key, Expected: known[st], Value: []byte("after")})
			switch store.Classify(err) {
			case store.Conflict: // one of unknown outcome was applied
				if e := trial.Get(t, st, key); string(e.Value) == "after" && e.Revision > known[st] {
					return nil
				}
				t.Fatal(err)
			case store.Permanent:
				t.Fatal(err)
			case store.OK:
				if rev <= known[st] {
					t.Errorf("revision %d follows %d", rev, known[st])
				}
			case store.Transient, store.Unknown: // it is under way
			}
			return err
		})
	}
	for e := range heard {
		if string(e.Value) == "after" {
			break
		}
	}
	if role := p.replica.Must("INFO", "replication"); !strings.Contains(role, "role:master") {
		t.Errorf("the replica was not promoted: %s", role)
	}
	p.master.Thaw()
}

// Sentinel promotes the replica, and makes the former master its replica when
// that is back. Writes wait for the other, so that nobody leads meanwhile.
func TestAnElectionOutlivesAFailoverBySentinel(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	sentinel := databases.StartSentinel(t, "lab", p.master)
	trial.Await(t, "Sentinel knows the replica", func() bool {
		info := sentinel.Must("INFO", "sentinel")
		return strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1")
	})
	party := elections.NewParty(t, time.Second)
	for _, id := range []string{"a", "b", "c"} {
		s, err := store.Open(trial.Within(t), fmt.Sprintf("redis://%s?master=lab&wait=1", sentinel.Addr()), redisstore.Driver())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		party.Join(id, s)
	}
	party.Outlives(trial.Flags(judge.Options{}).Rounds, elections.Harm{Name: "Sentinel promotes the replica of a frozen master", Happen: func(*elections.Party) {
		p.master.Freeze()
		t.Cleanup(p.master.Thaw) // if it is not promoted
		trial.Await(t, "the replica is promoted", func() bool {
			info, err := p.replica.Say("INFO", "replication") // it hangs up on its clients when it is promoted
			return err == nil && strings.Contains(info, "role:master")
		})
		p.master.Thaw()
		p.master, p.replica = p.replica, p.master
	}})
}
