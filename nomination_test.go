package leader_test

import (
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
	case faultstore.Broadcast:
		c.calls["broadcasts"]++ // and once more for each who listens
		return faultstore.Fate{Delay: time.Duration(c.rng.Int64N(int64(c.late)))}
	case faultstore.Event:
		return faultstore.Fate{Delay: time.Duration(c.rng.Int64N(int64(c.late)))}
	case faultstore.CompareAndSwap, faultstore.Get:
		c.calls[fmt.Sprint(call.Op, " ", call.Key)]++
		return faultstore.Fate{Delay: time.Duration(50+c.rng.IntN(100)) * time.Microsecond}
	default:
		return faultstore.Fate{}
	}
}

// take returns the counts since the last call, where so many listen: writes of
// the record, nominations, and all other calls.
func (c *tap) take(listen int) (claims, nominations, others int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cas := fmt.Sprint(faultstore.CompareAndSwap, " g")
	claims, nominations = c.calls[cas], c.calls["broadcasts"]/(1+listen)
	delete(c.calls, cas)
	delete(c.calls, "broadcasts")
	for _, n := range c.calls {
		others += n
	}
	clear(c.calls)
	return claims, nominations, others
}

// A leader crashes among two hundred, which take four milliseconds to hear of
// any write: one of them succeeds it, by one claim, as soon as the lease has
// run out. Without nominations dozens claimed.
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
		var claims, nominations, others []int
		for range 5 {
			time.Sleep(10 * ttl)
			i := slices.IndexFunc(es, leader.Election.IsLeader)
			if i < 0 {
				t.Fatal("nobody leads")
			}
			net.BlackHole(fmt.Sprint("c", i))
			time.Sleep(trust)
			_, n, _ := tap.take(many - 1)
			time.Sleep(wait - trust + 50*time.Millisecond)
			if !slices.ContainsFunc(es, leader.Election.IsLeader) {
				t.Errorf("nobody leads %v after the crash", wait+50*time.Millisecond)
			}
			c, late, o := tap.take(many - 1)
			claims, nominations, others = append(claims, c), append(nominations, n+late), append(others, o)
			net.Heal(fmt.Sprint("c", i))
		}
		t.Logf("claims %v, nominations %v, others %v", claims, nominations, others)
		for _, counts := range [][]int{claims, nominations, others} {
			slices.Sort(counts)
			if counts[len(counts)/2] > 10 {
				t.Errorf("claims %v, nominations %v, others %v", claims, nominations, others)
			}
		}
	})
}

// A townCrier is what is broadcast for group g, as one that is no candidate
// hears it.
type townCrier struct {
	mu   sync.Mutex
	said []record.Nomination
}

func listening(t *testing.T, net *faultstore.Faults) *townCrier {
	t.Helper()
	c := &townCrier{}
	stop, err := net.Client("crier").Listen("g", 1<<20, func(b []byte) {
		c.mu.Lock()
		defer c.mu.Unlock()
		n, ok := record.ReadNomination(b)
		if !ok {
			t.Errorf("heard %q", b)
		}
		c.said = append(c.said, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return c
}

// nominee returns who was nominated so far for the record that stands there.
func (c *townCrier) nominee(revision uint64) string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var last record.Nomination
	for _, n := range c.said {
		if n.Revision == revision && n.Replaces(last) {
			last = n
		}
	}
	return last.Nominee
}

// A nominee that dies with the leader costs the others the head start and a
// random delay, and no more.
func TestANomineeThatDiesIsSucceededByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, es := network(t, nil), map[string]leader.Election{}
		crier := listening(t, net)
		for _, id := range []string{"a", "b", "c"} {
			es[id] = start(t, net.Client(id), config(id))
		}
		time.Sleep(2*heartbeat + heartbeat/2)
		net.BlackHole("a")
		time.Sleep(trust)
		nominee := crier.nominee(net.Entry("g").Revision)
		other := map[string]string{"b": "c", "c": "b"}[nominee]
		if other == "" {
			t.Fatalf("the nominee is %q", nominee)
		}
		net.BlackHole(nominee)
		time.Sleep(wait - trust + 2*ttl/10)
		mustLead(t, es[other], es["a"], es[nominee])
	})
}

// A nomination is for one renewal: a leader that is heard of again is not
// succeeded, and when it dies later the nominee is who stood up for that.
func TestARenewalCallsANominationOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deaf atomic.Bool
		net := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Lose: deaf.Load() && c.Op == faultstore.Event && c.Client == "b" && c.Key == "g"}
		})
		crier := listening(t, net)
		a, b := start(t, net.Client("a"), config("a")), start(t, net.Client("b"), config("b"))
		time.Sleep(2*heartbeat + heartbeat/2)
		early := net.Entry("g").Revision
		deaf.Store(true)
		time.Sleep(ttl)
		deaf.Store(false)
		if n := crier.nominee(early); n != "b" {
			t.Fatalf("b hears nothing, and the nominee is %q", n)
		}
		time.Sleep(2 * ttl)
		mustLead(t, a, b)
		net.BlackHole("a")
		last := net.Entry("g").Revision
		time.Sleep(wait + heartbeat)
		mustLead(t, b, a)
		if n := crier.nominee(last); n != "b" {
			t.Errorf("the nominee is %q", n)
		}
	})
}

// Two may nominate themselves before they hear of each other. The others hear
// them in any order, and all take the same one for the nominee.
func TestOfTwoNomineesTheLeastGoesFirst(t *testing.T) {
	for _, order := range [][]string{{"b", "c"}, {"c", "b"}, {"c", "b", "c"}} {
		synctest.Test(t, func(t *testing.T) {
			net := network(t, nil)
			a, b := start(t, net.Client("a"), config("a")), start(t, net.Client("b"), config("b"))
			c := start(t, net.Client("c"), config("c"))
			time.Sleep(2*heartbeat + heartbeat/2)
			net.BlackHole("a")
			// Half of the lease has passed, and nobody is nominated yet.
			time.Sleep(heartbeat + heartbeat/2 - 1)
			for _, id := range order {
				say(t, net, record.Nomination{Nominee: id, Revision: net.Entry("g").Revision})
			}
			time.Sleep(wait - ttl/2 - heartbeat/2 + 1)
			mustLead(t, b, a, c)
		})
	}
}

// say broadcasts something as one that is no candidate.
func say(t *testing.T, net *faultstore.Faults, n record.Nomination) {
	t.Helper()
	b, err := n.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := net.Client("crier").Broadcast(t.Context(), "g", b); err != nil {
		t.Error(err)
	}
}

// Who says that somebody else is nominated, or that it is for another record,
// gains nothing: the lease is waited for, and then for no longer than a head
// start and as much again.
func TestForgedNominationsDelayNobodyForLong(t *testing.T) {
	for _, forged := range []record.Nomination{{Nominee: "nobody"}, {Nominee: "b"}, {Nominee: "b", Revision: 1 << 53}} {
		synctest.Test(t, func(t *testing.T) {
			net := network(t, nil)
			a, b := start(t, net.Client("a"), config("a")), start(t, net.Client("b"), config("b"))
			time.Sleep(2*heartbeat + heartbeat/2)
			net.BlackHole("a")
			for range 60 {
				time.Sleep(heartbeat/20 - 1)
				n := forged
				if n.Revision == 0 {
					n.Revision = net.Entry("g").Revision
				}
				say(t, net, n)
				time.Sleep(time.Nanosecond)
				if a.IsLeader() && b.IsLeader() {
					t.Fatal("two lead")
				}
			}
			time.Sleep(wait - 3*heartbeat + 2*ttl/10)
			mustLead(t, b, a)
		})
	}
}

// A store that carries no broadcasts is one over which nobody is nominated, and
// everything else works.
func TestWithoutBroadcastsNobodyIsNominated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, nil)
		crier := listening(t, net)
		a, b := start(t, watched{net.Client("a")}, config("a")), start(t, watched{net.Client("b")}, config("b"))
		for range 3 { // each falls silent again when the other has found out that nobody can be told
			time.Sleep(2*heartbeat + heartbeat/2)
			mustLead(t, a, b)
			net.BlackHole("a")
			time.Sleep(wait + jitter)
			mustLead(t, b, a)
			net.Heal("a")
			time.Sleep(heartbeat)
			if err := b.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(crier.said) != 0 {
			t.Errorf("heard %v", crier.said)
		}
	})
}

// A watched store can watch, and nothing more.
type watched struct{ store.Watcher }

// A manager that chooses which roles its instance leads has an order of its
// own, and nominates nobody.
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
				crier := listening(t, net)
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
				if (len(crier.said) != 0) != c.nominates {
					t.Errorf("heard %v", crier.said)
				}
			})
		})
	}
}

// An earshot is a store that notes when its candidate begins and ends to listen
// for nominations.
type earshot struct {
	*faultstore.Client
	mu           sync.Mutex
	began, ended []time.Time
}

func (e *earshot) Listen(key string, most int, deliver func([]byte)) (func(), error) {
	stop, err := e.Client.Listen(key, most, deliver)
	e.note(&e.began)
	return func() {
		e.note(&e.ended)
		stop()
	}, err
}

func (e *earshot) note(at *[]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*at = append(*at, time.Now())
}

// A follower does not end to listen in the instant in which a thousand others
// hear of the successor, too, and the server is to acknowledge its claim. It
// ends to listen before that one can be silent, once, and the next time begins
// anew.
func TestListeningEndsWhenTheSuccessionIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, nil)
		ear := &earshot{Client: net.Client("c")}
		a := start(t, net.Client("a"), config("a"))
		var succeeded time.Time // of the latest that was promoted
		watching := func(id string) leader.ElectionConfig {
			cfg := config(id)
			cfg.Hooks.Transition = func(tr leader.Transition) {
				if tr.To == leader.StateLeader {
					succeeded = tr.At
				}
			}
			return cfg
		}
		b, c := start(t, net.Client("b"), watching("b")), start(t, ear, watching("c"))
		time.Sleep(2*heartbeat + heartbeat/4)
		for round, leads := range []leader.Election{b, c} {
			old := []leader.Election{a, b}[round]
			mustLead(t, old, leads)
			renewed := net.Entry("g")
			net.BlackHole([]string{"a", "b"}[round])
			time.Sleep(ttl/2 + heartbeat/2)
			say(t, net, record.Nomination{Nominee: []string{"b", "c"}[round], Revision: renewed.Revision})
			time.Sleep(wait - ttl/2)
			mustLead(t, leads, old)
			time.Sleep(ttl)
			mustLead(t, leads, old)
			began, ended := ear.times()
			if len(began) != round+1 || len(ended) != round+1 {
				t.Fatalf("began to listen at %v, and ended at %v", began, ended)
			}
			if after := ended[round].Sub(succeeded); after < ttl/8 || after > ttl*3/8 {
				t.Errorf("ended to listen %v after the succession", after)
			}
		}
	})
}

func (e *earshot) times() (began, ended []time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.began), slices.Clone(e.ended)
}
