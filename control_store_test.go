package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// controlOf reads what stands in the group's control record.
func controlOf(t *testing.T, e store.Entry) record.Control {
	t.Helper()
	c, ok := record.ReadControl(e)
	if !ok {
		t.Fatalf("nobody can read %q", e.Value)
	}
	return c
}

// encoding/json writes three bytes for each that is no UTF-8: a reason of 512
// such bytes came out longer than readers take, and the pause was stored and
// obeyed by nobody.
func TestReasonThatCouldNotBeReadBackIsRefused(t *testing.T) {
	st := memstore.New()
	e := candidate(t, st, config("a"))
	for _, why := range []string{strings.Repeat("\xff", 300), "two\nlines", strings.Repeat("x", 513)} {
		var ce *leader.ConfigError
		err := e.Pause(t.Context(), why)
		if !errors.As(err, &ce) || ce.Field != "why" || !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%.10q: %v", why, err)
		}
	}
	// The longest that is taken is read back, however JSON has to write it.
	why := strings.Repeat("<", record.MaxWhy)
	if err := e.Pause(t.Context(), why); err != nil {
		t.Fatal(err)
	}
	entry, err := st.Get(t.Context(), record.ControlKey("g"))
	if err != nil {
		t.Fatal(err)
	}
	if p := controlOf(t, entry).Paused; p == nil || p.Reason != why {
		t.Errorf("%+v", p)
	}
}

func TestLongestRequestsFitIntoOneControlRecordAndItsVacancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		widest := strings.Repeat("<", record.MaxName)
		put(t, st, record.ControlKey("g"), record.Control{
			Paused: &record.Pause{By: widest, Reason: strings.Repeat("<", record.MaxWhy)},
			Stand:  &record.Stand{ID: widest, Term: 1 << 53, Version: strings.Repeat("1", record.MaxVersion)},
		})
		c := control(t, st)
		r := leader.Request{
			Op: leader.OpTransfer, Group: "g", Term: 1 << 53, Successor: widest, By: widest, Why: strings.Repeat("<", record.MaxWhy),
		}
		if _, err := c.File(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if s := state(t, c); !s.Paused || s.PausedBy != widest {
			t.Errorf("the pause is gone: %+v", s)
		}
	})
}

// A replica that lags showed the group as it was before the pause, or before
// its end: there was nothing to do, it seemed, and nothing was done.
func TestStaleReadOfTheControlRecordDoesNotPassForTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stale := 0 // so many reads to come
		net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
			if c.Op == faultstore.Get && stale > 0 {
				stale--
				f.Stale = time.Second
			}
			return f
		})
		e := candidate(t, net.Client("a"), config("a"))
		paused := func(why string) {
			t.Helper()
			stale = 2
			if err := e.Pause(t.Context(), why); err != nil {
				t.Fatal(err)
			}
			if p := controlOf(t, net.Entry(record.ControlKey("g"))).Paused; p == nil || p.Reason != why {
				t.Fatalf("paused: %+v", p)
			}
		}
		resumed := func() {
			t.Helper()
			stale = 2
			if err := e.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if p := controlOf(t, net.Entry(record.ControlKey("g"))).Paused; p != nil {
				t.Fatalf("paused: %+v", p)
			}
		}
		paused("first")
		time.Sleep(2 * time.Second)
		resumed()
		paused("second") // the first pause seems to stand still
		time.Sleep(2 * time.Second)
		resumed()
		time.Sleep(2 * time.Second)
		paused("third")
		resumed() // the group seems never to have been paused again
	})
}

// A replica that lagged showed an earlier leader, or none. A request to the
// present leader was refused because of that.
func TestRequestOfWhoeverLeadsReachesWhoLeadsNow(t *testing.T) {
	for name, old := range map[string]time.Duration{"a term that is over": 15 * time.Second, "a vacancy that was claimed": 6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
					if c.Client == "ops" && c.Op == faultstore.Get && c.Key == "g" && c.N == 0 {
						f.Stale = old
					}
					return f
				})
				a := start(t, net.Client("a"), config("a"))
				mustLead(t, a)
				before := a.Term()
				b := start(t, net.Client("b"), config("b"))
				time.Sleep(10 * time.Second)
				first := control(t, net.Client("first"))
				if _, err := first.Pause(lasting(t, time.Minute), "g", ""); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if _, err := first.Resume(lasting(t, time.Minute), "g"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				now := a
				if b.IsLeader() {
					now = b
				}
				term := now.Term()
				h, err := control(t, net.Client("ops")).StepDown(lasting(t, time.Minute), "g", "upgrade")
				if err != nil || h.From.Term != term.Number || h.Request.Term != term.Number || term.Number == before.Number || !h.Obeyed {
					t.Errorf("asked for the end of the term after %d, which is %d: %v: %+v", before.Number, term.Number, err, h)
				}
				if net.Counts()[faultstore.StaleRead] != 1 {
					t.Errorf("%d stale reads: the test tests nothing", net.Counts()[faultstore.StaleRead])
				}
			})
		})
	}
}

// The first attempt was stored, its answer lost; those that follow fail without
// doubt. The request may have been made for all the caller knows.
func TestOutcomeOfARequestStaysUnknownAfterOneAttemptWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
			switch {
			case c.Op == faultstore.CompareAndSwap && c.N == 0:
				f.LoseReply = true
			case c.Op == faultstore.Get && c.N > 0:
				f.Refuse = true
			}
			return f
		})
		err := candidate(t, net.Client("a"), config("a")).Pause(lasting(t, 10*time.Second), "")
		if store.Classify(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if controlOf(t, net.Entry(record.ControlKey("g"))).Paused == nil {
			t.Error("the attempt was not applied: the test tests nothing")
		}
	})
}

func TestLostAnswerIsResolvedByALaterWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
			f.LoseReply = c.Op == faultstore.CompareAndSwap && c.N < 2
			return f
		})
		c := control(t, net.Client("ops"))
		if _, err := c.File(lasting(t, time.Minute), leader.Request{Op: leader.OpPause, Group: "g", Why: "once"}); err != nil {
			t.Fatal(err)
		}
		if p := controlOf(t, net.Entry(record.ControlKey("g"))).Paused; p == nil || p.Reason != "once" {
			t.Errorf("%+v", p)
		}
	})
}

// Operators and candidates write the same record over a network that does all
// it can. Whatever was acknowledged and not replaced stands at the end, and
// nobody's part is lost to another's.
func TestManyWritersOfTheControlRecordKeepEachOthersParts(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { manyWriters(t, seed) })
		})
	}
}

func manyWriters(t *testing.T, seed uint64) {
	net := network(t, faultstore.Random(seed, faultstore.Rough()))
	ctx := lasting(t, time.Hour)
	key := record.ControlKey("g")
	var wg sync.WaitGroup
	pauses, asks := control(t, net.Client("pauses")), control(t, net.Client("asks"))
	wg.Go(func() {
		for i := range 20 {
			op := []leader.Operation{leader.OpPause, leader.OpResume}[i%2]
			if _, err := pauses.File(ctx, leader.Request{Op: op, Group: "g"}); err != nil {
				t.Errorf("%s: %v", op, err)
			}
			// Nobody else pauses or resumes: what was acknowledged stands.
			if c, _ := record.ReadControl(net.Entry(key)); (c.Paused != nil) != (op == leader.OpPause) {
				t.Errorf("after %s: %+v", op, c.Paused)
			}
		}
	})
	wg.Go(func() {
		for term := range uint64(20) {
			if _, err := asks.File(ctx, leader.Request{Op: leader.OpStepDown, Group: "g", Term: term + 1}); err != nil {
				t.Errorf("step down: %v", err)
			}
			if c, _ := record.ReadControl(net.Entry(key)); c.Term != term+1 {
				t.Errorf("request of term %d: %+v", term+1, c.Request)
			}
		}
	})
	wg.Wait()
}
