package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func config(id string) leader.ElectionConfig {
	return leader.ElectionConfig{
		Group: "g", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second, DeleteOnStop: true,
	}
}

func start(t *testing.T, st *memstore.Store, cfg leader.ElectionConfig) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestFirstCandidateLeadsAndStopHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		synctest.Wait()
		if !a.IsLeader() {
			t.Fatalf("a does not lead: %+v", a.Status())
		}
		b := start(t, st, config("b"))
		time.Sleep(10 * time.Second)
		if !a.IsLeader() || b.IsLeader() || b.LeaderID() != "a" {
			t.Fatalf("a: %+v\nb: %+v", a.Status(), b.Status())
		}
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a.IsLeader() || !b.IsLeader() || b.LeaderID() != "b" {
			t.Fatalf("a: %+v\nb: %+v", a.Status(), b.Status())
		}
		if err := b.StopWithContext(context.Background(), leader.StopOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}
