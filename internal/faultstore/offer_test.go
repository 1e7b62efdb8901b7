package faultstore_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
)

// takers collects who heard an offer and when, since the beginning.
type takers struct {
	f     *faultstore.Faults
	begun time.Time

	mu    sync.Mutex
	heard []string
}

func take(t *testing.T, f *faultstore.Faults, names ...string) *takers {
	t.Helper()
	h := &takers{f: f, begun: time.Now()}
	for _, name := range names {
		stop, err := f.Client(name).TakeOffers(key, func(offer []byte) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.heard = append(h.heard, name+" "+string(offer)+" "+time.Since(h.begun).String())
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	return h
}

// demand offers as client "a", and fails unless that ends in the outcome after
// the time and the takers hear just this in the next minute.
func (h *takers) demand(t *testing.T, want store.Outcome, after time.Duration, hear ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	start := time.Now()
	err := h.f.Client("a").Offer(ctx, key, []byte("o"))
	if got, took := store.Classify(err), time.Since(start); got != want || took != after {
		t.Errorf("the offer ended %v after %v, want %v after %v: %v", got, took, want, after, err)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.heard) // at one instant there is no order between takers
	if !slices.Equal(h.heard, hear) {
		t.Errorf("the takers heard %q, want %q", h.heard, hear)
	}
	h.heard = nil
}

func TestOfferFaultsHaveTheirOutcomes(t *testing.T) {
	for _, c := range []struct {
		name  string
		fate  faultstore.Fate
		want  store.Outcome
		after time.Duration
		hear  []string
		seen  []faultstore.Fault
	}{
		{"none", faultstore.Fate{}, store.Unknown, timeout, []string{"b o 0s"}, nil},
		{"another's turn", faultstore.Fate{Pick: 4}, store.Unknown, timeout, []string{"c o 0s"}, nil},
		{"lost", faultstore.Fate{Lose: true}, store.Unknown, timeout, nil, []faultstore.Fault{faultstore.LostOffer}},
		{"refused", faultstore.Fate{Refuse: true}, store.Transient, 0, nil, []faultstore.Fault{faultstore.Refusal}},
		{"denied", faultstore.Fate{Deny: true}, store.Permanent, 0, nil, []faultstore.Fault{faultstore.Denial}},
		{"delayed", faultstore.Fate{Delay: timeout / 2}, store.Unknown, timeout, []string{"b o 500ms"}, []faultstore.Fault{faultstore.DelayedOffer}},
		{"too late", faultstore.Fate{Late: timeout}, store.Unknown, timeout, []string{"b o 2s"}, []faultstore.Fault{faultstore.LateOffer}},
		{
			"repeated", faultstore.Fate{Repeat: 3, Delay: 1}, store.Unknown, timeout, []string{"b o 1ns", "b o 1ns", "c o 1ns", "d o 1ns"},
			[]faultstore.Fault{faultstore.RepeatedOffer, faultstore.DelayedOffer},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, only(faultstore.Offer, c.fate), func(t *testing.T, f *faultstore.Faults) {
				h := take(t, f, "b", "c", "d")
				h.demand(t, c.want, c.after, c.hear...)
				seen(t, f, c.seen...)
			})
		})
	}
}

func TestTakersHaveTheirTurns(t *testing.T) {
	pick := func(c faultstore.Call) faultstore.Fate {
		if c.Op == faultstore.Offer && c.N == 1 {
			return faultstore.Fate{Pick: 1}
		}
		return faultstore.Fate{}
	}
	inBubble(t, pick, func(t *testing.T, f *faultstore.Faults) {
		h := take(t, f, "b", "c", "d")
		for _, name := range []string{"b", "d", "b", "c", "d"} {
			h.begun = time.Now()
			h.demand(t, store.Unknown, timeout, name+" o 0s")
		}
	})
}

func TestNobodyHearsOffersAcrossAPartition(t *testing.T) {
	for name, cut := range map[string]func(*faultstore.Faults, ...string){
		"Partition": (*faultstore.Faults).Partition, "BlackHole": (*faultstore.Faults).BlackHole,
	} {
		for _, side := range []string{"a", "b"} {
			t.Run(name+" of "+side, func(t *testing.T) {
				inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
					h := take(t, f, "b")
					cut(f, side)
					h.demand(t, store.Unknown, timeout)
					f.Heal(side)
					h.begun = time.Now()
					h.demand(t, store.Unknown, timeout, "b o 0s")
					seen(t, f, faultstore.Partition)
				})
			})
		}
	}
}

func TestPartitionThatBeginsMeanwhileSwallowsAnOffer(t *testing.T) {
	inBubble(t, only(faultstore.Offer, faultstore.Fate{Delay: timeout / 2}), func(t *testing.T, f *faultstore.Faults) {
		h := take(t, f, "b")
		time.AfterFunc(timeout/4, func() { f.Partition("b") })
		h.demand(t, store.Unknown, timeout)
		seen(t, f, faultstore.Partition)
	})
}

func TestCloseEndsOffersAndTakers(t *testing.T) {
	inBubble(t, only(faultstore.Offer, faultstore.Fate{Late: time.Minute}), func(t *testing.T, f *faultstore.Faults) {
		h := take(t, f, "b")
		time.AfterFunc(timeout/2, f.Close)
		h.demand(t, store.Unknown, timeout/2)
		if _, err := f.Client("b").TakeOffers(key, func([]byte) {}); store.Classify(err) != store.Permanent {
			t.Errorf("TakeOffers after Close: %v", err)
		}
	})
}

// A simulation that makes no offers need not survive their faults.
func TestFaultsOfOffersCountOnlyOnceAnOfferWasMade(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		offers := []faultstore.Fault{faultstore.DelayedOffer, faultstore.LateOffer, faultstore.LostOffer, faultstore.RepeatedOffer}
		for _, kind := range offers {
			if _, counted := f.Counts()[kind]; counted || slices.Contains(f.Unseen(), kind) {
				t.Errorf("%v counts before the first offer", kind)
			}
		}
		take(t, f).demand(t, store.Transient, 0)
		for _, kind := range offers {
			if _, counted := f.Counts()[kind]; !counted || !slices.Contains(f.Unseen(), kind) {
				t.Errorf("%v does not count after the first offer", kind)
			}
		}
	})
}
