package leader_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// counted demands that the leader, the follower, an observer and the record say
// that the group got another leader so often.
func counted(t *testing.T, st *memstore.Store, want uint64, leads, follows leader.Election) {
	t.Helper()
	time.Sleep(heartbeat)
	mustLead(t, leads)
	infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
	if err != nil || len(infos) != 1 || infos[0].Transitions != want {
		t.Errorf("an observer sees %+v, %v; want %d transitions", infos, err, want)
	}
	for what, got := range map[string]uint64{
		"the leader": leads.Status().Transitions, "the follower": follows.Status().Transitions,
	} {
		if got != want {
			t.Errorf("%s has %d transitions, want %d", what, got, want)
		}
	}
	if n := raw(t, st)["transitions"]; want > 0 && fmt.Sprint(n) != fmt.Sprint(want) {
		t.Errorf("the record has %v transitions, want %d", n, want)
	}
}

func TestTransitionsAreCountedFromTermToTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		time.Sleep(heartbeat)
		b := start(t, st, config("b"))
		counted(t, st, 0, a, b)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		counted(t, st, 1, b, a)
		time.Sleep(10 * heartbeat) // renewals say the same
		counted(t, st, 1, b, a)
		if _, err := control(t, st).StepDown(t.Context(), "g", "maintenance"); err != nil {
			t.Fatal(err)
		}
		counted(t, st, 2, a, b)
		// A deletion that the candidates see does not make them forget.
		st.Delete("g")
		time.Sleep(3 * ttl)
		next, other := a, b
		if b.IsLeader() {
			next, other = b, a
		}
		counted(t, st, 3, next, other)
		// One of a program that does not count begins anew.
		if err := next.Stop(); err != nil {
			t.Fatal(err)
		}
		st.Put("g", []byte(`{"id":"old","token":"t","ttl":1000,"term":7}`))
		time.Sleep(10 * ttl)
		if !other.IsLeader() || other.Status().Transitions != 1 {
			t.Errorf("%+v after a record without a count", other.Status())
		}
	})
}

func TestAVacancyKeepsTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("g", []byte(`{"id":"gone","token":"t","ttl":1000,"term":7,"transitions":41}`))
		info, err := control(t, st).Vacate(t.Context(), leader.VacateRequest{Group: "g", By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		if info.Transitions != 41 {
			t.Errorf("%+v", info)
		}
		a := start(t, st, config("a"))
		time.Sleep(heartbeat)
		if s := a.Status(); !s.IsLeader || s.Transitions != 42 {
			t.Errorf("%+v", s)
		}
		if err := a.StopWithContext(t.Context(), leader.StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
			t.Fatal(err)
		}
		if infos, err := leader.SnapshotWithStore(t.Context(), st, "g"); err != nil || infos[0].ID != "" || infos[0].Transitions != 42 {
			t.Errorf("%+v, %v", infos, err)
		}
	})
}

// A leader that offers its record writes no vacancy, and its successor's record
// tells of it. It is told like one that was written.
func TestAVacancyThatNobodyWroteKeepsTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan leader.LeaderInfo, 100)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for info, err := range leader.ObserveWithStore(ctx, st, "g") {
				if err != nil {
					t.Error(err)
				}
				told <- info
			}
		}()
		time.Sleep(10 * heartbeat) // until a stands again
		if err := b.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, a, b)
		cancel()
		<-done
		for _, want := range []leader.LeaderInfo{{ID: "b", Transitions: 1}, {Reason: leader.ReasonResigned, Transitions: 1}, {ID: "a", Transitions: 2}} {
			if got := <-told; got.ID != want.ID || got.Reason != want.Reason || got.Transitions != want.Transitions {
				t.Errorf("%+v with %d transitions, want %+v", got, got.Transitions, want.Transitions)
			}
		}
	})
}

// What is only history must not cost the group a wait.
func TestACountThatIsNoneIsLeftOut(t *testing.T) {
	for _, count := range []string{"18014398509481984", "-1", "1.5", "1e3", `"many"`, "null", "[1]", "99999999999999999999999"} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			st.Put("g", []byte(`{"id":"a","token":"t","ttl":1000,"term":7,"transitions":`+count+`}`))
			infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
			if err != nil || infos[0].ID != "a" || infos[0].Transitions != 0 {
				t.Errorf("%s: %+v, %v", count, infos, err)
			}
		})
	}
}
