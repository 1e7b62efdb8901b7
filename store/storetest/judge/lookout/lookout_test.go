package lookout

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Two stores are two groups, each with a leader.
func TestTwoLeadersAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Lookout{}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go l.sample(ctx)
		one, two := memstore.New(), memstore.New()
		l.Add("a", start(t, one, "a"))
		l.Add("b", start(t, one, "b"))
		time.Sleep(time.Minute)
		if fault := l.seen(); fault != "" {
			t.Errorf("of one group: %s", fault)
		}
		l.Add("c", start(t, two, "c"))
		time.Sleep(time.Minute)
		if fault := l.seen(); !strings.HasPrefix(fault, "two leaders at one instant: ") || !strings.Contains(fault, "c in") {
			t.Errorf("of two groups: %q", fault)
		}
	})
}

func TestPairsLeaveOutACandidateThatEndsWhileAnotherIsAsked(t *testing.T) {
	terms := map[string]int{"a": 1, "b": 1, "c": 2}
	asked := func(who string) int {
		if who == "b" {
			terms["a"] = 0
		}
		return terms[who]
	}
	var found []string
	for a, b := range Pairs([]string{"a", "b", "c"}, asked) {
		found = append(found, a+b)
	}
	if !slices.Equal(found, []string{"bc"}) {
		t.Errorf("%q, want b and c", found)
	}
}

func start(t *testing.T, st store.Store, id string) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Bucket: "b", Group: "g", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e
}
