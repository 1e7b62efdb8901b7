package histories_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
)

var strict = histories.Trial{Judge: histories.Judge{CurrentConflicts: true}}

func TestFaultsHappenUntilAHistoryHasEnough(t *testing.T) {
	t.Parallel()
	st := memstore.New()
	happened := 0
	tally, err := strict.WithFaults(t.Context(), histories.Faulted{
		Stores: []store.Store{st, st, st},
		Faults: []histories.Fault{{Name: "none", Happen: func(*rand.Rand) error { happened++; return nil }}},
		Rounds: 2,
		Enough: func(c histories.Tally) error {
			if c.Acknowledged < 100 || c.Conflicts == 0 {
				return errors.New("too few")
			}
			return nil
		},
	})
	if err != nil || tally.Acknowledged < 100 || tally.Histories != 1 || tally.Seed == 0 {
		t.Errorf("%v, %v", tally, err)
	}
	if happened < 2 || tally.Faults["none"] != happened {
		t.Errorf("the fault happened %d times, and the tally is %v", happened, tally)
	}
}

// A server that comes back without what it acknowledged.
func TestAStoreThatForgetsAtAFaultIsCondemned(t *testing.T) {
	t.Parallel()
	st := memstore.New()
	last := uint64(0) // its revisions grow all the same
	_, err := strict.WithFaults(t.Context(), histories.Faulted{
		Stores: []store.Store{st, st, st},
		Faults: []histories.Fault{{Name: "memory loss", Happen: func(*rand.Rand) error {
			last += 1_000_000
			st.Restore(nil, last)
			return nil
		}}},
		Rounds: 3,
	})
	if err == nil || !strings.Contains(err.Error(), "no order explains") {
		t.Errorf("the verdict: %v", err)
	}
}

// answering is a store whose answers are the test's.
type answering struct {
	store.Store
	answer func(w store.Write, rev uint64, err error) (uint64, error)
}

func (a answering) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	rev, err := a.Store.CompareAndSwap(ctx, w)
	return a.answer(w, rev, err)
}

func TestDishonestAnswersAreCondemned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(store.Write, uint64, error) (uint64, error)
		says   string
	}{
		// As by a client that repeats a write whose answer was lost.
		"an applied write is told to be a conflict": {func(_ store.Write, rev uint64, err error) (uint64, error) {
			if err == nil && rev%5 == 0 {
				return 0, fmt.Errorf("%w: the repetition was refused", store.ErrConflict)
			}
			return rev, err
		}, "and its write returned conflict"},
		"a refused write is acknowledged": {func(w store.Write, rev uint64, err error) (uint64, error) {
			if err != nil {
				return w.Expected + 1, nil //nolint:nilerr // this is the lie
			}
			return rev, nil
		}, "key"},
		"nothing is known": {func(store.Write, uint64, error) (uint64, error) { return 0, store.ErrUnknown }, "do not settle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := answering{memstore.New(), c.answer}
			trial := strict
			trial.Patience = time.Second // the last one is never settled
			_, err := trial.WithoutFaults(t.Context(), 1, []store.Store{st, st, st})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the verdict: %v", err)
			}
		})
	}
}

func TestATrialThatShowsTooLittleIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := strict.WithoutFaults(t.Context(), 1, []store.Store{memstore.New()}); err == nil || !strings.Contains(err.Error(), "too little") {
		t.Errorf("one client contends with nobody, and the verdict is %v", err)
	}
}

func TestAFaultThatFailsEndsTheTrial(t *testing.T) {
	t.Parallel()
	st := memstore.New()
	broken := errors.New("the server does not come back")
	_, err := strict.WithFaults(t.Context(), histories.Faulted{
		Stores: []store.Store{st, st},
		Faults: []histories.Fault{{Name: "restart", Happen: func(*rand.Rand) error { return broken }}},
	})
	if !errors.Is(err, broken) {
		t.Errorf("the verdict: %v", err)
	}
}

func TestATrialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	st := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := strict.WithFaults(ctx, histories.Faulted{
		Stores: []store.Store{st, st},
		Faults: []histories.Fault{{Name: "the end", Happen: func(*rand.Rand) error { cancel(); return nil }}},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the verdict: %v", err)
	}
}
