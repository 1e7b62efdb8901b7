package trial

import (
	"context"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
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
	if !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}
}
