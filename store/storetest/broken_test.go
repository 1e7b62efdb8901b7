package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// A wrapper is a memstore with parts replaced by wrong ones.
type wrapper struct {
	*memstore.Store
	get   func(context.Context, string) (store.Entry, error)
	cas   func(context.Context, store.Write) (uint64, error)
	watch func(context.Context, []string, func(store.Entry)) (func(), error)
	wide  func(context.Context, string, func(store.Entry), func(error)) (func(), error)
}

// An unwaiting is a wrapper that also writes without waiting, by begin if that
// is set.
type unwaiting struct {
	*wrapper
	begin func(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending
}

func (u unwaiting) CompareAndSwapAsync(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
	if u.begin != nil {
		return u.begin(deadline, w, done)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	go func() {
		defer cancel()
		done(u.cas(ctx, w))
	}()
	return canceling(cancel)
}

type canceling func()

func (c canceling) Cancel() { c() }

func (w *wrapper) Get(ctx context.Context, key string) (store.Entry, error) { return w.get(ctx, key) }
func (w *wrapper) CompareAndSwap(ctx context.Context, x store.Write) (uint64, error) {
	return w.cas(ctx, x)
}
func (w *wrapper) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	return w.watch(ctx, keys, deliver)
}
func (w *wrapper) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	return w.wide(ctx, pattern, deliver, present)
}

// A defect is a way to break a store that somebody has shipped, or nearly so,
// and the claim that must catch it.
type defect struct {
	name   string
	claim  string
	inject func(m *memstore.Store, w *wrapper, h *storetest.Harness)
}

var defects = []defect{
	{"writes without a condition", "EarlierRevisionConflicts", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(_ context.Context, x store.Write) (uint64, error) { return m.Put(x.Key, x.Value), nil }
	}},
	{"compares and then writes", "OneOfFiftyCreatesWins", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		compared := make(chan struct{})
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			if e, err := m.Get(ctx, x.Key); err != nil || e.Revision != x.Expected {
				return 0, errors.Join(store.ErrConflict, err)
			}
			select { // until another has compared, too
			case compared <- struct{}{}:
			case <-compared:
			case <-time.After(3 * time.Second):
			}
			return m.Put(x.Key, x.Value), nil
		}
	}},
	{"restarts its revisions after a deletion", "RevisionsIncreaseAcrossForeignDeletion", func(m *memstore.Store, _ *wrapper, h *storetest.Harness) {
		h.Delete = func(string) error { m.Restore(nil, 0); return nil }
	}},
	{"counts from beyond what records can state", "RevisionsStayBelowTwoToThe53", func(m *memstore.Store, _ *wrapper, _ *storetest.Harness) {
		m.Restore(nil, 1<<53)
	}},
	{"takes the largest revision for any", "LargestRevisionConflicts", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			if x.Expected == math.MaxUint64 {
				return m.Put(x.Key, x.Value), nil
			}
			return m.CompareAndSwap(ctx, x)
		}
	}},
	{"takes expected zero for a missing or deleted key", "ExpectedZeroConflictsOnATombstone", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			if e, _ := m.Get(ctx, x.Key); x.Expected == 0 && e.Tombstone {
				x.Expected = e.Revision
			}
			return m.CompareAndSwap(ctx, x)
		}
	}},
	{"saves writes that change nothing", "SameValueIsANewRevision", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			e, err := m.Get(ctx, x.Key)
			if err == nil && e.Revision == x.Expected && e.Revision > 0 && bytes.Equal(e.Value, x.Value) {
				return e.Revision, nil
			}
			return m.CompareAndSwap(ctx, x)
		}
	}},
	{"gives a conflict no class", "EarlierRevisionConflicts", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			rev, err := m.CompareAndSwap(ctx, x)
			if err != nil {
				err = errors.New("wrong last sequence")
			}
			return rev, err
		}
	}},
	{"calls a timed-out write a conflict", "WriteAbandonedInFlightIsNeverToldAConflict", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			rev, err := m.CompareAndSwap(context.Background(), x)
			if ctx.Err() != nil {
				return 0, fmt.Errorf("%w: timeout", store.ErrConflict)
			}
			return rev, err
		}
	}},
	{"calls an applied write transient", "CancelledContextEndsAWriteHonestly", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			rev, err := m.CompareAndSwap(context.Background(), x)
			if ctx.Err() != nil {
				return 0, fmt.Errorf("%w: %w", store.ErrTransient, ctx.Err())
			}
			return rev, err
		}
	}},
	{"ignores the context", "CancelledContextEndsARead", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.get = func(_ context.Context, key string) (store.Entry, error) { return m.Get(context.Background(), key) }
	}},
	{"fails for unknown keys", "UnknownKeyHasRevisionZeroAndIsNoError", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.get = func(ctx context.Context, key string) (store.Entry, error) {
			e, err := m.Get(ctx, key)
			if err == nil && e.Revision == 0 {
				err = fmt.Errorf("%w: key not found", store.ErrPermanent)
			}
			return e, err
		}
	}},
	{"keeps the caller's buffer", "CallersBufferIsNotKept", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		var kept sync.Map
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			rev, err := m.CompareAndSwap(ctx, x)
			kept.Store(rev, x.Value)
			return rev, err
		}
		w.get = func(ctx context.Context, key string) (store.Entry, error) {
			e, err := m.Get(ctx, key)
			v, _ := kept.Load(e.Revision)
			e.Value, _ = v.([]byte)
			return e, err
		}
	}},
	{"reuses the buffer that it returned", "DeliveredValueNeverChanges", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		buf := make([]byte, 1<<20)
		w.get = func(ctx context.Context, key string) (store.Entry, error) {
			e, err := m.Get(ctx, key)
			e.Value = buf[:copy(buf, e.Value)]
			return e, err
		}
	}},
	{"drops a tombstone's value", "TombstoneKeepsRevisionAndValue", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			if x.Tombstone {
				x.Value = nil
			}
			return m.CompareAndSwap(ctx, x)
		}
	}},
	{"takes an empty value for a deletion", "EmptyValueIsAValueAndNoDeletion", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.get = func(ctx context.Context, key string) (store.Entry, error) {
			e, err := m.Get(ctx, key)
			e.Tombstone = e.Revision != 0 && len(e.Value) == 0
			return e, err
		}
	}},
	{"folds the case of keys", "SimilarKeysAreDistinct", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			x.Key = strings.ToLower(x.Key)
			return m.CompareAndSwap(ctx, x)
		}
	}},
	{"truncates values", "LargestValueRoundTrips", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			x.Value = x.Value[:min(len(x.Value), 4096)]
			return m.CompareAndSwap(ctx, x)
		}
	}},
	{"calls an oversize value transient", "OversizeValueIsInvalidAndChangesNothing", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
			rev, err := m.CompareAndSwap(ctx, x)
			if errors.Is(err, store.ErrInvalid) {
				err = store.ErrTransient
			}
			return rev, err
		}
	}},
	{"skips the current state", "WatchBeginsWithThePresentState", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			first := true
			return m.Watch(ctx, keys, func(e store.Entry) {
				if !first {
					deliver(e)
				}
				first = false
			})
		}
	}},
	{"skips unknown keys", "WatchBeginsWithRevisionZeroForAnUnknownKey", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			return m.Watch(ctx, keys, func(e store.Entry) {
				if e.Revision != 0 {
					deliver(e)
				}
			})
		}
	}},
	{"reads and then subscribes", "WriteBetweenReadAndSubscriptionIsHeard", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			before, err := m.Get(ctx, keys[0])
			<-time.After(10 * time.Millisecond)
			first := true
			stop, werr := m.Watch(ctx, keys, func(e store.Entry) {
				if first {
					e = before
				}
				first = false
				deliver(e)
			})
			return stop, errors.Join(err, werr)
		}
	}},
	{"hears deletions as nothing", "WatchHearsOfAForeignDeletion", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			return m.Watch(ctx, keys, func(e store.Entry) {
				if !e.Tombstone {
					deliver(e)
				}
			})
		}
	}},
	{"ends all watches with one", "WatchOutlivesTheStopOfAnother", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		var mu sync.Mutex
		var stops []func()
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			stop, err := m.Watch(ctx, keys, deliver)
			mu.Lock()
			defer mu.Unlock()
			stops = append(stops, stop)
			return func() {
				mu.Lock()
				defer mu.Unlock()
				for _, stop := range stops {
					stop()
				}
			}, err
		}
	}},
	{"hears of a neighbour", "WatchOfOneKeyHearsOfNoOther", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			return m.Watch(ctx, []string{keys[0], keys[0] + ".b"}, deliver)
		}
	}},
	{"delivers from many goroutines", "DeliverCallsDoNotOverlap", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			return m.Watch(ctx, keys, func(e store.Entry) {
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() { deliver(e) })
				}
				wg.Wait()
			})
		}
	}},
	{"delivers in the wrong order", "WatchHearsOfEachWriteThatStands", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			var old store.Entry
			return m.Watch(ctx, keys, func(e store.Entry) {
				deliver(e)
				if old.Key != "" {
					deliver(old)
				}
				old = e
			})
		}
	}},
	{"delivers after stop", "StoppedWatchIsSilent", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			_, err := m.Watch(ctx, keys, deliver)
			return func() {}, err
		}
	}},
	{"ignores the watch's context", "CancelledContextEndsTheWatch", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(_ context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			return m.Watch(context.Background(), keys, deliver)
		}
	}},
	{"returns from stop too early", "StopWaitsForARunningDeliver", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			ctx, cancel := context.WithCancel(ctx)
			_, err := m.Watch(ctx, keys, deliver)
			return cancel, err
		}
	}},
	{"waits for itself in stop", "StopWithinDeliverReturns", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			var running sync.Mutex
			stop, err := m.Watch(ctx, keys, func(e store.Entry) {
				running.Lock()
				defer running.Unlock()
				deliver(e)
			})
			return func() {
				running.Lock()
				defer running.Unlock()
				stop()
			}, err
		}
	}},
	{"leaks a goroutine for each watch", "EndedWatchesLeaveNoGoroutine", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			go func() { select {} }()
			return m.Watch(ctx, keys, deliver)
		}
	}},
	{"is deaf after an interruption", "WatchHearsOfWritesAfterAnInterruption", func(m *memstore.Store, w *wrapper, h *storetest.Harness) {
		var deaf atomic.Bool
		h.Interrupt = func() error { deaf.Store(true); return nil }
		w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
			return m.Watch(ctx, keys, func(e store.Entry) {
				if !deaf.Load() {
					deliver(e)
				}
			})
		}
	}},
	{"skips a pattern's current state", "PatternWatchBeginsWithThePresentState", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			begun := false
			return m.WatchPattern(ctx, pattern, func(e store.Entry) {
				if begun {
					deliver(e)
				}
			}, func(err error) { begun = true; present(err) })
		}
	}},
	{"calls the current state complete too early", "PresentStateOfManyKeysIsComplete", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			n := 0
			return m.WatchPattern(ctx, pattern, func(e store.Entry) {
				if n++; n == 1025 {
					present(nil)
				}
				deliver(e)
			}, present)
		}
	}},
	{"leaves out of the current state what is written meanwhile", "PresentStateIsCompleteWhileItsKeysAreWritten", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			const busy = "busy.b"
			first, err := m.Get(ctx, busy)
			for now := first; err == nil && first.Revision > 0 && now.Revision == first.Revision; now, err = m.Get(ctx, busy) {
				runtime.Gosched() // another writes it
			}
			begun := false
			return m.WatchPattern(ctx, pattern, func(e store.Entry) {
				if begun || e.Key != busy || e.Revision == first.Revision {
					deliver(e)
				}
			}, func(err error) { begun = true; present(err) })
		}
	}},
	{"never calls the current state complete", "PatternWatchOfNothingIsComplete", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			some := false
			return m.WatchPattern(ctx, pattern, func(e store.Entry) { some = true; deliver(e) }, func(err error) {
				if some {
					present(err)
				}
			})
		}
	}},
	{"reads the keys once and watches those", "PatternWatchHearsOfKeysThatNobodyKnew", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			begun, known := false, map[string]bool{}
			return m.WatchPattern(ctx, pattern, func(e store.Entry) {
				known[e.Key] = known[e.Key] || !begun
				if known[e.Key] {
					deliver(e)
				}
			}, func(err error) { begun = true; present(err) })
		}
	}},
	{"takes a pattern for a prefix", "PatternWatchHearsOfNoOtherKey", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
				pattern = prefix + ">"
			}
			return m.WatchPattern(ctx, pattern, deliver, present)
		}
	}},
	{"lets a pattern miss deletions", "PatternWatchHearsOfATombstoneWithItsValue", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			return m.WatchPattern(ctx, pattern, func(e store.Entry) {
				if !e.Tombstone {
					deliver(e)
				}
			}, present)
		}
	}},
	{"calls present beside deliver", "PatternWatchBeginsWithThePresentState", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			return m.WatchPattern(ctx, pattern, func(e store.Entry) {
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() { present(nil) })
					wg.Go(func() { deliver(e) })
				}
				wg.Wait()
			}, present)
		}
	}},
	{"ends all patterns with one", "PatternWatchesAndWatchesOfOneClientHearEach", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		var mu sync.Mutex
		var stops []func()
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			stop, err := m.WatchPattern(ctx, pattern, deliver, present)
			mu.Lock()
			defer mu.Unlock()
			stops = append(stops, stop)
			return func() {
				mu.Lock()
				defer mu.Unlock()
				for _, stop := range stops {
					stop()
				}
			}, err
		}
	}},
	{"delivers a pattern's keys after stop", "StoppedPatternWatchIsSilent", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			_, err := m.WatchPattern(ctx, pattern, deliver, present)
			return func() {}, err
		}
	}},
	{"ignores the context of a pattern", "CancelledContextEndsThePatternWatch", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(_ context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			return m.WatchPattern(context.Background(), pattern, deliver, present)
		}
	}},
	{"leaks a goroutine for each pattern", "EndedPatternWatchesLeaveNoGoroutine", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			go func() { select {} }()
			return m.WatchPattern(ctx, pattern, deliver, present)
		}
	}},
	{"takes any pattern", "InvalidPatternIsRefused", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			if !store.ValidPattern(pattern) {
				pattern = ">"
			}
			return m.WatchPattern(ctx, pattern, deliver, present)
		}
	}},
	{"says nothing of a pattern's state after an interruption", "PatternWatchRepeatsThePresentStateAfterAnInterruption", func(_ *memstore.Store, _ *wrapper, h *storetest.Harness) {
		h.Interrupt = func() error { return nil }
	}},
	{"leaves a pattern deaf after an interruption", "PatternWatchHearsOfWritesAfterAnInterruption", func(m *memstore.Store, w *wrapper, h *storetest.Harness) {
		var deaf atomic.Bool
		h.Interrupt = func() error { deaf.Store(true); return nil }
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			return m.WatchPattern(ctx, pattern, func(e store.Entry) {
				if !deaf.Load() {
					deliver(e)
				}
			}, present)
		}
	}},
	{"keeps vanished keys", "PatternWatchHearsOfAVanishedKeyAfterAnInterruption", func(m *memstore.Store, w *wrapper, _ *storetest.Harness) {
		w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
			return m.WatchPattern(ctx, pattern, func(e store.Entry) {
				if e.Revision != 0 {
					deliver(e)
				}
			}, present)
		}
	}},
	{"has no hook and gives no reason", "ForeignDeletionDefeatsTheHeldRevision", func(_ *memstore.Store, _ *wrapper, h *storetest.Harness) {
		h.Delete = nil
	}},
	{"forgets writes in an interruption", "WritesSurviveAnInterruption", func(m *memstore.Store, _ *wrapper, h *storetest.Harness) {
		h.Interrupt = func() error { m.Purge("live"); return nil }
	}},
}

// asyncDefects are the defects of asynchronous writes.
var asyncDefects = []defect{
	{"writes asynchronously without a condition", "Async/EarlierRevisionConflicts", func(m *memstore.Store, _ *wrapper, h *storetest.Harness) {
		begins(h, func(_ time.Time, w store.Write, done func(uint64, error)) store.Pending {
			go done(m.Put(w.Key, w.Value), nil)
			return canceling(func() {})
		})
	}},
	{"answers twice", "Async/OneOfFiftyCreatesWins", func(m *memstore.Store, _ *wrapper, h *storetest.Harness) {
		begins(h, func(_ time.Time, w store.Write, done func(uint64, error)) store.Pending {
			rev, err := m.CompareAndSwap(context.Background(), w)
			done(rev, err)
			done(rev, err)
			return canceling(func() {})
		})
	}},
	{"forgets what is canceled", "Async/AbandonedCallsDoNotHarmLaterOnes", func(_ *memstore.Store, _ *wrapper, h *storetest.Harness) {
		begins(h, func(time.Time, store.Write, func(uint64, error)) store.Pending { return canceling(func() {}) })
	}},
	{"waits beyond the deadline", "Async/PassedDeadlineEndsAWriteHonestly", func(m *memstore.Store, _ *wrapper, h *storetest.Harness) {
		begins(h, func(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
			if time.Until(deadline) > 0 {
				go done(m.CompareAndSwap(context.Background(), w))
				return canceling(func() {})
			}
			return canceling(func() { done(0, store.ErrUnknown) })
		})
	}},
}

func begins(h *storetest.Harness, begin func(time.Time, store.Write, func(uint64, error)) store.Pending) {
	open := h.Open
	h.Open = func(t testing.TB) store.Store {
		u := open(t).(unwaiting) //nolint:errcheck // as harness made it
		u.begin = begin
		return u
	}
}

func allDefects() []defect { return slices.Concat(defects, asyncDefects) }

// A link is a connection that can break: its watches of patterns then repeat
// the current state.
type link struct {
	m       *memstore.Store
	repeats []func()
}

func (l *link) watchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	var mu sync.Mutex
	latest := map[string]store.Entry{}
	ctx, cancel := context.WithCancel(ctx)
	l.repeats = append(l.repeats, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range latest {
			if ctx.Err() == nil {
				deliver(e)
			}
		}
		if ctx.Err() == nil {
			present(nil)
		}
	})
	stop, err := l.m.WatchPattern(ctx, pattern, func(e store.Entry) {
		mu.Lock()
		defer mu.Unlock()
		latest[e.Key] = e
		deliver(e)
	}, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		present(err)
	})
	return func() { cancel(); stop() }, err
}

func (l *link) interrupt() error {
	for _, repeat := range l.repeats {
		repeat()
	}
	return nil
}

// harness is a memstore with the defect, or a sound one if d is nil.
func harness(d *defect) storetest.Factory {
	return func(t testing.TB) storetest.Harness {
		m := memstore.New()
		link := &link{m: m}
		w := &wrapper{Store: m, get: m.Get, cas: m.CompareAndSwap, watch: m.Watch, wide: link.watchPattern}
		h := storetest.Harness{
			Open:   func(testing.TB) store.Store { return unwaiting{wrapper: w} },
			Delete: func(key string) error { m.Delete(key); return nil },
			Put:    func(key string, value []byte) error { m.Put(key, value); return nil },
			Purge:  func(key string) error { m.Purge(key); return nil },
			Visible: func(key string) (bool, error) {
				e, err := m.Get(t.Context(), key)
				return e.Revision != 0 && !e.Tombstone, err
			},
			Interrupt: link.interrupt,
		}
		if d != nil {
			d.inject(m, w, &h)
		}
		return h
	}
}

// The suite can fail only a real *testing.T, so each defect is judged in a
// child process: this test binary again, with its defect in the environment.
const child = "STORETEST_DEFECT"

func TestEachDefectIsCaughtByItsClaim(t *testing.T) {
	if name, ok := os.LookupEnv(child); ok {
		judge(t, name)
		return
	}
	for _, d := range allDefects() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			out, err := examine(t, d.name, d.claim)
			if _, failed := errors.AsType[*exec.ExitError](err); !failed {
				t.Fatalf("the store with the defect passed claim %s (%v):\n%s", d.claim, err, out)
			}
			if !strings.Contains(out, "--- FAIL: TestEachDefectIsCaughtByItsClaim/"+d.claim+" ") || strings.Contains(out, "panic: test timed out") {
				t.Fatalf("the child ended without a verdict on claim %s:\n%s", d.claim, out)
			}
			if out, err := examine(t, "", d.claim); err != nil || !strings.Contains(out, "--- PASS: TestEachDefectIsCaughtByItsClaim/"+d.claim+" ") {
				t.Fatalf("a sound store does not pass claim %s, so the defect's failure proves nothing:\n%s", d.claim, out)
			}
		})
	}
}

// examine runs one claim against the defect in a child process.
func examine(t *testing.T, name, claim string) (output string, err error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.v", "-test.timeout=5m", "-test.run=^TestEachDefectIsCaughtByItsClaim$/^"+claim+"$")
	cmd.Env = append(os.Environ(), child+"="+name, "GORACE=atexit_sleep_ms=0") // a second for each child otherwise
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// judge runs the suite in the child.
func judge(t *testing.T, name string) {
	caps := storetest.Caps{MaxValue: 1 << 20}
	var d *defect
	for _, candidate := range allDefects() {
		if candidate.name == name {
			d = &candidate
			caps.Patience = time.Second // what is awaited will not come
		}
	}
	storetest.Run(t, harness(d), caps)
}
