package trial

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var outlive = flag.Int("outlive", 1, "how often an election has to outlive each of its harms")

// A Party is the candidates of one group, under watch for two leaders at one
// instant: the test fails if there are.
type Party struct {
	t       *testing.T
	ttl     time.Duration
	lookout *lookout.Lookout
	members []member

	mu    sync.Mutex
	notes []string // the kinds
	terms int      // how many have begun
}

type member struct {
	id string
	leader.Election
}

// NewParty returns a party without candidates, who will have leases of that
// length.
func NewParty(t *testing.T, ttl time.Duration) *Party {
	t.Helper()
	return &Party{t: t, ttl: ttl, lookout: lookout.Keep(t)}
}

// Join starts a candidate over the store, until the test ends.
func (p *Party) Join(id string, st store.Store) leader.Election {
	p.t.Helper()
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "g", InstanceID: id, TTL: p.ttl, HeartbeatInterval: p.ttl / 4, Hooks: leader.Hooks{Note: p.note, Transition: p.transition},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.lookout.Add(id, e)
	p.members = append(p.members, member{id, e})
	if err := e.Start(context.WithoutCancel(p.t.Context())); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		// The server may be gone.
		_ = e.StopWithContext(Within(p.t), leader.StopOptions{WaitForDemote: true})
	})
	return e
}

// transition looks at once: whoever begins to lead while another still does is
// seen then, however short that is.
func (p *Party) transition(t leader.Transition) {
	p.lookout.Look()
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.To == leader.StateLeader {
		p.terms++
	}
}

func (p *Party) note(n leader.Note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, n.Kind)
}

// Noted is how many notes of the kind there were.
func (p *Party) Noted(kind string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.notes {
		if k == kind {
			n++
		}
	}
	return n
}

// Renewed waits until a candidate leads by a renewal that left after the
// instant, and returns it and its term.
func (p *Party) Renewed(since time.Time) (by leader.Election, term uint64) {
	p.t.Helper()
	natslab.Eventually(p.t, "a candidate leads and has renewed", func(context.Context) error {
		for _, m := range p.members {
			if st := m.Status(); st.IsLeader && st.LastHeartbeat.After(since) {
				by, term = m.Election, st.Term
				return nil
			}
		}
		return p.told()
	})
	return by, term
}

// settles waits until a candidate leads by a renewal that left after the
// instant, and the others know that. It returns its term.
func (p *Party) settles(since time.Time) (term uint64) {
	p.t.Helper()
	natslab.Eventually(p.t, "a candidate leads and has renewed, and the others follow", func(context.Context) error {
		for _, m := range p.members {
			if st := m.Status(); st.IsLeader && st.LastHeartbeat.After(since) && p.follow(m.id) {
				term = st.Term
				return nil
			}
		}
		return p.told()
	})
	return term
}

// follow reports whether all others know that the candidate leads.
func (p *Party) follow(id string) bool {
	for _, m := range p.members {
		if st := m.Status(); m.id != id && (st.State != leader.StateFollower || st.LeaderID != id) {
			return false
		}
	}
	return true
}

// told is what the candidates say of themselves.
func (p *Party) told() error {
	var all []error
	for _, m := range p.members {
		st := m.Status()
		all = append(all, fmt.Errorf("%s: %s (%s), leader %q, %s, %s", m.id, st.State, st.Reason, st.LeaderID, st.ConnectionStatus, fmt.Sprint(st.LastError)))
	}
	return errors.Join(all...)
}

// leading waits until a candidate leads, and returns which.
func (p *Party) leading() (at int) {
	p.t.Helper()
	Await(p.t, "a candidate leads", func() bool {
		for i, m := range p.members {
			if m.IsLeader() {
				at = i
				return true
			}
		}
		return false
	})
	return at
}

// Nobody waits until nobody leads.
func (p *Party) Nobody() {
	p.t.Helper()
	Await(p.t, "nobody leads", func() bool {
		for _, m := range p.members {
			if m.IsLeader() {
				return false
			}
		}
		return true
	})
}

// another waits until one leads who is not the candidate at that place.
func (p *Party) another(at int) {
	p.t.Helper()
	Await(p.t, "another candidate leads than "+p.members[at].id, func() bool {
		for i, m := range p.members {
			if i != at && m.IsLeader() {
				return true
			}
		}
		return false
	})
}

// lasts does harm, waits for what it is to bring about, and undoes it; the
// latter even if the test fails meanwhile, so that the candidates can be
// stopped.
func (p *Party) lasts(harm, await, undo func()) {
	p.t.Helper()
	once := sync.OnceFunc(undo)
	p.t.Cleanup(once)
	harm()
	await()
	once()
}

// A Harm befalls the servers of a party, or the ways to them.
type Harm struct {
	Name string
	// Happen does the harm. When it returns, all is well again.
	Happen func(p *Party)
	// Forgets tells that the servers lose what they acknowledged: whoever leads
	// then, leads in a later term than anybody before.
	Forgets bool
	// Again tells that the servers give revisions a second time, so that terms
	// of before and after are not compared.
	Again bool
}

// Lasting is a harm that begins, lasts until nobody leads, and ends.
func Lasting(name string, begin, end func()) Harm {
	return Harm{Name: name, Happen: func(p *Party) { p.lasts(begin, p.Nobody, end) }}
}

// A Harmed server keeps its address, and what it has on its disk. Run waits
// until it serves.
type Harmed interface {
	Kill()
	Run()
	Freeze()
	Thaw()
}

// Harms are those of a server, which has a name in them. It is frozen, and
// gone, for longer than a lease.
func Harms(name string, s Harmed) []Harm {
	return []Harm{ // first those that kill
		{Name: name + " is killed and restarted", Happen: func(*Party) { s.Kill(); s.Run() }},
		Lasting(name+" is killed, and restarted when nobody leads", s.Kill, s.Run),
		Lasting(name+" is frozen until nobody leads", s.Freeze, s.Thaw),
	}
}

// HarmsThatForget are [Harms] of a server that keeps nothing on its disk.
func HarmsThatForget(name string, s Harmed) []Harm {
	all := Harms(name, s)
	for i := range all[:2] {
		all[i].Forgets = true
	}
	return all
}

// Harms are those of the ways of a party, whose candidates have one each, in
// the order in which they joined. A leader whose way is spoiled must have ended
// its term before another begins one; and what was held of it arrives when that
// one leads.
func (ws Ways) Harms() []Harm {
	all := func(do func(*natslab.Proxy)) func() {
		return func() {
			for _, w := range ws {
				do(w)
			}
		}
	}
	leaders := func(hold ...natslab.Direction) func(*Party) {
		return func(p *Party) {
			at := p.leading()
			p.lasts(func() { ws[at].Hold(hold...) }, func() { p.another(at) }, ws[at].Resume)
		}
	}
	// A lease counts from when its renewal left, and not from the answer.
	late := func(p *Party) {
		at := p.leading()
		p.lasts(func() { ws[at].Delay(p.ttl*3/10, natslab.ToClient) }, func() {
			since := time.Now()
			Await(p.t, "the leader renews by late answers, or leads no more", func() bool {
				st := p.members[at].Status()
				return !st.IsLeader || st.LastHeartbeat.After(since)
			})
			ws[at].Hold(natslab.ToServer)
			p.another(at)
		}, ws[at].Resume)
	}
	return []Harm{
		{Name: "all connections are reset", Happen: func(*Party) { all((*natslab.Proxy).Reset)() }},
		Lasting("all are cut off until nobody leads", all((*natslab.Proxy).Cut), all((*natslab.Proxy).Resume)),
		{Name: "the leader's calls are held until another leads", Happen: leaders(natslab.ToServer)},
		{Name: "the answers to the leader are held until another leads", Happen: leaders(natslab.ToClient)},
		{Name: "the answers to the leader come late, and then its calls are held until another leads", Happen: late},
	}
}

// Outlives has the harms happen one after another, as often as the flag
// -outlive says. After each somebody must lead by a renewal that left when it
// was over, the others must know that, and the term must not have fallen.
func (p *Party) Outlives(harms ...Harm) {
	p.t.Helper()
	before := p.settles(time.Time{})
	for range *outlive {
		for _, h := range harms {
			begun := time.Now()
			h.Happen(p)
			over := time.Now()
			term := p.settles(over)
			p.t.Logf("%s, for %v: led and renewed again %v later, term %d before, %d after", h.Name,
				over.Sub(begun).Round(time.Millisecond), time.Since(over).Round(time.Millisecond), before, term)
			if term < before && !h.Again || term == before && h.Forgets {
				p.t.Errorf("%s: term %d after %d", h.Name, term, before)
			}
			before = term
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Logf("%d faults, %d terms", *outlive*len(harms), p.terms)
}

// Outlive has three candidates, each by a way of its own, elect while harms
// befall the servers, and those of the ways.
func Outlive(t *testing.T, ttl time.Duration, ways Ways, open func(addr string) store.Store, harms ...Harm) {
	t.Helper()
	p := NewParty(t, ttl)
	for i, w := range ways {
		p.Join(string(rune('a'+i)), open(w.Addr()))
	}
	p.Outlives(append(harms, ways.Harms()...)...)
}
