package redis_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// stores opens them by an address.
func stores(t *testing.T, opts redisstore.Options) func(addr string) store.Store {
	return func(addr string) store.Store { return over(t, dial(t, addr), opts) }
}

func TestAnElectionOutlivesItsServer(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	trial.Outlive(t, time.Second, trial.NewWays(t, 3, srv.Addr()), stores(t, redisstore.Options{}), trial.Harms("the server", srv)...)
}

// A replica takes the place of a master whose writes wait for it.
func TestAnElectionOutlivesFailovers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ways := trial.NewWays(t, 3, p.master.Addr())
	failover := trial.Harm{Name: "failover", Happen: func(*trial.Party) {
		p.succeed(rand.New(rand.NewPCG(rand.Uint64(), 0)), ways)
	}}
	trial.Outlive(t, time.Second, ways, stores(t, redisstore.Options{Wait: 1}),
		failover,
		trial.Lasting("the master is frozen until nobody leads", func() { p.master.Freeze() }, func() { p.master.Thaw() }),
		trial.Lasting("the replica is frozen until nobody leads", func() { p.replica.Freeze() }, func() { p.replica.Thaw() }),
		failover,
	)
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
	party := trial.NewParty(t, time.Second)
	for _, id := range []string{"a", "b", "c"} {
		s, err := store.Open(trial.Within(t), fmt.Sprintf("redis://%s?master=lab&wait=1", sentinel.Addr()), redisstore.Driver())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		party.Join(id, s)
	}
	party.Outlives(trial.Harm{Name: "Sentinel promotes the replica of a frozen master", Happen: func(*trial.Party) {
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

// The servers of these two keep nothing on their disk: a restart forgets who
// leads.
func TestAnElectionOutlivesAServerThatForgets(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t, "--appendonly", "no")
	trial.Outlive(t, time.Second, trial.NewWays(t, 3, srv.Addr()), stores(t, redisstore.Options{}), trial.HarmsThatForget("the server", srv)...)
}

func TestCoolDownSurvivesARestartThatForgets(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t, "--appendonly", "no")
	open := func(tb testing.TB, addr string) store.Store { return over(tb, dial(tb, addr), redisstore.Options{}) }
	trial.RestartThatForgets(t, srv.Addr(), open, func() { srv.Kill(); srv.Run() }, false)
}

func TestElectionsThatCoolDown(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t, "--appendonly", "no")
	elections.Run(t, elections.Harness{
		Open:      func(t testing.TB) store.Store { return over(t, dial(t, srv.Addr()), redisstore.Options{}) },
		Delete:    func(key string) error { _, err := srv.Say("DEL", "leader:"+key); return err },
		CoolsDown: true,
	})
}
