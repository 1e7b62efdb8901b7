package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

var caps = storetest.Caps{
	MaxValue:  redisstore.MaxValue,
	NoVisible: "Redis has no deletion that keeps a value: the record's first line marks it",
}

// prefixes makes them unique.
var prefixes atomic.Int64

// registers are those below a new prefix.
func registers(srv *databases.Redis, opts redisstore.Options, tweaks ...func(*redis.Options)) judge.Registers {
	opts.Prefix = fmt.Sprintf("judged%d:", prefixes.Add(1))
	name := func(key string) string { return opts.Prefix + key }
	at := func(tb testing.TB, addr string) store.Store { return over(tb, dial(tb, addr, tweaks...), opts) }
	return judge.Registers{
		At: at,
		Harness: storetest.Harness{
			Open: func(tb testing.TB) store.Store {
				st := over(tb, dial(tb, srv.Addr()), redisstore.Options{Prefix: opts.Prefix})
				st.Pace(200 * time.Millisecond) // a foreign deletion causes no notification
				return st
			},
			Delete:    func(key string) error { _, err := srv.Say("DEL", name(key)); return err },
			Put:       func(key string, value []byte) error { _, err := srv.Say("SET", name(key), string(value)); return err },
			Purge:     func(key string) error { _, err := srv.Say("UNLINK", name(key)); return err },
			Interrupt: func() error { srv.Kill(); srv.Run(); return nil },
		},
		Writes: func() int64 { return scripts(srv) },
		Lend: func(tb testing.TB) judge.Loan {
			rdb := dial(tb, srv.Addr())
			return judge.Loan{
				Store: over(tb, rdb, opts),
				Works: func() error { return rdb.Ping(trial.Within(tb)).Err() },
				End:   rdb.Close,
			}
		},
	}
}

// on returns a server as a subject.
func on(srv *databases.Redis, opts redisstore.Options, tweaks ...func(*redis.Options)) judge.Subject {
	return judge.Subject{
		Registers: func(testing.TB) judge.Registers { return registers(srv, opts, tweaks...) },
		Addrs:     []string{srv.Addr()},
		Processes: []judge.Process{judge.ProcessOf("the server", srv)},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject { return on(databases.StartRedis(tb), redisstore.Options{}) },
		trial.Flags(judge.Options{Caps: caps, LateWritesLand: true}))
}

// A server that keeps nothing on its disk forgets who leads when it is
// restarted.
func TestAServerThatForgets(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		s := on(databases.StartRedis(tb, "--appendonly", "no"), redisstore.Options{})
		s.Processes[0].Forgets = true
		return s
	}, trial.Flags(judge.Options{CoolsDown: true, Cases: []judge.Case{judge.Elections, judge.Outlived, judge.Forgotten}}))
}

// A store that waits for the only replica loses no acknowledged write, and none
// that was read, when that takes the master's place.
func TestAPairThatWaits(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		p := newPair(tb)
		s := on(p.master, redisstore.Options{Wait: 1})
		s.FailOver = p.succeed
		s.Processes = []judge.Process{
			{Name: "the master", Freeze: func() { p.master.Freeze() }, Thaw: func() { p.master.Thaw() }},
			{Name: "the replica", Freeze: func() { p.replica.Freeze() }, Thaw: func() { p.replica.Thaw() }},
		}
		return s
	}, trial.Flags(judge.Options{Cases: []judge.Case{judge.Faults, judge.Outlived}, Keys: 8}))
}

// The client repeats by default what got no answer. A repetition conflicts with
// the write that it repeats.
func TestWritesAreSentOnceWhateverTheClientRepeats(t *testing.T) {
	t.Parallel()
	for name, retries := range map[string]int{"as made by default": 0, "of many retries": 10} {
		for _, wait := range []int{0, 1} { // with WAIT a write goes another way
			t.Run(fmt.Sprintf("a client %s, wait %d", name, wait), func(t *testing.T) {
				judge.Run(t, func(tb testing.TB) judge.Subject {
					return on(newPair(tb).master, redisstore.Options{Wait: wait}, func(o *redis.Options) { o.MaxRetries = retries })
				}, trial.Flags(judge.Options{Cases: []judge.Case{judge.LostAnswers}}))
			})
		}
	}
}
