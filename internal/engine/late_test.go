package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// These tests are about a goroutine that does not get on between two looks of
// one call, as happens on a busy machine, while the term ends.

// A halting machine has one goroutine wait in its nth look at the clock until
// something has happened.
type halting struct {
	origin    time.Time
	goroutine atomic.Uint64
	looks     int // until then; of that goroutine alone
	happens   func()
}

func (m *halting) Now() machine.Instant {
	if m.goroutine.Load() == goid.Current() {
		m.looks--
		if m.looks == 0 {
			m.happens()
		}
	}
	t := time.Now()
	return machine.Instant{Mono: int64(t.Sub(m.origin)), Wall: t.UnixNano()}
}

func (m *halting) BootNow() int64 { return int64(time.Since(m.origin)) }
func (m *halting) Awake()         {}
func (m *halting) Timer(f func()) Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}
func (m *halting) Alarm(func()) Alarm { return silent{} }

// silent is an alarm that never fires: these machines are not suspended.
type silent struct{}

func (silent) Set(int64) {}
func (silent) Stop()     {}

// halt makes call, of a candidate that leads, wait in the clock reading of that
// number until the term has ended and, if again is set, the next has started.
// It returns the term in which call started, and the result of call.
func halt(t *testing.T, looks int, again bool, call func(context.Context, *Candidate) error) (term leadership.Term, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &halting{origin: time.Now()}
		c := New(memstore.New(), testConfig(func(c *Config) { c.ValidateAlways = true }))
		c.SetMachine(m.origin, m)
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		leads := func() bool {
			time.Sleep(time.Minute)
			return c.IsLeader()
		}
		if !leads() {
			t.Fatal("it does not lead")
		}
		term = c.Term()
		reached := false
		m.happens = func() {
			reached = true
			if err := c.Resign(t.Context(), ""); err != nil {
				t.Error(err)
			}
			if again && (!leads() || c.Term() == term) {
				t.Errorf("it leads in term %v, after %v", c.Term(), term)
			}
		}
		m.looks = looks
		m.goroutine.Store(goid.Current())
		err = call(t.Context(), c)
		m.goroutine.Store(0)
		if !reached {
			t.Errorf("it looked at the clock %d times", looks-m.looks)
		}
		if err := c.Stop(t.Context(), StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
			t.Error(err)
		}
	})
	return term, err
}

func validated(ctx context.Context, c *Candidate) error { return c.ValidateToken(ctx) }

// The renewals of the next term prove nothing of this one.
func TestLaterTermDoesNotValidateAnEarlierToken(t *testing.T) {
	term, err := halt(t, 2, true, validated) // when the term is known, before the question is put
	if l, ok := errors.AsType[*testLossError](err); !ok || l.term != term {
		t.Errorf("%v", err)
	}
}

// A proof describes the past when the caller gets on.
func TestAProofThatIsReadAfterTheTermIsNone(t *testing.T) {
	if _, err := halt(t, 3, false, validated); !errors.Is(err, ErrNotLeader) {
		t.Errorf("%v", err)
	}
}

func TestDoDoesNotStartAfterItsTermHasEnded(t *testing.T) {
	_, err := halt(t, 5, false, func(ctx context.Context, c *Candidate) error {
		return c.Do(ctx, func(context.Context) error { return errors.New("begun") })
	})
	if !errors.Is(err, ErrNotLeader) {
		t.Errorf("%v", err)
	}
}

// The end of the term reaches the context of an operation by a separate
// goroutine, and the operation may return first.
func TestContextOfAnOperationEndsWithItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(memstore.New(), testConfig())
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(time.Minute)
			var kept context.Context
			err := c.Do(t.Context(), func(ctx context.Context) error {
				kept = ctx //nolint:fatcontext // it is looked at below, when it is over
				return c.Resign(t.Context(), "")
			})
			if err != nil {
				t.Fatal(err)
			}
			if cause := context.Cause(kept); !errors.Is(cause, ErrNotLeader) {
				t.Fatalf("it ended with %v", cause)
			}
		}
		if err := c.Stop(t.Context(), StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
			t.Error(err)
		}
	})
}

func TestALateResignationEndsNoLaterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(memstore.New(), testConfig())
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		earlier := c.Term()
		if err := c.Resign(t.Context(), ""); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		later := c.Term()
		if err := c.leave(t.Context(), earlier.Number, machine.Exit{Reason: machine.ReasonResigned}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if later.Number <= earlier.Number || c.Term() != later {
			t.Errorf("term %v, after %v and %v", c.Term(), earlier, later)
		}
		if err := c.Stop(t.Context(), StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
			t.Error(err)
		}
	})
}
