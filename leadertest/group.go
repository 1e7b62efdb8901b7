package leadertest

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
)

// The settings of an empty configuration. The lease is long, so that a busy
// machine costs no term by the clock; in virtual time it costs nothing.
const (
	defaultGroup      = "test"
	defaultInstanceID = "self"
	defaultTTL        = 10 * time.Second
)

// patience is how long a method waits for what has to come, at least.
const patience = time.Minute

// A Group is one election in a store in memory, with any number of candidates,
// each on a separate connection. Its methods may be called concurrently; those
// that wait belong to the test's goroutine (see Time in the package
// documentation).
type Group struct {
	tb      testing.TB
	cfg     leader.ElectionConfig
	network *faultstore.Faults
	control *leader.Control

	mu        sync.Mutex
	stores    map[string]*Store
	elections []*Election
}

// NewGroup returns a group without candidates. cfg is the configuration that
// they share; its InstanceID is not used. Zero fields in it get the package's
// defaults: Group "test", TTL 10 s, HeartbeatInterval a third of TTL at most 1
// s. A configuration that is invalid fails the test when a candidate joins.
//
// When the test ends, the elections of [Group.Join] are stopped. The test has
// to end before what it runs on [Group.Store].
func NewGroup(tb testing.TB, cfg leader.ElectionConfig) *Group {
	tb.Helper()
	cfg.Group = cmp.Or(cfg.Group, defaultGroup)
	cfg.TTL = cmp.Or(cfg.TTL, defaultTTL)
	cfg.HeartbeatInterval = cmp.Or(cfg.HeartbeatInterval, min(cfg.TTL/3, time.Second))
	g := &Group{tb: tb, cfg: cfg, network: faultstore.New(faultstore.Options{}), stores: map[string]*Store{}}
	tb.Cleanup(g.end)
	control, err := leader.NewControlWithStore(g.network.Client(operator), operator)
	if err != nil {
		tb.Fatalf("leadertest: %v", err)
	}
	g.control = control
	return g
}

// operator is the client by which the group is steered and looked at.
const operator = "leadertest"

// Config returns the configuration of the candidate named id: the group's, with
// this InstanceID.
func (g *Group) Config(id string) leader.ElectionConfig {
	cfg := g.cfg
	cfg.InstanceID = id
	return cfg
}

// Store returns the connection of the candidate named id, the same at each
// call. It is for code that makes its own election; [Group.Join] uses it
// itself.
func (g *Group) Store(id string) *Store {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stores[id]
	if s == nil {
		s = &Store{connection: g.network.Client("candidate " + id), group: g, id: "candidate " + id}
		g.stores[id] = s
	}
	return s
}

// Join returns a new candidate named id, on its own connection. It is not
// started: register callbacks, or hand it to the code under test, which starts
// it. When the test ends it is connected again and stopped, and a callback that
// does not return then fails the test.
func (g *Group) Join(id string) *Election {
	g.tb.Helper()
	return g.join(g.Config(id))
}

func (g *Group) join(cfg leader.ElectionConfig) *Election {
	g.tb.Helper()
	st := g.Store(cfg.InstanceID)
	e, err := leader.NewElectionWithStore(st, cfg)
	if err != nil {
		g.tb.Fatalf("leadertest: %v", err)
		return nil
	}
	joined := &Election{Election: e, group: g, id: cfg.InstanceID, store: st, news: make(chan struct{}, 1)}
	e.OnTerm(joined.promoted)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.elections = append(g.elections, joined)
	return joined
}

// Leader waits until a candidate holds the group's record and returns its
// InstanceID. A leader that has just been cut off holds it until its lease runs
// out: [Election.Expire] waits for that.
func (g *Group) Leader() string {
	g.tb.Helper()
	return g.await("somebody to lead", func(l leader.LeaderInfo) bool { return l.ID != "" }).ID
}

// Promote has the present leader, if there is another one, hand over to the
// candidate named id, and waits until that one holds the group's record. The
// candidate has to be started, and connected.
func (g *Group) Promote(id string) {
	g.tb.Helper()
	var asked uint64
	g.await(id+" to lead (was it started?)", func(l leader.LeaderInfo) bool {
		if l.ID != "" && l.ID != id && l.Term != asked {
			asked = l.Term
			g.ask(leader.Request{Op: leader.OpTransfer, Term: l.Term, Successor: id})
		}
		return l.ID == id
	})
}

// DeleteRecord deletes the group's record, as an operator does by nats kv del.
func (g *Group) DeleteRecord() { g.network.Delete(g.cfg.Group) }

// ask makes a request of the leader of a term.
func (g *Group) ask(r leader.Request) {
	g.tb.Helper()
	r.Group, r.Why = g.cfg.Group, "the test wants it so"
	ctx, cancel := g.deadline()
	defer cancel()
	if _, err := g.control.File(ctx, r); err != nil {
		g.tb.Fatalf("leadertest: %v", err)
	}
}

// await waits until done accepts what the record shows, and returns that.
func (g *Group) await(what string, done func(leader.LeaderInfo) bool) (seen leader.LeaderInfo) {
	g.tb.Helper()
	ctx, cancel := g.deadline()
	defer cancel()
	for info, err := range leader.ObserveWithStore(ctx, g.network.Client(operator), g.cfg.Group) {
		if err != nil {
			g.tb.Fatalf("leadertest: %v", err)
			return seen
		}
		seen = info
		if done(info) {
			return seen
		}
	}
	g.tb.Fatalf("leadertest: waited without success for %s; the record shows %q, %s", what, seen.ID, seen.Reason)
	return seen
}

// deadline returns the context of a call that must not wait for ever.
func (g *Group) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), max(patience, 5*g.cfg.TTL))
}

// end stops what the group started.
func (g *Group) end() {
	g.tb.Helper()
	g.mu.Lock()
	elections := g.elections
	g.mu.Unlock()
	for _, e := range elections {
		e.end()
	}
	g.network.Close()
}
