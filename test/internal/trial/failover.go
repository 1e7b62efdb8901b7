package trial

import (
	"context"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/natslab"
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
	// Again tells that revisions are given a second time, so that the terms of
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
	watch := lookout.Keep(t)
	join := func(id string, st store.Store) leader.Election {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "forgotten", InstanceID: id, TTL: 5 * time.Second, HeartbeatInterval: 500 * time.Millisecond,
			Hooks: leader.Hooks{Transition: func(leader.Transition) { watch.Look() }},
		})
		if err != nil {
			t.Fatal(err)
		}
		watch.Add(id, e)
		if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Stop() })
		return e
	}
	f.Part()
	a := join("a", f.Before(t))
	Await(t, "a leads", a.IsLeader) // a lease after the registers were made, so that their age keeps nobody waiting
	first := a.Term()
	f.Happen()
	st := f.After(t)
	if e := Get(t, st, "forgotten"); e.Revision != 0 {
		t.Fatalf("what took the primary's place knows %+v", e)
	}
	b := join("b", st)
	t.Logf("as b starts, a leads: %t", a.IsLeader())
	Await(t, "b leads", b.IsLeader)
	if !f.Again && !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}
}

// RestartThatForgets is [FailoverThatForgets] of one server, which keeps
// nothing and is reached by the address that open is given. restart ends it and
// has it serve again. The leader of before is cut off from it until a candidate
// leads that has never heard of it.
func RestartThatForgets(t *testing.T, addr string, open func(tb testing.TB, addr string) store.Store, restart func(), again bool) {
	t.Helper()
	way := natslab.NewProxy(t, addr)
	FailoverThatForgets(t, Failover{
		Before: func(tb testing.TB) store.Store { return open(tb, way.Addr()) },
		After:  func(tb testing.TB) store.Store { return open(tb, addr) },
		Part:   func() { /* there is no other server */ },
		Happen: func() { way.Hold(natslab.ToServer, natslab.ToClient); restart() },
		Again:  again,
	})
	way.Resume() // so that the leader of before can be stopped
}
