package leadertest_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leadertest"
)

func TestCandidatesOfAGroupSucceedEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		g := leadertest.NewGroup(t, leader.ElectionConfig{Group: "reports", TTL: ttl})
		members := map[string]*leadertest.Election{}
		for _, id := range []string{"a", "b", "c"} {
			members[id] = started(t, g.Join(id))
		}
		first := g.Leader()
		g.Promote("c")
		members["c"].Promote() // waits until c has heard of it
		demandLeads(t, members["c"], true)
		demandLeads(t, members["a"], false)
		demandLeads(t, members["b"], false)

		begin := time.Now()
		members["c"].Expire()
		if took := time.Since(begin); took < ttl/2 || took > 2*ttl {
			t.Errorf("from %s to c, whose lease of %v ran out in %v", first, ttl, took)
		}
		next := g.Leader()
		if next == "c" {
			t.Errorf("c leads, which is cut off")
		}
		members["c"].Reconnect()
		members[next].Demote()
		synctest.Wait()
		if id := g.Leader(); id == next {
			t.Errorf("%s leads, which has stepped down for the others", next)
		}
	})
}

// A lone candidate steps down all the same, and comes back when its wait is
// over.
func TestALoneCandidateStepsDownAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := leadertest.NewGroup(t, leader.ElectionConfig{})
		e := started(t, g.Join("a"))
		e.Promote()
		e.Demote()
		demandLeads(t, e, false)
		if id := g.Leader(); id != "a" {
			t.Errorf("%q leads", id)
		}
	})
}

func TestConfigAndStoreBelongToTheCandidate(t *testing.T) {
	g := leadertest.NewGroup(t, leader.ElectionConfig{TTL: time.Second})
	cfg := g.Config("a")
	if cfg.Group != "test" || cfg.InstanceID != "a" || cfg.TTL != time.Second || cfg.HeartbeatInterval != time.Second/3 {
		t.Errorf("%+v", cfg)
	}
	if e := g.Join("a"); e.Store() != g.Store("a") || e.Group() != g {
		t.Error("an election that joined is on another connection, or of another group")
	}
}

// In a bubble the test ends only when every goroutine has.
func TestAGroupLeavesNoGoroutineBehind(t *testing.T) {
	var ended atomic.Bool
	synctest.Test(t, func(t *testing.T) {
		g := leadertest.NewGroup(t, leader.ElectionConfig{})
		started(t, g.Join("a"))
		e := g.Join("b")
		e.OnDemote(func() { ended.Store(true) })
		started(t, e).Promote()
		e.CutOff()
	})
	if !ended.Load() {
		t.Error("the leader was not stopped")
	}
}
