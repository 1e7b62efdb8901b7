package memstore_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// taken is what takers of offers heard, in one order.
type taken struct {
	mu    sync.Mutex
	heard []string
}

func (h *taken) by(t *testing.T, s *memstore.Store, key, name string) (stop func()) {
	t.Helper()
	stop, err := s.TakeOffers(key, func(offer []byte) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.heard = append(h.heard, name+":"+string(offer))
	})
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

func (h *taken) demand(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.heard, want) {
		t.Errorf("the takers heard %v, want %v", h.heard, want)
	}
}

// offer makes an offer that lasts for a second, and demands the outcome after
// that or at once.
func offer(t *testing.T, s *memstore.Store, key, value string, want store.Outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	err := s.Offer(ctx, key, []byte(value))
	if got := store.Classify(err); got != want || err == nil {
		t.Errorf("Offer(%q, %q): %v (%v), want %v", key, value, err, got, want)
	}
	lasts := time.Duration(0)
	if want == store.Unknown {
		lasts = time.Second
	}
	if took := time.Since(start); took != lasts {
		t.Errorf("Offer(%q, %q) took %v, want %v", key, value, took, lasts)
	}
}

func TestTakersOfAKeyHearItsOffersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := memstore.New(), &taken{}
		offer(t, s, "g", "0", store.Transient)
		stopA, stopB := h.by(t, s, "g", "a"), h.by(t, s, "g", "b")
		stopC := h.by(t, s, "other", "c")
		for _, value := range []string{"1", "2", "3"} {
			offer(t, s, "g", value, store.Unknown)
		}
		offer(t, s, "other", "4", store.Unknown)
		stopB()
		offer(t, s, "g", "5", store.Unknown)
		stopA()
		offer(t, s, "g", "6", store.Transient)
		h.demand(t, "a:1", "b:2", "a:3", "c:4", "a:5")
		stopC()
	})
}

func TestOfferThatWaitsGivesWayToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := memstore.New(), &taken{}
		release := make(chan struct{})
		stop, err := s.TakeOffers("g", func(o []byte) {
			<-release
			h.mu.Lock()
			defer h.mu.Unlock()
			h.heard = append(h.heard, string(o))
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for _, value := range []string{"1", "2", "3"} {
			offer(t, s, "g", value, store.Unknown)
		}
		close(release)
		h.demand(t, "1", "3")
	})
}

func TestStopWaitsForTheTakerThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		ended := false
		stop, err := s.TakeOffers("g", func([]byte) {
			<-time.After(2 * time.Second)
			ended = true
		})
		if err != nil {
			t.Fatal(err)
		}
		offer(t, s, "g", "1", store.Unknown)
		stop()
		if !ended {
			t.Error("stop returned while deliver ran")
		}
		stop()
	})
}

func TestOfferEndsWithTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h, cause := memstore.New(), &taken{}, errors.New("taken")
		defer h.by(t, s, "g", "a")()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		start := time.Now()
		err := s.Offer(ctx, "g", []byte("1"))
		if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, cause) || time.Since(start) != time.Minute {
			t.Errorf("Offer: %v after %v; want an unknown outcome by the cause, after a minute", err, time.Since(start))
		}
		if err := s.Offer(ctx, "g", []byte("2")); !errors.Is(err, store.ErrTransient) {
			t.Errorf("Offer under a context that is done: %v; want a transient failure", err)
		}
		h.demand(t, "a:1")
	})
}

func TestOfferIsAsItWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var got []byte
		stop, err := s.TakeOffers("g", func(o []byte) { got = o })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		value := []byte("as it was")
		_ = s.Offer(ctx, "g", value)
		clear(value)
		stop()
		if string(got) != "as it was" {
			t.Errorf("the taker has %q", got)
		}
	})
}

func TestWhatNoStoreCarriesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := memstore.New(), &taken{}
		defer h.by(t, s, "g", "a")()
		for key, size := range map[string]int{"": 1, "a..b": 1, "a b": 1, "*": 1, "g": store.MaxValue + 1} {
			if err := s.Offer(t.Context(), key, make([]byte, size)); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("Offer(%q) of %d bytes: %v; want store.ErrInvalid", key, size, err)
			}
		}
		if _, err := s.TakeOffers("*", func([]byte) {}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("TakeOffers: %v; want store.ErrInvalid", err)
		}
		h.demand(t)
	})
}
