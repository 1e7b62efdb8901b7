package leaderkube_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A fenced resource of the work is given the term of the lock, even where the
// whole program runs in the term of another election.
func TestWorkInTheTermOfAnotherElectionCarriesTheTermOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := newGroup(t).Join("outer")
		terms := make(chan context.Context, 1)
		outer.OnTerm(func(ctx context.Context, _ leader.Term) { terms <- ctx })
		if err := outer.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		around := <-terms
		a := newSide(t, newGroup(t), "a")
		a.lead(around)
		a.Leading(func(ctx context.Context) {
			if term, ok := leader.TermFromContext(ctx); !ok || term != a.Term() {
				t.Errorf("term %v, of the lock %v", term, a.Term())
			}
			inner, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			if term, _ := leader.TermFromContext(inner); term != a.Term() {
				t.Errorf("below: term %v, of the lock %v", term, a.Term())
			}
		})(around)
		a.RecordEvent("stopped leading")
	})
}

// A registrar is a context that counts the functions that wait for its end.
type registrar struct {
	context.Context

	never chan struct{}
	n     atomic.Int64
}

func (r *registrar) Done() <-chan struct{} { return r.never }

func (r *registrar) AfterFunc(func()) (stop func() bool) {
	r.n.Add(1)
	var once atomic.Bool
	return func() bool {
		first := once.CompareAndSwap(false, true)
		if first {
			r.n.Add(-1)
		}
		return first
	}
}

// A closedDoor is a store of which a person has to repair something first.
type closedDoor struct{ *memstore.Store }

func (closedDoor) Check(context.Context, store.CheckRequest) (store.Report, error) {
	return store.Report{}, store.ErrPermanent
}

// client-go asks with one context for as long as it acquires, which may be for
// days.
func TestCampaignsThatCannotBeginLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := leaderkube.NewWithStore[electionRecord](closedDoor{memstore.New()}, newGroup(t).Config("a"), leaderkube.Options{Timing: timing})
		if err != nil {
			t.Fatal(err)
		}
		ctx := &registrar{Context: t.Context(), never: make(chan struct{})}
		for range 10 {
			if _, _, err := l.Get(ctx); !errors.Is(err, store.ErrPermanent) {
				t.Fatal(err)
			}
			time.Sleep(timing.RetryPeriod)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := ctx.n.Load(); n != 0 {
			t.Errorf("%d campaigns wait for the end of the loop", n)
		}
	})
}

// An unheard store does not answer.
type unheard struct{ *memstore.Store }

func (unheard) Check(ctx context.Context, _ store.CheckRequest) (store.Report, error) {
	<-ctx.Done()
	return store.Report{}, ctx.Err()
}

func TestAQuestionEndsWithItsLoopAlsoWhereTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := leaderkube.NewWithStore[electionRecord](unheard{memstore.New()}, newGroup(t).Config("a"), leaderkube.Options{Timing: timing})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if _, _, err := l.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(begun); took > 10*time.Millisecond {
			t.Errorf("the loop was held up for %v", took)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestALoopThatHasEndedIsGivenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSide(t, newGroup(t), "a")
		ctx, cancel := context.WithCancel(t.Context())
		if r, _, err := a.Get(ctx); err != nil || r.HolderIdentity != "a" {
			t.Fatalf("%+v, %v", r, err)
		}
		cancel()
		if r, _, err := a.Get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", r, err)
		}
		if err := a.Update(ctx, a.renewal()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if s := a.Status(); a.IsLeader() || s.State != leader.StateStopped {
			t.Errorf("leads %v, %+v", a.IsLeader(), s)
		}
	})
}

// A loop that does not hold the lock cannot end a campaign.
func TestAReleaseOfWhatIsNotHeldIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, b := newSide(t, g, "a"), newSide(t, g, "b")
		a.lead(t.Context())
		if _, _, err := b.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Update(t.Context(), electionRecord{LeaseDurationSeconds: 1}); !errors.Is(err, leaderkube.ErrNotHeld) {
			t.Error(err)
		}
		time.Sleep(timing.RetryPeriod)
		if s := b.Status(); s.State != leader.StateFollower {
			t.Errorf("%+v", s)
		}
		a.RecordEvent("stopped leading")
	})
}

func TestWorkBeginsOnlyWithTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSide(t, newGroup(t), "a")
		work := a.Leading(func(context.Context) { t.Error("work without the lock") })
		work(t.Context())
		if r, _, err := a.Get(t.Context()); err != nil || r.HolderIdentity != "a" {
			t.Fatalf("%+v, %v", r, err)
		}
		work(t.Context()) // the election leads, and the loop has not taken the lock
		a.renew()
		if err := a.Update(t.Context(), electionRecord{}); err != nil {
			t.Fatal(err)
		}
		work(t.Context())
	})
}

// Two candidates of one name would take each other's record for their own.
func TestASecondLoopWaitsForTheWorkOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSide(t, newGroup(t), "a")
		a.lead(t.Context())
		finish, working := make(chan struct{}), make(chan struct{})
		go a.Leading(func(context.Context) { close(working); <-finish })(t.Context())
		<-working
		first := a.Term()
		a.RecordEvent("stopped leading")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r, _, err := a.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", r, err)
		}
		if s := a.Status(); s.State != leader.StateDemoted {
			t.Errorf("another candidate was started: %+v", s)
		}
		close(finish)
		a.lead(t.Context())
		if second := a.Term(); !second.Supersedes(first) || second == first {
			t.Errorf("%v after %v", second, first)
		}
		a.RecordEvent("stopped leading")
	})
}

// client-go ends the context of its acquisition when that has succeeded.
func TestAnAcquisitionThatHasSucceededOutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSide(t, newGroup(t), "a")
		ctx, cancel := context.WithCancel(t.Context())
		a.lead(ctx)
		cancel()
		for range 20 {
			time.Sleep(timing.RetryPeriod)
			a.renew()
		}
		a.RecordEvent("stopped leading")
	})
}
