package app_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

func TestMembersAreDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := []*memstore.Store{memstore.New(), memstore.New(), memstore.New()}
		q, err := quorumstore.New([]quorumstore.Member{
			{Name: "a", Store: stores[0]}, {Name: "b", Store: stores[1]}, {Name: "c", Store: stores[2]},
		}, quorumstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close() //nolint:errcheck // it never fails
		demand := func(when string, want ...string) {
			t.Helper()
			synctest.Wait() // the last member takes a write after its acknowledgement
			members, err := app.Members(t.Context(), q, "g")
			if err != nil || len(members) != len(want) {
				t.Fatalf("%s: %v, %v", when, members, err)
			}
			for i, m := range members {
				if got := m.String(); got != want[i] && (m.State != app.MemberRefuses || !strings.HasPrefix(got, want[i])) {
					t.Errorf("%s: %s is described as %q, want %q", when, m.Name, got, want[i])
				}
			}
		}
		expected := uint64(0)
		write := func() {
			t.Helper()
			if expected, err = q.CompareAndSwap(t.Context(), store.Write{Key: "g", Expected: expected, Value: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		demand("of a group that nobody led", "no value yet", "no value yet", "no value yet")
		write()
		demand("after a write", "up to date", "up to date", "up to date")
		old, err := stores[1].Get(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		write()
		stores[1].Restore([]store.Entry{old}, old.Revision)
		stores[2].Restore(nil, 0)
		demand("after one went back and one was wiped", "up to date", "1 write behind", "no memory")
		stores[2].Restore([]store.Entry{apptest.Stranger(t, "g")}, 1)
		demand("after one was taken from another quorum", "up to date", "1 write behind", fmt.Sprintf("refuses: key %q belongs to", "g"))
		if all, err := app.Members(t.Context(), stores[0], "g"); len(all) > 0 || err != nil {
			t.Errorf("of a store that is no quorum: %v, %v", all, err)
		}
	})
}
