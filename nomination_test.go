package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A tap counts the calls to the store that pass through a slow network.
type tap struct {
	mu    sync.Mutex
	rng   *rand.Rand
	late  time.Duration // by which an event reaches all watches
	calls map[string]int
}

func newTap(t *testing.T, late time.Duration) *tap {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &tap{rng: rand.New(rand.NewPCG(seed, 0)), late: late, calls: map[string]int{}}
}

func (c *tap) policy(call faultstore.Call) faultstore.Fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch call.Op {
	case faultstore.Event:
		return faultstore.Fate{Delay: time.Duration(c.rng.Int64N(int64(c.late)))}
	case faultstore.CompareAndSwap, faultstore.Get:
		c.calls[fmt.Sprint(call.Op, " ", call.Key)]++
		return faultstore.Fate{Delay: time.Duration(50+c.rng.IntN(100)) * time.Microsecond}
	default:
		return faultstore.Fate{}
	}
}

// take returns the counts since the last call: writes of the record, of the control record, and reads.
func (c *tap) take() (claims, nominations, reads int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cas, get := fmt.Sprint(faultstore.CompareAndSwap, " "), fmt.Sprint(faultstore.Get, " ")
	claims, nominations = c.calls[cas+"g"], c.calls[cas+record.ControlKey("g")]
	reads = c.calls[get+"g"] + c.calls[get+record.ControlKey("g")]
	clear(c.calls)
	return claims, nominations, reads
}

// A leader crashes among two hundred, which take four milliseconds to hear of any write: one of them succeeds it, by
// one claim, as soon as the lease has run out. Without nominations dozens claimed.
func TestACrashAmongManyMakesFewClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		tap := newTap(t, many*20*time.Microsecond)
		net := network(t, tap.policy)
		es := make([]leader.Election, many)
		for i := range es {
			id := fmt.Sprint("c", i)
			es[i] = candidate(t, net.Client(id), config(id))
			if err := es[i].Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				time.Sleep(2 * heartbeat)
			}
		}
		var claims, nominations, reads []int
		for range 5 {
			time.Sleep(10 * ttl)
			i := slices.IndexFunc(es, leader.Election.IsLeader)
			if i < 0 {
				t.Fatal("nobody leads")
			}
			net.BlackHole(fmt.Sprint("c", i))
			time.Sleep(trust)
			_, n, _ := tap.take()
			time.Sleep(wait - trust + 50*time.Millisecond)
			if !slices.ContainsFunc(es, leader.Election.IsLeader) {
				t.Errorf("nobody leads %v after the crash", wait+50*time.Millisecond)
			}
			c, late, r := tap.take()
			claims, nominations, reads = append(claims, c), append(nominations, n+late), append(reads, r)
			net.Heal(fmt.Sprint("c", i))
		}
		t.Logf("claims %v, nominations %v, reads %v", claims, nominations, reads)
		for _, counts := range [][]int{claims, nominations, reads} {
			if slices.Sort(counts); counts[len(counts)/2] > 10 {
				t.Errorf("claims %v, nominations %v, reads %v", claims, nominations, reads)
			}
		}
	})
}

// dying returns a group in which a leader was cut off, and the nominee that was found then.
func dying(t *testing.T, ids ...string) (net *faultstore.Faults, es map[string]leader.Election, nominee string) {
	net, es = network(t, nil), map[string]leader.Election{}
	for _, id := range ids {
		es[id] = start(t, net.Client(id), config(id))
	}
	time.Sleep(2*heartbeat + heartbeat/2)
	mustLead(t, es[ids[0]])
	net.BlackHole(ids[0])
	time.Sleep(trust)
	synctest.Wait()
	c := controlOf(t, net.Entry(record.ControlKey("g")))
	if c.Nominee == nil || c.Nominee.Revision != net.Entry("g").Revision {
		t.Fatalf("nobody was nominated: %+v", c)
	}
	return net, es, c.Nominee.ID
}

// A nominee that dies with the leader costs the others the head start and a random delay, and no more.
func TestANomineeThatDiesIsSucceededByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, es, nominee := dying(t, "a", "b", "c")
		net.BlackHole(nominee)
		other := map[string]string{"b": "c", "c": "b"}[nominee]
		time.Sleep(wait - trust + 2*ttl/10)
		mustLead(t, es[other], es["a"], es[nominee])
	})
}

// A nomination is for one renewal: a leader that is heard of again is not succeeded, and when it dies later the nominee
// is who stood up for that.
func TestARenewalCallsANominationOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deaf atomic.Bool
		net := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Lose: deaf.Load() && c.Op == faultstore.Event && c.Client == "b" && c.Key == "g"}
		})
		a, b := start(t, net.Client("a"), config("a")), start(t, net.Client("b"), config("b"))
		time.Sleep(2*heartbeat + heartbeat/2)
		deaf.Store(true)
		time.Sleep(ttl)
		deaf.Store(false)
		early := controlOf(t, net.Entry(record.ControlKey("g"))).Nominee
		if early == nil || early.ID != "b" {
			t.Fatalf("b hears nothing, and the nominee is %+v", early)
		}
		time.Sleep(2 * ttl)
		mustLead(t, a, b)
		net.BlackHole("a")
		last := net.Entry("g").Revision
		time.Sleep(wait + jitter)
		mustLead(t, b, a)
		if n := controlOf(t, net.Entry(record.ControlKey("g"))).Nominee; n == nil || n.Revision < last || n.Revision <= early.Revision {
			t.Errorf("the nominee is %+v, the last renewal was at %d, the nominee before %+v", n, last, early)
		}
	})
}

// What others have asked for, and what a later version wrote, stands beside a nomination.
func TestANominationLeavesTheRestOfTheControlRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, nil)
		start(t, net.Client("a"), config("a"))
		start(t, net.Client("b"), config("b"))
		put(t, net.Client("ops"), record.ControlKey("g"), record.Control{
			Request: record.Request{Op: record.OpStepDown, Term: 999, By: "ops"}, Unknown: `{"quorum":3}`,
		})
		time.Sleep(2*heartbeat + heartbeat/2)
		net.BlackHole("a")
		time.Sleep(trust)
		synctest.Wait()
		c := controlOf(t, net.Entry(record.ControlKey("g")))
		if c.Nominee == nil || c.By != "ops" || c.Unknown != `{"quorum":3}` {
			t.Errorf("%+v", c)
		}
	})
}

// What nobody can read is not written over.
func TestNobodyNominatesItselfOverWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, nil)
		a, b := start(t, net.Client("a"), config("a")), start(t, net.Client("b"), config("b"))
		net.Put(record.ControlKey("g"), []byte("garbage"))
		time.Sleep(2 * heartbeat)
		net.BlackHole("a")
		time.Sleep(wait + jitter)
		mustLead(t, b, a)
		if e := net.Entry(record.ControlKey("g")); string(e.Value) != "garbage" {
			t.Errorf("the control record is %s", e.Value)
		}
	})
}

// A candidate that may not write the control record tries it once, says so, and leads as before.
func TestACandidateThatMayNotNominateItselfLeadsAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		net := network(t, nil)
		st := refusing{net.Client("b"), &tries}
		notes := 0
		cfg := config("b")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteBid {
				notes++
			}
		}
		a, b := start(t, net.Client("a"), config("a")), start(t, st, cfg)
		for range 2 {
			time.Sleep(2 * heartbeat)
			mustLead(t, a, b)
			net.BlackHole("a")
			time.Sleep(wait + heartbeat + jitter)
			mustLead(t, b, a)
			net.Heal("a")
			time.Sleep(2 * heartbeat)
			if err := b.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if tries != 1 || notes != 1 {
			t.Errorf("%d tries, %d notes", tries, notes)
		}
	})
}

// A refusing store refuses writes of control records for good.
type refusing struct {
	*faultstore.Client
	tries *int
}

func (r refusing) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Key == record.ControlKey("g") {
		*r.tries++
		return 0, fmt.Errorf("%w: no permission to write %s", store.ErrPermanent, w.Key)
	}
	return r.Client.CompareAndSwap(ctx, w)
}

// Who polls would hear of a nomination too late, and is not bothered with one.
func TestNobodyNominatesItselfOverAStoreThatIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, nil)
		a, b := start(t, unwatched{net.Client("a")}, config("a")), start(t, unwatched{net.Client("b")}, config("b"))
		time.Sleep(2 * heartbeat)
		net.BlackHole("a")
		time.Sleep(wait + 2*heartbeat)
		mustLead(t, b, a)
		if e := net.Entry(record.ControlKey("g")); e.Revision != 0 {
			t.Errorf("the control record is %s", e.Value)
		}
	})
}

// A manager that chooses which roles its instance leads has an order of its own, and nominates nobody.
func TestAManagerThatChoosesItsRolesNominatesNobody(t *testing.T) {
	common := config("b")
	common.Group = ""
	for name, c := range map[string]struct {
		cfg       leader.RoleManagerConfig
		nominates bool
	}{
		"it takes what it gets": {leader.RoleManagerConfig{Election: common}, true},
		"it spreads roles":      {leader.RoleManagerConfig{Election: common, Spread: leader.SpreadConfig{Enabled: true}}, false},
		"it leads a few":        {leader.RoleManagerConfig{Election: common, MaxRoles: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := network(t, nil)
				a := start(t, net.Client("a"), config("a"))
				m, err := leader.NewRoleManagerWithStore(net.Client("b"), c.cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = m.Stop() })
				if err := errors.Join(m.Add(t.Context(), leader.Role{Name: "g"}), m.Start(t.Context())); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * heartbeat)
				mustLead(t, a)
				net.BlackHole("a")
				time.Sleep(wait + heartbeat)
				synctest.Wait()
				if !m.Election("g").IsLeader() {
					t.Error("the manager does not lead")
				}
				if e := net.Entry(record.ControlKey("g")); (e.Revision != 0) != c.nominates {
					t.Errorf("the control record is %q", e.Value)
				}
			})
		})
	}
}
