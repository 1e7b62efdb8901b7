package leader_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// stands demands that all say of the present term when it was acquired and when
// its record was written last: the leader, a follower, an observer, and the
// record.
func stands(t *testing.T, st *memstore.Store, acquired, renewed time.Time, leads, follows leader.Election) {
	t.Helper()
	synctest.Wait()
	said := map[string][2]time.Time{}
	for what, e := range map[string]leader.Election{"the leader": leads, "the follower": follows} {
		s := e.Status()
		said[what+"'s status"] = [2]time.Time{s.Acquired, s.Renewed}
		for info := range e.Observe(t.Context()) {
			said[what] = [2]time.Time{info.Acquired, info.Renewed}
			break
		}
	}
	infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
	if err != nil || len(infos) != 1 {
		t.Fatalf("%+v, %v", infos, err)
	}
	said["an observer"] = [2]time.Time{infos[0].Acquired, infos[0].Renewed}
	for what, got := range said {
		if !got[0].Equal(acquired.Truncate(time.Millisecond)) || !got[1].Equal(renewed.Truncate(time.Millisecond)) {
			t.Errorf("by %s acquired at %v and renewed at %v, want %v and %v", what, got[0], got[1], acquired, renewed)
		}
	}
	r := raw(t, st)
	if fmt.Sprint(r["acquired"]) != fmt.Sprint(acquired.UnixMilli()) || fmt.Sprint(r["renewed"]) != fmt.Sprint(renewed.UnixMilli()) {
		t.Errorf("the record says %v and %v, want %d and %d", r["acquired"], r["renewed"], acquired.UnixMilli(), renewed.UnixMilli())
	}
}

func TestEachTermSaysWhenItWasAcquiredAndRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		stands(t, st, begun, begun, a, b)
		time.Sleep(10*heartbeat + heartbeat/2)
		stands(t, st, begun, begun.Add(10*heartbeat), a, b)
		// By an offer: a new holder has a time of its own, and keeps it.
		offered := time.Now()
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		stands(t, st, offered, offered, b, a)
		time.Sleep(heartbeat + heartbeat/2)
		stands(t, st, offered, offered.Add(heartbeat), b, a)
		// A validation is a renewal before its time.
		if err := b.ValidateToken(t.Context()); err != nil {
			t.Fatal(err)
		}
		stands(t, st, offered, time.Now(), b, a)
		// By a vacancy.
		if err := b.Transfer(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		mustLead(t, a, b)
		stands(t, st, time.Now(), time.Now(), a, b)
	})
}

func TestAVacancySaysWhenTheTermBeganAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		demand := func(what string, info leader.LeaderInfo, ended time.Time) {
			t.Helper()
			if info.ID != "" || !info.Acquired.Equal(begun) || !info.Renewed.Equal(ended) {
				t.Errorf("%s: %+v, want %v to %v", what, info, begun, ended)
			}
		}
		snapshot := func() leader.LeaderInfo {
			t.Helper()
			infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
			if err != nil || len(infos) != 1 {
				t.Fatalf("%+v, %v", infos, err)
			}
			return infos[0]
		}
		a := start(t, st, config("a"))
		time.Sleep(3*heartbeat + heartbeat/2)
		halt(t, a)
		ended := time.Now()
		demand("stopped", snapshot(), ended)
		b := candidate(t, st, config("b"))
		for info := range b.Observe(t.Context()) {
			if !info.Acquired.IsZero() {
				t.Errorf("before it has seen anything: %+v", info)
			}
			break
		}
		time.Sleep(time.Hour)
		if _, err := control(t, st).Forget(t.Context(), "g", ""); err != nil {
			t.Fatal(err)
		}
		demand("forgotten", snapshot(), time.Now())
		// That of an operator over a holder that is gone.
		st.Put("g", fmt.Appendf(nil, `{"id":"gone","token":"t","ttl":1000,"term":7,"acquired":%d,"renewed":%d}`, begun.UnixMilli(), ended.UnixMilli()))
		info, err := control(t, st).Vacate(t.Context(), leader.VacateRequest{Group: "g"})
		if err != nil {
			t.Fatal(err)
		}
		demand("vacated", info, time.Now())
		demand("vacated, in the store", snapshot(), time.Now())
	})
}

func TestWhoHasLeftKnowsWhenItsTermEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		a := start(t, st, config("a"))
		time.Sleep(heartbeat + heartbeat/2)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := a.Status(); s.IsLeader || !s.Acquired.Equal(begun) || !s.Renewed.Equal(time.Now()) {
			t.Errorf("%+v, at %v", s, time.Now())
		}
	})
}

// What observers are told of a leader that is gone says when it was heard last.
func TestObserversHearWhenALeaderThatIsGoneRenewedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		told := make(chan leader.LeaderInfo, 100)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for info, err := range leader.ObserveWithStore(ctx, st, "g") {
				if err != nil {
					t.Error(err)
				}
				told <- info
			}
		}()
		time.Sleep(heartbeat + heartbeat/2)
		if err := a.Resign(t.Context()); err != nil { // by an offer, without a vacancy
			t.Fatal(err)
		}
		mustLead(t, b, a)
		next := time.Now()
		if err := b.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil { // its record is left to expire
			t.Fatal(err)
		}
		halt(t, a)
		time.Sleep(wait)
		synctest.Wait()
		cancel()
		for _, want := range []struct {
			id                string
			reason            leader.Reason
			acquired, renewed time.Time
		}{
			{"a", "", begun, begun},
			{"", leader.ReasonResigned, begun, begun.Add(heartbeat)},
			{"b", "", next, next},
			{"", leader.ReasonExpired, next, next},
		} {
			if got := <-told; got.ID != want.id || got.Reason != want.reason || !got.Acquired.Equal(want.acquired) || !got.Renewed.Equal(want.renewed) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
}

// Whatever a record says of times, everybody waits for its lease as it is
// counted from here, and no candidate has the record for malformed.
func TestTimesOfDayInTheRecordDecideNothing(t *testing.T) {
	absurd := []string{
		"0", "-1", "-9223372036854775808", "1", "140737488355328", "140737488355329", "9223372036854775807", "99999999999999999999999",
		"1.5", "1e3", "1e400", "null", "true", `"2026-11-25T04:00:00Z"`, `""`, `{"of":1}`, "[1]",
	}
	for _, value := range append(absurd, "") {
		for _, field := range []string{"acquired", "renewed"} {
			synctest.Test(t, func(t *testing.T) {
				st, more := memstore.New(), ""
				if value != "" {
					more = fmt.Sprintf(`,%q:%s`, field, value)
				}
				st.Put("g", []byte(`{"id":"a","token":"t","ttl":3000,"term":7,"transitions":2`+more+`}`))
				begun := time.Now()
				b := start(t, st, config("b"))
				infos, err := leader.SnapshotWithStore(t.Context(), st, "g")
				if err != nil || infos[0].ID != "a" || !infos[0].Until.Equal(begun.Add(wait)) || infos[0].Transitions != 2 {
					t.Errorf("%s: %+v, %v", more, infos, err)
				}
				if s := b.Status(); s.LeaderID != "a" || s.State != leader.StateFollower {
					t.Errorf("%s: %+v", more, s)
				}
				ended, operator := make(chan time.Duration, 1), control(t, st)
				go func() {
					_, _ = operator.Vacate(t.Context(), leader.VacateRequest{Group: "g"})
					ended <- time.Since(begun)
				}()
				time.Sleep(wait - 1)
				mustNotLead(t, b)
				time.Sleep(1 + startWindow)
				mustLead(t, b)
				if took := <-ended; took < wait {
					t.Errorf("%s: vacated after %v", more, took)
				}
				time.Sleep(10 * heartbeat)
				mustLead(t, b)
			})
		}
	}
}

// A record says the time of its writer's wall clock, however wrong that is. It
// costs the group nothing.
func TestACandidateWhoseClockIsYearsOffIsElectedAndSucceeded(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, off := range []time.Duration{-20 * year, -100 * year, 100 * year, 0} {
		synctest.Test(t, func(t *testing.T) {
			st, begun := memstore.New(), time.Now()
			m := leader.NewMachine(1_000_000)
			m.Leap(off)
			a := candidate(t, st, config("a"))
			leader.SetMachine(a, m)
			started(t, a)
			b := start(t, st, config("b"))
			time.Sleep(5*heartbeat + heartbeat/2)
			mustLead(t, a, b)
			acquired, renewed := begun.Add(off), begun.Add(off+5*heartbeat)
			if off == -100*year {
				acquired, renewed = time.Time{}, time.Time{} // there is no number for it
			}
			for what, s := range map[string]leader.ElectionStatus{"a": a.Status(), "b": b.Status()} {
				if !s.Acquired.Equal(acquired) || !s.Renewed.Equal(renewed) {
					t.Errorf("off by %v, %s: acquired at %v, renewed at %v", off, what, s.Acquired, s.Renewed)
				}
			}
			if err := a.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil {
				t.Fatal(err)
			}
			heard := time.Now().Add(-heartbeat / 2)
			time.Sleep(time.Until(heard.Add(wait)) - 1)
			mustNotLead(t, b)
			time.Sleep(1 + startWindow)
			mustLead(t, b)
		})
	}
}

// A lossyStore loses a write, and says that it may have been applied.
type lossyStore struct {
	*memstore.Store

	mu    sync.Mutex
	lossy bool
	sent  []store.Write
}

// lose has the store lose the next write, and returns what was sent since the
// last call.
func (s *lossyStore) lose() (sent []store.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent = s.sent
	s.lossy, s.sent = true, nil
	return sent
}

func (s *lossyStore) loses(w store.Write) (loses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, w)
	loses, s.lossy = s.lossy, false
	return loses
}

func (s *lossyStore) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if s.loses(w) {
		return 0, store.ErrUnknown
	}
	return s.Store.CompareAndSwap(ctx, w)
}

// Rule 4: what is sent again is the same, so whichever attempt is applied, the
// record says one time.
func TestAttemptsThatMayHaveBeenAppliedHaveOneContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &lossyStore{Store: memstore.New()}
		a := start(t, st, config("a"))
		time.Sleep(heartbeat / 2)
		st.lose()
		for range 5 {
			time.Sleep(heartbeat)
			if sent := st.lose(); len(sent) < 2 || !bytes.Equal(sent[0].Value, sent[1].Value) {
				for _, w := range sent {
					t.Errorf("%s", w.Value)
				}
			}
		}
		mustLead(t, a)
	})
}
