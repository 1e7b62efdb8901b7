package leader_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

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
func TestNoOfferIsMadeWhileWeTakeOffers(t *testing.T) {
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
func TestNoOfferIsMadeBeforeTheCallbacksHaveReturned(t *testing.T) {
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
