package leadertest

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// An Election is a real election, which a test steers by the methods that it
// adds to [leader.Election]'s. These methods wait for their effect, and belong
// to the test's goroutine (see Time in the package documentation). They never
// wait for OnPromote to return.
type Election struct {
	leader.Election

	group *Group
	id    string
	store *Store
	// first is the callback for promotions that was registered first.
	first atomic.Pointer[func(context.Context, leader.Term)]
	// told is the token of the term for which it was called last, or would have
	// been, and news holds one after each change of it.
	told atomic.Pointer[string]
	news chan struct{}
}

// New returns an election of a separate group, in which another candidate
// leads: once it is started, it follows, until the test promotes it. Whenever
// it does not lead, the other one does, so it does not lead by itself, unless
// the other one loses the record: after [Group.DeleteRecord] either may lead.
//
// The election is not started: that is for the code under test to do, with its
// callbacks. cfg is as for [NewGroup]; the default of InstanceID is "self".
func New(tb testing.TB, cfg leader.ElectionConfig) *Election {
	tb.Helper()
	cfg.InstanceID = cmp.Or(cfg.InstanceID, defaultInstanceID)
	g := NewGroup(tb, cfg)
	e := g.Join(cfg.InstanceID)
	if e == nil {
		return nil
	}
	if err := g.join(g.rival(cfg)).Start(context.WithoutCancel(tb.Context())); err != nil {
		tb.Fatalf("leadertest: %v", err)
	}
	g.Leader()
	return e
}

// rival returns the configuration of a candidate beside cfg's, which takes part
// in the same way and calls no callbacks.
func (g *Group) rival(cfg leader.ElectionConfig) leader.ElectionConfig {
	id := "rival"
	if cfg.InstanceID == id {
		id = "rival-2"
	}
	return leader.ElectionConfig{
		Group: g.cfg.Group, InstanceID: id, TTL: g.cfg.TTL, HeartbeatInterval: g.cfg.HeartbeatInterval,
		ClockDrift: cfg.ClockDrift, Priority: cfg.Priority, Version: cfg.Version, VersionPolicy: cfg.VersionPolicy,
	}
}

// Promote makes this candidate the leader, by a handover of the current leader,
// and returns when IsLeader is true and OnPromote is being called. It does
// nothing if this candidate leads. A candidate that is not started, is cut off
// or unfit cannot lead: that fails the test.
func (e *Election) Promote() {
	e.group.tb.Helper()
	e.group.Promote(e.id)
	ctx, cancel := e.group.deadline()
	defer cancel()
	for !e.leadsAsTold() {
		select {
		case <-e.news:
		case <-ctx.Done():
			e.inVain("to lead")
			return
		}
	}
}

// OnPromote implements [leader.Election].
func (e *Election) OnPromote(f func(ctx context.Context, token string)) {
	if f != nil {
		e.OnTerm(func(ctx context.Context, term leader.Term) { f(ctx, term.Token) })
	}
}

// OnTerm implements [leader.Election].
func (e *Election) OnTerm(f func(ctx context.Context, term leader.Term)) {
	if f != nil && !e.first.CompareAndSwap(nil, &f) {
		e.Election.OnTerm(f)
	}
}

// promoted is registered before all others. It calls the first of the test's by
// itself: only one that is first is called even if the term ends meanwhile.
func (e *Election) promoted(ctx context.Context, term leader.Term) {
	e.told.Store(&term.Token)
	select {
	case e.news <- struct{}{}:
	default:
	}
	if f := e.first.Load(); f != nil {
		(*f)(ctx, term)
	}
}

// leadsAsTold reports whether it leads, and OnPromote was called for this term.
func (e *Election) leadsAsTold() bool {
	token := e.told.Load()
	return token != nil && *token == e.Token()
}

// Demote asks this candidate to step down, as an operator does (the reason is
// [leader.ReasonSteppedDown]), and returns when OnDemote has returned and the
// record shows another leader or none. It does nothing if this candidate does
// not hold the record. The candidate then stays back until another has led or a
// lease has passed.
func (e *Election) Demote() {
	e.group.tb.Helper()
	var term uint64
	e.group.await(e.id+" to step down", func(l leader.LeaderInfo) bool {
		if l.ID == e.id && term == 0 {
			term = l.Term
			e.group.ask(leader.Request{Op: leader.OpStepDown, Term: term})
		}
		return l.ID != e.id || l.Term != term
	})
}

// CutOff cuts this candidate's connection to the store, and returns at once. A
// leader leads on until its trust window closes, or until DisconnectGracePeriod
// has passed; a lease after its last renewal another candidate leads.
func (e *Election) CutOff() { e.store.CutOff() }

// Reconnect ends CutOff.
func (e *Election) Reconnect() { e.store.Reconnect() }

// Expire cuts this candidate off, and waits until its lease has run out and
// IsLeader is false. It stays cut off. The others of its group take over within
// moments: Group.Leader waits for that.
func (e *Election) Expire() {
	e.group.tb.Helper()
	e.CutOff()
	e.await("to lead no more", func() bool { return !e.IsLeader() })
	e.group.await("the lease of "+e.id+" to run out", func(l leader.LeaderInfo) bool { return l.ID != e.id })
}

// Group returns the group of this election.
func (e *Election) Group() *Group { return e.group }

// Store returns the connection of this candidate, for SetWriteOutcome.
func (e *Election) Store() *Store { return e.store }

// await waits until done is true, which it looks at whenever the candidate sees
// another leader.
func (e *Election) await(what string, done func() bool) {
	e.group.tb.Helper()
	ctx, cancel := e.group.deadline()
	defer cancel()
	for range e.Observe(ctx) {
		if done() {
			return
		}
	}
	if !done() {
		e.inVain(what)
	}
}

func (e *Election) inVain(what string) {
	e.group.tb.Helper()
	s := e.Status()
	e.group.tb.Fatalf("leadertest: waited without success for %s %s; its state is %s, %s", e.id, what, s.State, s.Reason)
}

// end stops the election, unless the test has. Of a callback that does not
// return the test hears.
func (e *Election) end() {
	e.group.tb.Helper()
	select {
	case <-e.Done():
		return
	default:
	}
	e.Reconnect()
	e.store.SetWriteOutcome(store.OK)
	if err := e.StopWithContext(context.Background(), leader.StopOptions{WaitForDemote: true}); err != nil {
		e.group.tb.Errorf("leadertest: the end of %s: %v", e.id, err)
	}
}
