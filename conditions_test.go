package leader_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A store that was made within the last lease may have taken the place of one
// whose leader has not heard of that. What is left of the lease is waited for,
// and no more.
func TestNobodyIsPromotedWhileTheStoreIsYoungerThanALease(t *testing.T) {
	for _, c := range []struct {
		grace leader.AcquireGrace
		age   time.Duration
		want  time.Duration
	}{
		{leader.GraceAuto, 0, 0},
		{leader.GraceAuto, 1, wait - 1},
		{leader.GraceAuto, wait / 2, wait / 2},
		{leader.GraceAuto, wait - 1, 1},
		{leader.GraceAuto, wait, 0},
		{leader.GraceAuto, time.Hour, 0},
		{leader.GraceOff, 1, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &checked{Store: memstore.New(), report: store.Report{Age: c.age}}
				cfg := config("a")
				cfg.AcquireGrace = c.grace
				a := start(t, st, cfg)
				if c.want > 0 {
					mustBe(t, a, leader.StateCandidate)
					time.Sleep(c.want - 1)
					mustBe(t, a, leader.StateCandidate)
					if _, r := stored(t, st); r.ID != "a" {
						t.Errorf("the claim is to be held meanwhile: %+v", r)
					}
					time.Sleep(time.Nanosecond)
				}
				mustLead(t, a)
			})
		})
	}
}

// Who starts in a new store is told once why nobody leads. That it was made
// again between the start and the claim is news.
func TestOfAYoungStoreOneIsToldOnce(t *testing.T) {
	for _, ages := range [][]time.Duration{{1, 1}, {time.Hour, 1}} {
		t.Run(fmt.Sprint(ages), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &aging{Store: memstore.New(), ages: ages}
				var told atomic.Int32
				cfg := config("a")
				cfg.Hooks.Note = func(n leader.Note) {
					if strings.Contains(n.Text, "made less than a lease ago") {
						told.Add(1)
					}
				}
				a := start(t, st, cfg)
				time.Sleep(wait)
				mustLead(t, a)
				if n := told.Load(); n != 1 {
					t.Errorf("told %d times", n)
				}
			})
		})
	}
}

// aging is a store that tells an age for each check, and the last one for
// further ones.
type aging struct {
	store.Store
	mu   sync.Mutex
	ages []time.Duration
}

func (s *aging) Check(context.Context, store.CheckRequest) (store.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.ages[0]
	if len(s.ages) > 1 {
		s.ages = s.ages[1:]
	}
	return store.Report{Age: age}, nil
}

// A leader from before the store was made leads beside nobody, whether or not
// the one that comes after it stays.
func TestNoVacancyIsLeftInAStoreYoungerThanALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &checked{Store: memstore.New(), report: store.Report{Age: 1}}
		a := start(t, st, config("a"))
		mustBe(t, a, leader.StateCandidate)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		if e, r := stored(t, st); e.Tombstone || r.ID != "a" {
			t.Errorf("%+v of %+v", r, e)
		}
	})
}

// The wait is for those that start. Who takes over later waits as always.
func TestAYoungStoreDelaysTheFirstTermAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &checked{Store: memstore.New(), report: store.Report{Age: 1}}
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		time.Sleep(wait)
		mustLead(t, a)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(heartbeat) // this store is polled
		mustLead(t, b)
	})
}

// A store that drops records may have dropped a leader's, so who finds nothing
// there cools down. What a leader hands over is no such thing, unless the store
// may go back besides or the settings ask for a cool-down each time.
func TestAHandoverNeedsNoCoolDownWhereRecordsOnlyExpire(t *testing.T) {
	for name, c := range map[string]struct {
		report       store.Report
		grace        leader.AcquireGrace
		first, again time.Duration // before a's promotion, and before b's after it
	}{
		"expires":                {store.Report{Expires: true}, leader.GraceAuto, wait, 0},
		"expires, GraceOn":       {store.Report{Expires: true}, leader.GraceOn, wait, wait},
		"expires, GraceOff":      {store.Report{Expires: true}, leader.GraceOff, 0, 0},
		"expires and goes back":  {store.Report{Expires: true, Forgetful: true}, leader.GraceAuto, wait, wait},
		"goes back":              {store.Report{Forgetful: true}, leader.GraceAuto, wait, wait},
		"keeps what it was told": {store.Report{}, leader.GraceAuto, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &checked{Store: memstore.New(), report: c.report}
				var mu sync.Mutex
				promoted := map[string]time.Time{}
				join := func(id string) leader.Election {
					cfg := config(id)
					cfg.AcquireGrace = c.grace
					e := candidate(t, st, cfg)
					e.OnPromote(func(context.Context, string) {
						mu.Lock()
						defer mu.Unlock()
						promoted[id] = time.Now()
					})
					return started(t, e)
				}
				begun := time.Now()
				a := join("a")
				join("b")
				time.Sleep(2 * wait)
				left := time.Now()
				if err := a.StopWithContext(t.Context(), leader.StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * wait)
				mu.Lock()
				defer mu.Unlock()
				first, again := promoted["a"].Sub(begun), promoted["b"].Sub(left)
				// Both have just met in a race, and back off.
				if first != c.first || again < c.again || again > c.again+ttl/2 {
					t.Errorf("promoted after %v and %v, want %v and %v", first, again, c.first, c.again)
				}
			})
		})
	}
}

// An expiring store is one whose records may expire, and over which they are
// offered and watched.
type expiring struct{ *memstore.Store }

func (expiring) Check(context.Context, store.CheckRequest) (store.Report, error) {
	return store.Report{Expires: true}, nil
}

// Nor does an offer spare a cool-down that its holder has not come to the end
// of: beside it there may be a leader whose record was dropped.
func TestAnOfferOfWhoCoolsDownSparesNoCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := expiring{memstore.New()}
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		mustBe(t, a, leader.StateCandidate)
		time.Sleep(wait / 2)
		if err := a.StopWithContext(t.Context(), leader.StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
			t.Fatal(err)
		}
		if _, r := stored(t, st); r.ID != "b" {
			t.Fatalf("%+v: the record was not offered", r)
		}
		time.Sleep(wait - 1)
		mustBe(t, b, leader.StateCandidate)
		time.Sleep(ttl)
		mustLead(t, b)
	})
}
