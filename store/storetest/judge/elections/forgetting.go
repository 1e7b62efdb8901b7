package elections

import (
	"context"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
)

// A Failover is one to a server that lacks what the former acknowledged last.
type Failover struct {
	// Before opens a store on the primary, After on the one that takes its
	// place.
	Before, After func(tb testing.TB) store.Store
	// Part has nothing more reach the one that takes its place.
	Part func()
	// Happen ends the primary, and has the other take its place.
	Happen func()
	// Again is set if revisions are given a second time, so that the terms of
	// the two are not compared.
	Again bool
}

// FailoverThatForgets judges what becomes of a leader whose record the failover
// loses, when a candidate starts right after it: there must not be two.
//
// That the candidate can win its claim, and is not kept from it by a record of
// before, is looked at. That the former leader still leads then is a matter of
// the machine's speed; it is logged.
func FailoverThatForgets(t *testing.T, f Failover) {
	t.Helper()
	f.Part()
	p := NewParty(t, 5*time.Second)
	a := p.Join("a", f.Before(t))
	p.await("a leads", a.IsLeader) // a lease after the registers were made, so that their age keeps nobody waiting
	first := a.Term()
	f.Happen()
	st := f.After(t)
	p.forgotten(st)
	b := p.Join("b", st)
	t.Logf("as b starts, a leads: %t", a.IsLeader())
	p.await("b leads", b.IsLeader)
	if !f.Again && !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}
}

// forgotten demands that the store knows nothing of the group.
func (p *Party) forgotten(st store.Store) {
	p.t.Helper()
	p.await("the group is read", func() bool {
		ctx, cancel := context.WithTimeout(p.t.Context(), patience)
		defer cancel()
		e, err := st.Get(ctx, partyGroup)
		if err == nil && e.Revision != 0 {
			p.t.Fatalf("what took the server's place knows %+v", e)
		}
		return err == nil
	})
}

// RestartThatForgets is [FailoverThatForgets] of one server, which keeps
// nothing and is reached by the address that open is given. restart ends it and
// has it serve again. The leader of before is cut off from it until a candidate
// leads that has never heard of it.
func RestartThatForgets(t *testing.T, addr string, open func(tb testing.TB, addr string) store.Store, restart func(), again bool) {
	t.Helper()
	way := relay.New(t, addr)
	FailoverThatForgets(t, Failover{
		Before: func(tb testing.TB) store.Store { return open(tb, way.Addr()) },
		After:  func(tb testing.TB) store.Store { return open(tb, addr) },
		Part:   func() { /* there is no other server */ },
		Happen: func() { way.Hold(relay.ToServer, relay.ToClient); restart() },
		Again:  again,
	})
	way.Resume() // so that the leader of before can be stopped
}
