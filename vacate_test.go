package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// heldBy is a record that nobody renews.
const heldBy = `{"id":"gone","token":"t","ttl":10000,"term":1,"standings":[{"priority":3}]}`

// A record of another program blocks a group for MaxTTL and more. Candidates
// that watch it hear of the vacancy, and need no restart.
func TestVacateLetsCandidatesLeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		rev := st.Put("g", []byte("host-7"))
		a := candidate(t, st, config("a"))
		var heard []leader.LeaderInfo
		a.OnLeaderChange(func(l leader.LeaderInfo) { heard = append(heard, l) })
		mustNotLead(t, started(t, a))
		c := control(t, st)
		info, err := c.Vacate(t.Context(), leader.VacateRequest{Group: "g", Force: true, Revision: rev, Why: "moved"})
		if err != nil || info.Reason != leader.ReasonVacated || info.By != "ops" || info.Why != "moved" {
			t.Fatalf("%v: %+v", err, info)
		}
		mustLeadAtOnce(t, a)
		if a.Term().Number <= rev {
			t.Errorf("term %d after revision %d", a.Term().Number, rev)
		}
		vacated := func(l leader.LeaderInfo) bool {
			return l.Reason == leader.ReasonVacated && l.By == "ops" && l.Why == "moved"
		}
		if !slices.ContainsFunc(heard, vacated) {
			t.Errorf("the candidate heard %+v", heard)
		}
	})
}

func TestVacateLeavesALeaderThatRenews(t *testing.T) {
	for name, end := range map[string]func(context.Context, *leader.Control) (leader.LeaderInfo, error){
		"vacate": func(ctx context.Context, c *leader.Control) (leader.LeaderInfo, error) {
			return c.Vacate(ctx, leader.VacateRequest{Group: "g"})
		},
		"forget": func(ctx context.Context, c *leader.Control) (leader.LeaderInfo, error) {
			return c.Forget(ctx, "g", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				a := start(t, st, config("a"))
				mustLead(t, a)
				term := a.Term()
				begun := time.Now()
				info, err := end(t.Context(), control(t, st))
				if !errors.Is(err, leader.ErrLed) || info.ID != "a" || info.Term != term.Number {
					t.Fatalf("%v: %+v", err, info)
				}
				// The next renewal shows it, and not the end of the lease.
				if took := time.Since(begun); took > heartbeat {
					t.Errorf("after %v", took)
				}
				mustLead(t, a)
				if a.Term() != term {
					t.Errorf("term %+v follows %+v", a.Term(), term)
				}
			})
		})
	}
}

// The vacancy is written when a claim would be due, and not before: until then
// the holder may act.
func TestVacateOutlastsTheLeaseOfASilentHolder(t *testing.T) {
	for ttl, rec := range map[time.Duration]string{
		11 * time.Second: heldBy,
		13 * time.Second: `{"id":"gone","token":"t","ttl":10000,"term":1,"drift":0.3,"standings":[{"priority":3}]}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			st.Put("g", []byte(rec))
			c := control(t, st)
			begun := time.Now()
			info, err := c.Vacate(t.Context(), leader.VacateRequest{Group: "g", By: "ann"})
			if err != nil || info.Term != 1 || info.By != "ann" {
				t.Fatalf("%v: %+v", err, info)
			}
			if took := time.Since(begun); took != ttl {
				t.Errorf("after %v, want %v", took, ttl)
			}
			e, err := st.Get(t.Context(), "g")
			want := fmt.Sprintf(`{"token":"t","term":1,"standings":[{"priority":3}],"renewed":%d,"reason":"vacated","by":"ann"}`, time.Now().UnixMilli())
			if err != nil || !e.Tombstone || string(e.Value) != want {
				t.Errorf("%v: %+v %s", err, e, e.Value)
			}
			// A repeated call writes nothing.
			if _, err := c.Vacate(t.Context(), leader.VacateRequest{Group: "g"}); err != nil {
				t.Error(err)
			}
			if again, _ := st.Get(t.Context(), "g"); again.Revision != e.Revision {
				t.Errorf("revision %d follows %d", again.Revision, e.Revision)
			}
		})
	}
}

// The silence of a record without a lease proves nothing.
func TestVacateWithoutForceRefusesRecordsWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, put := range map[string]func(*memstore.Store){
			"deleted":  func(st *memstore.Store) { st.Delete("g") },
			"a name":   func(st *memstore.Store) { st.Put("g", []byte("host-7")) },
			"no lease": func(st *memstore.Store) { st.Put("g", []byte(`{"id":"host-7","token":"t"}`)) },
		} {
			st := memstore.New()
			put(st)
			c := control(t, st)
			if _, err := c.Vacate(t.Context(), leader.VacateRequest{Group: "g"}); !errors.Is(err, leader.ErrLed) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := c.Forget(t.Context(), "g", ""); !errors.Is(err, leader.ErrLed) {
				t.Errorf("%s: forget: %v", name, err)
			}
			if s, err := c.State(t.Context(), "g"); err != nil || s.Lease != 0 || s.Revision != 1 {
				t.Errorf("%s: %v: %+v", name, err, s)
			}
			if _, err := c.Vacate(t.Context(), leader.VacateRequest{Group: "g", Force: true}); err != nil {
				t.Errorf("%s: forced: %v", name, err)
			}
		}
	})
}

// Vacate does not replace a record that the caller has not seen.
func TestVacateReplacesOnlyTheRecordThatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("g", []byte(heldBy))
		c := control(t, st)
		s, err := c.State(t.Context(), "g")
		if err != nil || s.Lease != 11*time.Second {
			t.Fatalf("%v: %+v", err, s)
		}
		rev := st.Put("g", []byte(heldBy))
		_, err = c.Vacate(t.Context(), leader.VacateRequest{Group: "g", Revision: s.Revision, Force: true})
		if !errors.Is(err, leader.ErrLed) || !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), `by "gone"`) {
			t.Error(err)
		}
		if e, _ := st.Get(t.Context(), "g"); e.Revision != rev {
			t.Errorf("revision %d follows %d", e.Revision, rev)
		}
	})
}

// A leader that is forced out stops its work, and takes part again.
func TestForcedVacateEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		term := a.Term()
		if _, err := control(t, st).Vacate(t.Context(), leader.VacateRequest{Group: "g", Force: true}); err != nil {
			t.Fatal(err)
		}
		mustLead(t, a)
		if a.Term().Number <= term.Number {
			t.Errorf("term %+v follows %+v", a.Term(), term)
		}
	})
}

// A lost answer is not a failure: the previous attempt may be what refuses this
// one.
func TestVacateReadsBackAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := false
		net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Client == "ops" && !lost {
				lost, f.LoseReply = true, true
			}
			return f
		})
		net.Put("g", []byte(heldBy))
		if _, err := control(t, net.Client("ops")).Vacate(lasting(t, time.Minute), leader.VacateRequest{Group: "g"}); err != nil || !lost {
			t.Errorf("%v, lost %v", err, lost)
		}
	})
}

func TestVacateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		rev := st.Put("g", []byte(heldBy))
		_, err := control(t, st).Vacate(lasting(t, time.Second), leader.VacateRequest{Group: "g"})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if e, _ := st.Get(t.Context(), "g"); e.Revision != rev {
			t.Errorf("revision %d follows %d", e.Revision, rev)
		}
	})
}

func TestVacateRefusesInvalidRequests(t *testing.T) {
	c := control(t, memstore.New())
	for _, r := range []leader.VacateRequest{{}, {Group: "g", By: "\x00"}, {Group: "g", Why: "\x00"}} {
		if _, err := c.Vacate(t.Context(), r); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := c.Forget(t.Context(), "..", ""); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Error(err)
	}
	for _, end := range []func() (leader.LeaderInfo, error){
		func() (leader.LeaderInfo, error) {
			return c.Vacate(t.Context(), leader.VacateRequest{Group: "g"})
		},
		func() (leader.LeaderInfo, error) { return c.Forget(t.Context(), "g", "") },
	} {
		if _, err := end(); !errors.Is(err, leader.ErrNoLeader) {
			t.Error(err)
		}
	}
}

func TestForgetKeepsTermsGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		term := a.Term().Number
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		info, err := control(t, st).Forget(t.Context(), "g", "moved away")
		if err != nil || info.Reason != leader.ReasonForgotten || info.Term != term || info.Why != "moved away" {
			t.Fatalf("%v: %+v", err, info)
		}
		for seen, err := range leader.ObserveWithStore(lasting(t, time.Minute), st, "g") {
			if err != nil || seen.Reason != leader.ReasonForgotten || seen.Term != term {
				t.Errorf("%v: %+v", err, seen)
			}
			break
		}
		b := start(t, st, config("b"))
		mustLeadAtOnce(t, b)
		if b.Term().Number <= term {
			t.Errorf("term %d follows %d", b.Term().Number, term)
		}
	})
}

func TestForgetRefusesAPausedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		c := control(t, st)
		if _, err := c.Pause(lasting(t, time.Minute), "g", "migration"); err != nil {
			t.Fatal(err)
		}
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Forget(t.Context(), "g", ""); !errors.Is(err, leader.ErrPaused) {
			t.Error(err)
		}
		if s, err := c.State(t.Context(), "g"); err != nil || !s.Paused || s.Leader.Reason != leader.ReasonPaused {
			t.Errorf("%v: %+v", err, s)
		}
	})
}

// A lease may last for minutes, and an operator who pauses the group meanwhile
// cannot know that it is about to be forgotten.
func TestForgetRefusesAGroupThatIsPausedWhileItsLeaseIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		rev := st.Put("g", []byte(heldBy))
		c := control(t, st)
		ended := make(chan error, 1)
		go func() {
			_, err := c.Forget(t.Context(), "g", "")
			ended <- err
		}()
		time.Sleep(5 * time.Second)
		if _, err := c.File(t.Context(), leader.Request{Op: leader.OpPause, Group: "g"}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, leader.ErrPaused) {
			t.Error(err)
		}
		if e, _ := st.Get(t.Context(), "g"); e.Revision != rev {
			t.Errorf("revision %d follows %d", e.Revision, rev)
		}
	})
}

// A replica that lags shows a record as it was before its release. That the
// holder is gone is what was to be shown.
func TestVacateEndsARecordThatWasReleasedMeanwhile(t *testing.T) {
	for name, end := range map[string]func(context.Context, *leader.Control) (leader.LeaderInfo, error){
		"forget": func(ctx context.Context, c *leader.Control) (leader.LeaderInfo, error) { return c.Forget(ctx, "g", "") },
		"vacate": func(ctx context.Context, c *leader.Control) (leader.LeaderInfo, error) {
			return c.Vacate(ctx, leader.VacateRequest{Group: "g"})
		},
		"vacate by force": func(ctx context.Context, c *leader.Control) (leader.LeaderInfo, error) {
			return c.Vacate(ctx, leader.VacateRequest{Group: "g", Force: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lags atomic.Bool
				lags.Store(true)
				net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
					if c.Client == "ops" && c.Op == faultstore.Get && c.Key == "g" && lags.Load() {
						f.Stale = time.Second
					}
					return f
				})
				a := start(t, net.Client("a"), config("a"))
				mustLead(t, a)
				term := a.Term().Number
				time.Sleep(ttl)
				if err := a.Stop(); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(100*time.Millisecond, func() { lags.Store(false) })
				info, err := end(lasting(t, time.Minute), control(t, net.Client("ops")))
				want := leader.ReasonStopped
				if name == "forget" {
					want = leader.ReasonForgotten
				}
				if err != nil || info.ID != "" || info.Reason != want || info.Term != term {
					t.Errorf("%v: %+v", err, info)
				}
				if net.Counts()[faultstore.StaleRead] == 0 {
					t.Error("no read was stale: the test tests nothing")
				}
			})
		})
	}
}
