package storetest_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// The ways to carry offers wrongly.
var offerDefects = []defect{
	{"loses all offers", "OfferReachesATaker", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, _ func([]byte)) (func(), error) { return m.TakeOffers(key, func([]byte) {}) }
	}},
	{"answers an offer that arrived", "OfferReachesATaker", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			if err := m.Offer(ctx, key, offer); store.Classify(err) != store.Unknown {
				return err
			}
			return nil
		}
	}},
	{"says that an offer reached nobody when its time is over", "OfferReachesATaker", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			return fmt.Errorf("%w: timeout: %v", store.ErrTransient, m.Offer(ctx, key, offer)) //nolint:errorlint // the class is to be lost
		}
	}},
	{"leaves out the takers of the offering client", "OfferReachesATakerOfTheSameClient", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			return m.TakeOffers("elsewhere."+key, deliver)
		}
	}},
	{"offers to all takers", "OfferReachesOneOfManyTakers", toAll},
	{"takes a key for a prefix", "OfferReachesNoTakerOfAnotherKey", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		root := func(key string) string { first, _, _ := strings.Cut(key, "."); return first }
		w.offer = func(ctx context.Context, key string, offer []byte) error { return m.Offer(ctx, root(key), offer) }
		w.take = func(key string, deliver func([]byte)) (func(), error) { return m.TakeOffers(root(key), deliver) }
	}},
	{"takes no notice of letters' case", "OfferReachesNoTakerOfAnotherKey", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			return m.Offer(ctx, strings.ToLower(key), offer)
		}
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			return m.TakeOffers(strings.ToLower(key), deliver)
		}
	}},
	{"waits for takers until the context ends", "OfferThatNobodyTakesFailsAtOnce", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			err := m.Offer(ctx, key, offer)
			<-ctx.Done()
			return err
		}
	}},
	{"forgets to say that nobody takes offers", "OfferThatNobodyTakesFailsAtOnce", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			err := m.Offer(ctx, key, offer)
			if ctx.Err() == nil && store.Classify(err) == store.Transient {
				<-ctx.Done()
				err = store.ErrUnknown
			}
			return err
		}
	}},
	{"calls it permanent that nobody takes offers", "OfferThatNobodyTakesFailsAtOnce", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			err := m.Offer(ctx, key, offer)
			if store.Classify(err) == store.Transient {
				err = store.ErrPermanent
			}
			return err
		}
	}},
	{"forgets an offer that it has sent", "OfferEndsWithItsContext", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		var n atomic.Int32
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			if n.Add(1) > 1 {
				return store.ErrUnknown
			}
			return m.Offer(ctx, key, offer)
		}
	}},
	{"outlasts the offer's context", "OfferEndsWithItsContext", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			if _, bounded := ctx.Deadline(); bounded {
				return m.Offer(ctx, key, offer)
			}
			return m.Offer(context.Background(), key, offer)
		}
	}},
	{"offers under a context that is done, for ever", "OfferUnderACancelledContextReturns", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			if ctx.Err() != nil {
				ctx = context.Background()
			}
			return m.Offer(ctx, key, offer)
		}
	}},
	{"offers by a write", "OfferWritesNothing", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			m.Put(key, offer)
			return m.Offer(ctx, key, offer)
		}
	}},
	{"keeps the sender's bytes", "OfferArrivesAsItWasMade", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		var mu sync.Mutex
		var last []byte
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			mu.Lock()
			last = offer
			mu.Unlock()
			return m.Offer(ctx, key, offer)
		}
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			return m.TakeOffers(key, func([]byte) {
				mu.Lock()
				offer := last
				mu.Unlock()
				deliver(offer)
			})
		}
	}},
	{"takes offers for text", "OfferArrivesAsItWasMade", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			return m.TakeOffers(key, func(offer []byte) { deliver(bytes.ToValidUTF8(offer, []byte("?"))) })
		}
	}},
	{"cuts long offers off", "OfferArrivesAsItWasMade", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			return m.TakeOffers(key, func(offer []byte) { deliver(offer[:min(len(offer), 1024)]) })
		}
	}},
	{"loses empty offers", "OfferArrivesAsItWasMade", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			return m.TakeOffers(key, func(offer []byte) {
				if len(offer) > 0 {
					deliver(offer)
				}
			})
		}
	}},
	{"offers for any key", "OfferThatNoStoreCarriesIsRefused", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			if !store.ValidKey(key) {
				key = "any"
			}
			return m.Offer(ctx, key, offer)
		}
	}},
	{"takes offers for any key", "OfferThatNoStoreCarriesIsRefused", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			if !store.ValidKey(key) {
				key = "any"
			}
			return m.TakeOffers(key, deliver)
		}
	}},
	{"carries offers of any length", "OfferThatNoStoreCarriesIsRefused", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.offer = func(ctx context.Context, key string, offer []byte) error {
			return m.Offer(ctx, key, offer[:min(len(offer), store.MaxValue)])
		}
	}},
	{"brings each offer in a goroutine of its own", "CallsOfATakerDoNotOverlap", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			return m.TakeOffers(key, func(offer []byte) {
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() { deliver(offer) })
				}
				wg.Wait()
			})
		}
	}},
	{"brings offers after stop", "StoppedTakerHearsNothing", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			_, err := m.TakeOffers(key, deliver)
			return func() {}, err
		}
	}},
	{"keeps offering to who has stopped", "StoppedTakerHearsNothing", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			var stopped atomic.Bool
			_, err := m.TakeOffers(key, func(offer []byte) {
				if !stopped.Load() {
					deliver(offer)
				}
			})
			return func() { stopped.Store(true) }, err
		}
	}},
	{"takes no offers once a taker has stopped", "StoppedTakerHearsNothing", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		var mu sync.Mutex
		var stops []func()
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			stop, err := m.TakeOffers(key, deliver)
			mu.Lock()
			defer mu.Unlock()
			stops = append(stops, stop)
			return func() {
				mu.Lock()
				defer mu.Unlock()
				for _, stop := range slices.Backward(stops) {
					stop()
				}
			}, err
		}
	}},
	{"never ends its second stop", "StopOfATakerMayBeCalledAtOnceByMany", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			stop, err := m.TakeOffers(key, deliver)
			first := make(chan struct{}, 1)
			first <- struct{}{}
			return func() { <-first; stop() }, err
		}
	}},
	{"waits for itself when a taker stops", "StopWithinATakerReturns", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			var running sync.Mutex
			stop, err := m.TakeOffers(key, func(offer []byte) {
				running.Lock()
				defer running.Unlock()
				deliver(offer)
			})
			return func() {
				running.Lock()
				defer running.Unlock()
				stop()
			}, err
		}
	}},
	{"does not wait for a taker that runs", "StopWaitsForARunningTaker", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			stop, err := m.TakeOffers(key, deliver)
			return func() { go stop() }, err
		}
	}},
	{"ends the takers with the watches", "TakersAndWatchesOfOneClientOutliveEachOther", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		ctx, cancel := context.WithCancel(context.Background())
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			stop, err := m.Watch(ctx, keys, deliver)
			return func() { cancel(); stop() }, err
		}
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			stop, err := m.TakeOffers(key, deliver)
			context.AfterFunc(ctx, stop)
			return stop, err
		}
	}},
	{"leaks a goroutine for each taker", "EndedTakersLeaveNoGoroutine", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			go func() { select {} }()
			return m.TakeOffers(key, deliver)
		}
	}},
	{"takes no offers after an interruption", "TakerHearsAfterAnInterruption", func(m *memstore.Store, w *wrapper, h *storetest.Harness) {
		var deaf atomic.Bool
		h.Interrupt = func() error { deaf.Store(true); return nil }
		w.take = func(key string, deliver func([]byte)) (func(), error) {
			return m.TakeOffers(key, func(offer []byte) {
				if !deaf.Load() {
					deliver(offer)
				}
			})
		}
	}},
}

// toAll lets each taker of a key hear what is offered for it.
func toAll(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
	var mu sync.Mutex
	var takers []func([]byte)
	w.take = func(key string, deliver func([]byte)) (func(), error) {
		mu.Lock()
		defer mu.Unlock()
		takers = append(takers, deliver)
		return m.TakeOffers(key, func(offer []byte) {
			mu.Lock()
			defer mu.Unlock()
			for _, deliver := range takers {
				deliver(offer)
			}
		})
	}
}
