package elections

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
)

// partyGroup is the group of a party, and the key of its record.
const partyGroup = "g"

// A Party is the candidates of one group, under watch for two leaders at one
// instant: the test fails if there are.
type Party struct {
	t       *testing.T
	ttl     time.Duration
	lookout *lookout.Lookout
	members []candidate

	mu    sync.Mutex
	notes []string // the kinds
	terms int      // how many have started
}

type candidate struct {
	id string
	leader.Election
}

// NewParty returns a party without candidates, whose leases will have that
// length.
func NewParty(t *testing.T, ttl time.Duration) *Party {
	t.Helper()
	return &Party{t: t, ttl: ttl, lookout: lookout.Keep(t)}
}

// Join starts a candidate over the store, until the test ends.
func (p *Party) Join(id string, st store.Store) leader.Election {
	p.t.Helper()
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: partyGroup, InstanceID: id, TTL: p.ttl, HeartbeatInterval: p.ttl / 4, Hooks: leader.Hooks{Note: p.note, Transition: p.transition},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.lookout.Add(id, e)
	p.members = append(p.members, candidate{id, e})
	if err := e.Start(context.WithoutCancel(p.t.Context())); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = e.StopWithContext(ctx, leader.StopOptions{WaitForDemote: true}) // the server may be gone
	})
	return e
}

// transition looks at once: a leader that begins while another still leads is
// seen then, however short the overlap is.
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
	p.await("a candidate leads and has renewed", func() bool {
		for _, m := range p.members {
			if st := m.Status(); st.IsLeader && st.LastHeartbeat.After(since) {
				by, term = m.Election, st.Term
				return true
			}
		}
		return false
	})
	return by, term
}

// settles waits until a candidate leads by a renewal that left after the
// instant, and the others know that. It returns its term.
func (p *Party) settles(since time.Time) (term uint64) {
	p.t.Helper()
	p.await("a candidate leads and has renewed, and the others follow", func() bool {
		for _, m := range p.members {
			if st := m.Status(); st.IsLeader && st.LastHeartbeat.After(since) && p.follow(m.id) {
				term = st.Term
				return true
			}
		}
		return false
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

// told is what the candidates report of themselves.
func (p *Party) told() error {
	var all []error
	for _, m := range p.members {
		st := m.Status()
		all = append(all, fmt.Errorf("%s: %s (%s), leader %q, %s, %s", m.id, st.State, st.Reason, st.LeaderID, st.ConnectionStatus, fmt.Sprint(st.LastError)))
	}
	return errors.Join(all...)
}

// await waits until the condition holds, and fails the test with what the
// candidates know if it never does.
func (p *Party) await(what string, holds func() bool) {
	p.t.Helper()
	for limit := time.Now().Add(patience); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(limit) {
			p.t.Fatalf("not within %v: %s: %v", patience, what, p.told())
		}
	}
}

// leading waits until a candidate leads, and returns which.
func (p *Party) leading() (at int) {
	p.t.Helper()
	p.await("a candidate leads", func() bool {
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

// Nobody waits until there is no leader.
func (p *Party) Nobody() {
	p.t.Helper()
	p.await("nobody leads", func() bool {
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
	p.await("another candidate leads than "+p.members[at].id, func() bool {
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

// Outlives has the harms happen one after another, all of them so many times.
// After each somebody must lead by a renewal that left when it was over, the
// others must know that, and the term must not have fallen.
func (p *Party) Outlives(times int, harms ...Harm) {
	p.t.Helper()
	before := p.settles(time.Time{})
	for range times {
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
	p.t.Logf("%d faults, %d terms", times*len(harms), p.terms)
}
