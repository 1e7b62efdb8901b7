package redis_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/roll"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

const (
	leaseKey      = "lease" // of the old library
	leaseDuration = time.Second
	retryPeriod   = 200 * time.Millisecond
	newTTL        = leaseDuration
	newGroup      = "group"
)

// A drain is the way from a lease that is updated blindly to ours: one side
// ends before the other begins.
type drain struct {
	*testing.T
	*roll.Judge

	srv     *databases.Redis
	store   *redisstore.Store // the operator's
	release bool              // the old library's ReleaseOnCancel
}

// TestDrainFromALeaseStore takes three instances from rbroggi's lease to this
// library as docs/guides/migrating/lease-store.md describes, changes its mind once, goes
// there, back, and there again, and fails if two worked at one instant of which
// one is this library's. That page contains its output.
func TestDrainFromALeaseStore(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	loadRedis(t, srv)
	for name, release := range map[string]bool{"ReleaseOnCancel": true, "no ReleaseOnCancel": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A database each, since keys and groups have the same names.
			db := 1
			if release {
				db = 2
			}
			d := &drain{T: t, Judge: roll.Keep(t), srv: srv, release: release}
			d.toAndFro(db)
		})
	}
}

func (d *drain) toAndFro(db int) {
	operator := dial(d, d.srv.Addr(), inDatabase(db))
	d.store = over(d, operator, redisstore.Options{})
	old := func(name string) *roll.Instance { return d.old(db, name) }
	careful := func(name string) *roll.Instance { return d.ours(db, name, leader.GraceOn) }
	usual := func(name string) *roll.Instance { return d.ours(db, name, leader.GraceAuto) }

	theirs := d.starts(old)
	d.Await("the old library leads", theirs...)
	d.Idle()

	d.ends(theirs)
	ours := d.starts(careful)
	trial.Await(d, "one of this library holds the record, and does not act yet", func() bool { return !d.vacant() })
	d.ends(ours)
	d.removes(operator)
	theirs = d.starts(old)
	d.Await("the old library leads again before ours did", theirs...)
	d.Logf("to ours and back before one acted: nobody led for %v", d.Idle())

	for range 2 {
		d.ends(theirs)
		ours = d.starts(careful)
		d.Await("ours leads", ours...)
		waited := d.Idle()
		if least := newTTL * 11 / 10; waited < least {
			d.Errorf("ours acted %v after the end of the old: acts on their way have %v", waited, least)
		}
		ours = d.Replace(ours, usual, roll.Hooks{})
		d.Await("ours leads, without the grace", ours...)
		handed := d.Idle()
		d.removes(operator)

		d.ends(ours)
		if !d.vacant() {
			d.Error("ours have ended, and the record shows a leader")
		}
		d.removes(operator)
		theirs = d.starts(old)
		d.Await("the old library leads again", theirs...)
		d.Logf("nobody led for %v to ours, %v when the grace was taken out, %v back; two led for 0 s", waited, handed, d.Idle())
	}
}

func (*drain) starts(start func(name string) *roll.Instance) (all []*roll.Instance) {
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, start(name))
	}
	return all
}

// ends stops the instances, and waits until they are gone.
func (d *drain) ends(all []*roll.Instance) {
	for _, i := range all {
		i.Stop()
	}
	d.Look() // on a busy machine the next look comes late
}

// vacant reports whether our record names nobody.
func (d *drain) vacant() bool {
	e := trial.Get(d, d.store, newGroup)
	return e.Revision == 0 || e.Tombstone
}

// removes removes the old lease.
func (d *drain) removes(operator *redis.Client) {
	d.Helper()
	if err := operator.Del(trial.Within(d), leaseKey).Err(); err != nil {
		d.Fatal(err)
	}
}

// ours starts an instance that elects by this library.
func (d *drain) ours(db int, name string, grace leader.AcquireGrace) *roll.Instance {
	d.Helper()
	st := over(d, dial(d, d.srv.Addr(), inDatabase(db)), redisstore.Options{})
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: newGroup, InstanceID: name, TTL: newTTL, HeartbeatInterval: newTTL / 4, AcquireGrace: grace,
		Hooks: leader.Hooks{Transition: func(leader.Transition) { d.Look() }},
	})
	if err != nil {
		d.Fatal(err)
	}
	return d.Ours(e, name)
}

// A lease is the hash that rbroggi/redisleasestore keeps.
type lease struct {
	Holder      string `redis:"HolderIdentity"`
	Acquired    string `redis:"AcquireTime"`
	Renewed     string `redis:"RenewTime"`
	Duration    string `redis:"LeaseDuration"`
	Transitions int    `redis:"LeaderTransitions"`
}

// An oldCandidate behaves as the old library's sources do
// (rbroggi/leaderelection 427ed2c, rbroggi/redisleasestore 0f5685f), but does
// not run them. No write has a condition, not even the first one: an absent
// hash reads as a lease without a holder. A callback reports that it leads, and
// the end of its lead is reported only when it ends, so it works until then.
type oldCandidate struct {
	drain *drain
	rdb   *redis.Client
	name  string

	seen   lease     // the latest that it read or wrote
	at     time.Time // since when
	stints uint64
	stint  atomic.Uint64
}

// old starts an instance as before.
func (d *drain) old(db int, name string) *roll.Instance {
	d.Helper()
	c := &oldCandidate{drain: d, rdb: dial(d, d.srv.Addr(), inDatabase(db)), name: name}
	ctx, cancel := context.WithCancel(context.WithoutCancel(d.Context()))
	var running sync.WaitGroup
	i := d.Add(&roll.Instance{Name: name, Stint: c.stint.Load, Stop: func() { cancel(); running.Wait() }})
	running.Go(func() {
		tick := time.NewTicker(retryPeriod)
		defer tick.Stop()
		for range tick.C {
			if ctx.Err() != nil {
				break
			}
			c.turn(ctx)
		}
		c.end()
	})
	d.Cleanup(i.Stop)
	return i
}

func (c *oldCandidate) sees(l lease) { c.seen, c.at = l, time.Now() }

// turn is what a candidate does each retryPeriod.
func (c *oldCandidate) turn(ctx context.Context) {
	var there lease
	if err := c.rdb.HGetAll(ctx, leaseKey).Scan(&there); err != nil {
		return
	}
	if there != c.seen {
		c.sees(there)
	}
	renews := c.seen.Holder == c.name
	if there.Holder != "" && !renews && time.Since(c.at) <= leaseDuration {
		return
	}
	now := time.Now().Format(time.RFC3339Nano)
	own := lease{Holder: c.name, Acquired: now, Renewed: now, Duration: leaseDuration.String(), Transitions: there.Transitions + 1}
	if renews {
		own.Acquired, own.Transitions = there.Acquired, there.Transitions
	}
	if err := c.rdb.HSet(ctx, leaseKey, own).Err(); err != nil {
		return
	}
	c.sees(own)
	if !renews {
		c.stints++
		c.stint.Store(c.stints)
		c.drain.Look()
	}
}

// end is what it does when it is shut down. The release comes after the work.
func (c *oldCandidate) end() {
	c.stint.Store(0)
	if c.seen.Holder != c.name || !c.drain.release {
		return
	}
	now := time.Now().Format(time.RFC3339Nano)
	own := lease{Acquired: now, Renewed: now, Duration: leaseDuration.String(), Transitions: c.seen.Transitions}
	_ = c.rdb.HSet(trial.Within(c.drain), leaseKey, own).Err() // it is the end in any case
}

// loadRedis writes another key meanwhile, two hundred times a second.
func loadRedis(t *testing.T, srv *databases.Redis) {
	t.Helper()
	rdb := dial(t, srv.Addr())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_ = rdb.Set(ctx, "load", "x", 0).Err() // what matters is that there is something to do
			<-tick.C
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}
