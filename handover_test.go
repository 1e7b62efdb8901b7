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

func TestResignationIsWrittenWhenItReturnsAndTheCandidateStandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := candidate(t, st, config("a"))
		a.OnDemote(func() { time.Sleep(time.Second) })
		mustLead(t, started(t, a))
		term := a.Term()
		begun := time.Now()
		if err := a.Resign(t.Context()); err != nil || time.Since(begun) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
		e, r := stored(t, st)
		want := record.Record{Token: term.Token, Term: term.Number, Reason: "resigned", By: "a"}
		if !e.Tombstone || r.ID != "" || r.Token != want.Token || r.Term != want.Term || r.Reason != want.Reason || r.By != want.By {
			t.Fatalf("%s", e.Value)
		}
		mustBe(t, a, leader.StateCandidate)
		time.Sleep(wait - 1)
		mustNotLead(t, a)
		time.Sleep(time.Nanosecond)
		mustLead(t, a) // alone, it comes back
		if !a.Term().Supersedes(term) {
			t.Fatalf("%v after %v", a.Term(), term)
		}
	})
}

func TestResignedCandidateCampaignsAgainOnceAnotherHasLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		mustLead(t, a, b)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		halt(t, b)
		mustLead(t, a, b)
	})
}

func TestResignationEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := candidate(t, memstore.New(), config("a"))
		a.OnDemote(func() { time.Sleep(3 * time.Second) })
		mustLead(t, started(t, a))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Resign(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		mustNotLead(t, a)
	})
}

func TestTransferGivesTheSuccessorAHeadStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		b, c := start(t, st, config("b")), start(t, st, config("c"))
		mustLead(t, a, b, c)
		for range 10 { // no luck: the others leave the vacancy alone
			if err := a.Transfer(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			mustLead(t, c, a, b)
			if err := a.Transfer(t.Context(), "b"); !errors.Is(err, leader.ErrNotLeader) {
				t.Errorf("by a follower: %v", err)
			}
			if err := c.Transfer(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			mustLead(t, a, b, c)
		}
	})
}

func TestTransferToNobodyCostsTheHeadStartAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		if err := a.Transfer(t.Context(), "nobody"); err != nil {
			t.Fatal(err)
		}
		if _, r := stored(t, st); r.Successor != "nobody" || r.Reason != "transferred" {
			t.Fatalf("%+v", r)
		}
		const headStart = ttl / 2
		time.Sleep(headStart - 1)
		mustNotLead(t, a, b)
		time.Sleep(time.Nanosecond)
		mustLead(t, b, a)
	})
}

// No record says who is fit, so the leader cannot know. It stands back for a
// lease, as after a resignation, and nobody else is there.
func TestTransferToAnUnfitSuccessorOfTwoCostsALeaseAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, h, cfg := memstore.New(), &health{}, config("b")
		h.set(func(context.Context) bool { return false })
		cfg.HealthChecker = h
		a, b := start(t, st, config("a")), start(t, st, cfg)
		time.Sleep(10 * heartbeat)
		if s := b.Status(); s.Barred != leader.ReasonUnhealthy {
			t.Fatalf("%v", s)
		}
		if err := a.Transfer(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait - 1)
		mustNotLead(t, a, b)
		time.Sleep(jitter + 1)
		mustLead(t, a, b)
	})
}

func TestTransferRequiresTheNameOfAnotherCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, memstore.New(), config("a"))
		for _, id := range []string{"", "a", "b\n", "\xff", strings.Repeat("<", 20_000)} {
			var ce *leader.ConfigError
			err := a.Transfer(t.Context(), id)
			if !errors.As(err, &ce) || ce.Field != "instanceID" || !errors.Is(err, leader.ErrInvalidConfig) {
				t.Errorf("%.20q: %v", id, err)
			}
		}
		mustLead(t, a)
	})
}

// handovers are the ways in which a leader leaves without having been asked by
// others.
var handovers = map[leader.Reason]func(*testing.T, leader.Election){
	leader.ReasonStopped: func(t *testing.T, e leader.Election) { halt(t, e) },
	leader.ReasonResigned: func(t *testing.T, e leader.Election) {
		if err := e.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	},
}

// Who leaves by itself hands its record to one of the others, by one write. All
// hear why the term ended all the same.
func TestHandoverIsOneWriteThatShowsItsReason(t *testing.T) {
	for reason, leave := range handovers {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				writes, tell, told, heard := newJournal(), newJournal(), newJournal(), newJournal()
				f := network(t, func(c faultstore.Call) faultstore.Fate {
					if c.Op == faultstore.CompareAndSwap {
						writes.note("%s %v", c.Client, c.Write.Tombstone)
					}
					return faultstore.Fate{}
				})
				a, b := start(t, f.Client("a"), config("a")), candidate(t, f.Client("b"), config("b"))
				b.OnLeaderChange(func(l leader.LeaderInfo) { tell.note("%s", news(l)) })
				mustLead(t, a, started(t, b))
				// c may not lead, and is told as well.
				cfg := config("c")
				cfg.HealthChecker, cfg.MaxConsecutiveFailures = unfit(), 1
				c := candidate(t, f.Client("c"), cfg)
				c.OnLeaderChange(func(l leader.LeaderInfo) { told.note("%s", news(l)) })
				started(t, c)
				time.Sleep(2 * heartbeat)
				go func() {
					_ = leader.ObserveFuncWithStore(t.Context(), f.Client("o"), "g", leader.Observer{
						Leader: func(l leader.LeaderInfo) { heard.note("%s", news(l)) }, Failed: func(error) {},
					})
				}()
				synctest.Wait()
				term, before := a.Term(), len(writes.all())
				begun := time.Now()
				leave(t, a)
				mustLead(t, b, a)
				if took := time.Since(begun); took != 0 {
					t.Errorf("a waited for %v", took)
				}
				if got := writes.all()[before:]; len(got) != 1 || got[0] != "b false" {
					t.Errorf("writes %q, want b's claim alone", got)
				}
				if s := b.Status(); s.Reason != leader.ReasonOffered || s.Term <= term.Number {
					t.Errorf("%+v", s)
				}
				want := []string{
					fmt.Sprintf("a leads term %d", term.Number), fmt.Sprintf("term %d ended: %s by a", term.Number, reason),
					fmt.Sprintf("b leads term %d", b.Term().Number),
				}
				heard.demand(t, want...)
				want = append([]string{"term 0 ended: started by "}, want...)
				tell.demand(t, want...)
				told.demand(t, want...)
			})
		})
	}
}

func unfit() *health { return &health{check: func(context.Context) bool { return false }} }

func news(l leader.LeaderInfo) string {
	if l.ID != "" {
		return fmt.Sprintf("%s leads term %d", l.ID, l.Term)
	}
	return fmt.Sprintf("term %d ended: %s by %s", l.Term, l.Reason, l.By)
}

// An offer that comes to nothing costs its time, and then all hear of the
// vacancy.
func TestOfferThatComesToNothingIsFollowedByAVacancy(t *testing.T) {
	const patience = 25 * time.Millisecond
	for name, c := range map[string]struct {
		fate  faultstore.Fate
		reply time.Duration // of each write
		cost  time.Duration
	}{
		"lost":                {fate: faultstore.Fate{Lose: true}, cost: patience},
		"refused":             {fate: faultstore.Fate{Refuse: true}},
		"later than that":     {fate: faultstore.Fate{Late: time.Second}, cost: patience},
		"lost, writes slow":   {fate: faultstore.Fate{Lose: true}, reply: 100 * time.Millisecond, cost: 500 * time.Millisecond},
		"lost, writes slower": {fate: faultstore.Fate{Lose: true}, reply: 200 * time.Millisecond, cost: ttl / 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var vacated time.Time
				f := network(t, func(call faultstore.Call) faultstore.Fate {
					switch {
					case call.Op == faultstore.Offer:
						return c.fate
					case call.Op == faultstore.CompareAndSwap && call.Write.Tombstone:
						vacated = time.Now()
					}
					if call.Op == faultstore.CompareAndSwap {
						return faultstore.Fate{Reply: c.reply}
					}
					return faultstore.Fate{}
				})
				a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
				time.Sleep(heartbeat / 2)
				mustLead(t, a, b)
				begun := time.Now()
				halt(t, a)
				time.Sleep(2 * c.reply)
				mustLead(t, b, a)
				if s := b.Status(); s.Reason != leader.ReasonVacant || vacated.Sub(begun) != c.cost {
					t.Fatalf("%v, vacated after %v", status(b), vacated.Sub(begun))
				}
				// What is late is true for ever, and about a claim that is
				// over.
				term := b.Term()
				time.Sleep(2 * time.Second)
				if !b.IsLeader() || b.Term() != term {
					t.Errorf("%v", status(b))
				}
			})
		})
	}
}

// A renewal and the offer that follows it may be heard in the wrong order.
func TestOfferThatOvertakesTheLastRenewalIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			if c.Op == faultstore.Event {
				return faultstore.Fate{Delay: 10 * time.Millisecond}
			}
			return faultstore.Fate{}
		})
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		time.Sleep(20 * time.Millisecond)
		mustLead(t, a, b)
		time.Sleep(heartbeat - 20*time.Millisecond)
		synctest.Wait() // a has renewed just now
		begun := time.Now()
		go func() { _ = a.Stop() }()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if s := b.Status(); !b.IsLeader() || s.Reason != leader.ReasonOffered {
			t.Fatalf("%v, %v after the offer", status(b), time.Since(begun))
		}
	})
}

// Only who made a claim can offer it: the token that stands in the record for
// all to read is not enough.
func TestForgedOfferIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		past := start(t, st, config("past"))
		mustLead(t, past)
		halt(t, past)
		a := start(t, st, config("a"))
		b := start(t, st, config("b"))
		mustLead(t, a, b)
		e, r := stored(t, st)
		for _, text := range []string{
			"", "{}", "no JSON", `{"word":"","reason":"stopped"}`,
			fmt.Sprintf(`{"word":%q,"revision":%d,"reason":"stopped"}`, r.Token, e.Revision),
			fmt.Sprintf(`{"word":"guess","token":%q,"revision":%d,"reason":"stopped"}`, r.Token, e.Revision),
			fmt.Sprintf(`{"word":%q,"revision":%d,"reason":%q}`, r.Token, e.Revision, strings.Repeat("x", 1000)),
		} {
			offered(t, st, text)
			if !a.IsLeader() || b.IsLeader() {
				t.Fatalf("after %q: a %v, b %v", text, status(a), status(b))
			}
			if s := b.Status(); s.State != leader.StateFollower {
				t.Fatalf("after %q: b %v", text, status(b))
			}
		}
	})
}

// offered makes an offer as somebody else would.
func offered(t *testing.T, st *memstore.Store, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := st.Offer(ctx, "g", []byte(text)); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("%q: %v", text, err)
	}
	synctest.Wait()
}

// Who may not lead takes no offers, and one who is preferred goes first.
func TestOfferIsTakenByNobody(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, st store.Store) (b leader.ElectionConfig, then func(leader.Election)){
		"who is unhealthy": func(*testing.T, store.Store) (leader.ElectionConfig, func(leader.Election)) {
			cfg := config("b")
			cfg.HealthChecker, cfg.MaxConsecutiveFailures = unfit(), 1
			return cfg, func(leader.Election) { time.Sleep(2 * heartbeat) }
		},
		"who is of another priority": func(*testing.T, store.Store) (leader.ElectionConfig, func(leader.Election)) {
			cfg := config("b")
			cfg.Priority = 1
			return cfg, func(leader.Election) { time.Sleep(2 * heartbeat) }
		},
		"who backs off": func(*testing.T, store.Store) (leader.ElectionConfig, func(leader.Election)) {
			cfg := config("b")
			cfg.Campaign = leader.CampaignConfig{Backoff: heartbeat, MaxBackoff: heartbeat}
			return cfg, func(leader.Election) {}
		},
		"who has stopped": func(*testing.T, store.Store) (leader.ElectionConfig, func(leader.Election)) {
			return config("b"), func(b leader.Election) { _ = b.Stop() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				cfg, then := prepare(t, st)
				a, b := start(t, st, config("a")), start(t, st, cfg)
				then(b)
				mustLead(t, a, b)
				begun := time.Now()
				halt(t, a)
				e, r := stored(t, st)
				if took := time.Since(begun); took != 0 || r.ID == "a" || r.ID == "" && !e.Tombstone {
					t.Errorf("after %v: %s", took, e.Value)
				}
				if s := b.Status(); s.Reason == leader.ReasonOffered {
					t.Errorf("b %v", status(b))
				}
			})
		})
	}
}

// Nor does one whose work goes on after its time, and who may not campaign until
// it has ended.
func TestOfferDoesNotReachACandidateWhoseWorkGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		cfg := config("b")
		cfg.DemoteTimeout = heartbeat
		b, ends := candidate(t, st, cfg), make(chan struct{})
		defer close(ends)
		b.OnDemote(func() { <-ends })
		mustLead(t, started(t, b))
		a := start(t, st, config("a"))
		if err := b.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, a, b)
		time.Sleep(2 * heartbeat)
		begun := time.Now()
		halt(t, a)
		if e, _ := stored(t, st); !e.Tombstone || time.Since(begun) != 0 {
			t.Errorf("after %v: %s", time.Since(begun), e.Value)
		}
	})
}

// A group of candidates that are not alike is left to its preferences by both
// sides.
func TestOfferIsNotMadeAmongCandidatesThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		cfg := config("a")
		cfg.Priority = 1
		a, made := start(t, st, cfg), 0
		mustLead(t, a)
		stop, err := st.TakeOffers("g", func([]byte) { made++ })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		halt(t, a)
		synctest.Wait()
		if made > 0 {
			t.Errorf("%d offers were made", made)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		token, word := record.NewClaim()
		held := map[string]any{"id": "a", "token": token, "ttl": ttl.Milliseconds(), "standings": []any{map[string]any{"priority": 1}}}
		put(t, st, "g", held)
		b := start(t, st, config("b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		offer, err := record.Offer{Word: word, Revision: 1, Reason: "stopped"}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Offer(ctx, "g", offer); !errors.Is(err, store.ErrTransient) {
			t.Errorf("%v: somebody takes offers", err)
		}
		mustBe(t, b, leader.StateFollower)
	})
}

// What a record says of the term before concerns nobody who knows another one:
// terms in between were missed.
func TestObserverReportsTheEndOfTheTermBeforeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		holder := func(id string, prior map[string]any) map[string]any {
			return map[string]any{"id": id, "token": id, "ttl": ttl.Milliseconds(), "prior": prior}
		}
		put(t, st, "g", holder("a", nil))
		go func() {
			_ = leader.ObserveFuncWithStore(t.Context(), st, "g", leader.Observer{
				Leader: func(l leader.LeaderInfo) { j.note("%s", news(l)) }, Failed: func(error) {},
			})
		}()
		synctest.Wait()
		put(t, st, "g", holder("b", map[string]any{"term": 7, "reason": "stopped"}))
		synctest.Wait()
		put(t, st, "g", holder("c", map[string]any{"term": 2, "reason": "stopped"}))
		j.demand(t, "a leads term 1", "b leads term 2", "term 2 ended: stopped by b", "c leads term 3")
	})
}

// A watchedStore tells how long offers lasted.
type watchedStore struct {
	*memstore.Store
	lasted chan time.Duration
}

func (s watchedStore) Offer(ctx context.Context, key string, offer []byte) error {
	begun := time.Now()
	defer func() { s.lasted <- time.Since(begun) }()
	return s.Store.Offer(ctx, key, offer)
}

func TestOfferEndsWhenItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := watchedStore{memstore.New(), make(chan time.Duration, 1)}
		a, b := start(t, st, config("a")), start(t, st.Store, config("b"))
		mustLead(t, a, b)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		if d := <-st.lasted; d != 0 {
			t.Errorf("the offer went on for %v", d)
		}
	})
}

// A slowStore takes its time to end the taking of offers.
type slowStore struct {
	*memstore.Store
	pause time.Duration
}

func (s slowStore) TakeOffers(key string, deliver func([]byte)) (stop func(), err error) {
	end, err := s.Store.TakeOffers(key, deliver)
	return func() { end(); time.Sleep(s.pause) }, err
}

// A store that is busy with something else costs a leaving leader no more than
// an unheard offer.
func TestHandoverDoesNotWaitForASlowEndOfTakingOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		b := start(t, slowStore{st, time.Minute}, config("b"))
		c := start(t, st, config("c"))
		time.Sleep(heartbeat / 2)
		mustLead(t, a, b, c)
		halt(t, c)
		halt(t, a)
		mustLead(t, b)
		begun := time.Now()
		if err := b.Resign(t.Context()); err != nil || time.Since(begun) > 25*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if e, r := stored(t, st); !e.Tombstone || r.Reason != "resigned" {
			t.Errorf("%s", e.Value)
		}
	})
}

// An offering is one candidate's way to a store. It writes down each offer, and
// its end of taking offers waits.
type offering struct {
	*memstore.Store

	j    *journal
	stop <-chan struct{} // closed when the taking of offers may end
}

func (o *offering) Offer(ctx context.Context, key string, offer []byte) error {
	o.j.noteAt("offer")
	return o.Store.Offer(ctx, key, offer)
}

func (o *offering) TakeOffers(key string, deliver func([]byte)) (func(), error) {
	stop, err := o.Store.TakeOffers(key, deliver)
	return func() {
		<-o.stop
		stop()
	}, err
}

// While a candidate is still among those who take offers, its own might come
// back to it. It waits for the end of that as long as an offer has, and then
// writes the vacancy.
func TestOfferIsNotMadeWhileOffersAreTaken(t *testing.T) {
	const patience = 25 * time.Millisecond
	for name, c := range map[string]struct {
		after time.Duration // until the taking has ended
		then  leader.Reason
		want  []string
	}{
		"it ends in time":  {10 * time.Millisecond, leader.ReasonOffered, []string{"10ms offer"}},
		"it ends too late": {time.Minute, leader.ReasonVacant, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, ended := memstore.New(), make(chan struct{})
				end := sync.OnceFunc(func() { close(ended) })
				defer end()
				st := &offering{Store: shared, stop: ended}
				b := start(t, shared, config("b"))
				mustLead(t, b)
				a := start(t, st, config("a"))
				mustBe(t, a, leader.StateFollower)
				if err := b.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustLead(t, a, b) // and a's taking of offers ends from now on
				st.j = newJournal()
				go func() { _ = a.Resign(t.Context()) }()
				synctest.Wait()
				st.j.demand(t)
				time.AfterFunc(c.after, end)
				time.Sleep(patience)
				mustLead(t, b, a)
				st.j.demand(t, c.want...)
				if s := b.Status(); s.Reason != c.then {
					t.Errorf("b leads by %s, want %s", s.Reason, c.then)
				}
			})
		})
	}
}

// What an offer says is that the work has stopped.
func TestOfferIsNotMadeBeforeTheCallbacksHaveReturned(t *testing.T) {
	for reason, leave := range handovers {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, ended := memstore.New(), make(chan struct{})
				close(ended)
				st := &offering{Store: shared, stop: ended, j: newJournal()}
				work, workEnds := context.WithCancel(t.Context())
				defer workEnds()
				demotion, demotionEnds := context.WithCancel(t.Context())
				defer demotionEnds()
				a := candidate(t, st, config("a"))
				a.OnPromote(func(ctx context.Context, _ string) {
					<-ctx.Done()
					<-work.Done()
				})
				a.OnDemote(func() { <-demotion.Done() })
				started(t, a)
				mustLead(t, a)
				b := start(t, shared, config("b"))
				left := make(chan struct{})
				go func() {
					defer close(left)
					leave(t, a)
				}()
				for _, ends := range []func(){workEnds, demotionEnds} {
					time.Sleep(heartbeat)
					mustNotLead(t, a, b)
					st.j.demand(t)
					if e, r := stored(t, shared); e.Tombstone || r.ID != "a" {
						t.Fatalf("released while the work goes on: %s", e.Value)
					}
					ends()
				}
				<-left
				mustLead(t, b, a)
				st.j.demand(t, "2s offer")
				if s := b.Status(); s.Reason != leader.ReasonOffered {
					t.Errorf("b leads by %s", s.Reason)
				}
			})
		})
	}
}
