package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// wideHeard collects what a watch of a pattern delivers.
type wideHeard struct {
	*heard
	present chan int // how many entries had been delivered when the initial state was complete
}

func listenWide(tb testing.TB, s store.PatternWatcher, pattern string) *wideHeard {
	tb.Helper()
	h, err := tryWide(tb, s, pattern)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// listenOnCluster is listenWide with a store of forgetful options.
func listenOnCluster(tb testing.TB, s store.PatternWatcher, pattern string) (h *wideHeard) {
	tb.Helper()
	natslab.Eventually(tb, "watch of "+pattern, func(context.Context) (err error) {
		if h, err = tryWide(tb, s, pattern); err != nil && !errors.Is(err, store.ErrTransient) {
			tb.Fatal(err)
		}
		return err
	})
	return h
}

func tryWide(tb testing.TB, s store.PatternWatcher, pattern string) (*wideHeard, error) {
	tb.Helper()
	h := &wideHeard{heard: &heard{tb: tb, entries: make(chan store.Entry, 1<<16)}, present: make(chan int, 100)}
	n := 0
	stop, err := s.WatchPattern(tb.Context(), pattern,
		func(e store.Entry) { n++; h.entries <- e },
		func(err error) {
			if err != nil {
				tb.Error(err)
			}
			h.present <- n
		})
	if err == nil {
		tb.Cleanup(stop)
	}
	return h, err
}

// forgetful are the options of stores on a cluster. It loses a question about a
// stream that has no leader at the moment, which is asked again after half of
// the timeout.
func forgetful() natsstore.Options { return natsstore.Options{Timeout: 20 * time.Second} }

// complete waits for the end of the initial state.
func (h *wideHeard) complete() (entries int) {
	h.tb.Helper()
	select {
	case n := <-h.present:
		return n
	case <-natslab.Within(h.tb).Done():
		h.tb.Fatal("the initial state is never complete")
		return 0
	}
}

// seen waits for an entry of the key at the revision.
func (h *wideHeard) seen(key string, rev uint64) {
	h.tb.Helper()
	h.until(fmt.Sprintf("%s at %d", key, rev), func(e store.Entry) bool { return e.Key == key && e.Revision == rev })
}

// fill writes n keys as fast as the server takes them.
func fill(tb testing.TB, nc *nats.Conn, bucket string, n int) {
	tb.Helper()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(500))
	if err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		if _, err := js.PublishAsync(fmt.Sprintf("$KV.%s.team.%d", bucket, i), make([]byte, 200), jetstream.WithStallWait(natslab.Patience)); err != nil {
			tb.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-natslab.Within(tb).Done():
		tb.Fatal("the keys were not written")
	}
}

// Ten thousand keys are more than a direct get answers (1,024), and than the
// queue of a small store holds. The test runs alone, since it counts the
// goroutines of the process.
func TestPatternWatchOfTenThousandKeysTakesOneGoroutineAndOneConsumerAtMost(t *testing.T) {
	elsewhere(t)
	const keys = 10_000
	srv := natslab.Start(t)
	for _, c := range []struct {
		name      string
		make      func(testing.TB, *nats.Conn, string)
		opts      natsstore.Options
		consumers int
	}{
		// In the first, one that read the initial state; the server removes it
		// soon.
		{"Republished", makeOurs(natsstore.BucketConfig{}), natsstore.Options{}, 1},
		{"Consumer", makeForeign(jetstream.KeyValueConfig{}), natsstore.Options{}, 1},
		{"WholeBucketByConsumer", makeForeign(jetstream.KeyValueConfig{}), natsstore.Options{WatchWholeBucket: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bucket := newBucket()
			nc := srv.Connect(t)
			c.make(t, nc, bucket)
			fill(t, nc, bucket, keys)
			c.opts.QueueSize = 16
			s := open(t, srv.Connect(t), bucket, c.opts)
			listen(t, s, "first").revision(0)
			before := runtime.NumGoroutine()
			h := listenWide(t, s, "team.*")
			if n := h.complete(); n < keys {
				t.Errorf("the initial state of %d keys had %d", keys, n)
			}
			t.Logf("%d goroutines more, %d consumers", runtime.NumGoroutine()-before, srv.Consumers("KV_"+bucket))
			if n := runtime.NumGoroutine() - before; n > 20 {
				t.Errorf("%d goroutines more", n) // the server's for its consumers are among them
			}
			want := c.consumers
			if c.name == "Consumer" {
				want++ // the other watch's
			}
			natslab.Eventually(t, "no more consumers than that", func(context.Context) error {
				if n := srv.Consumers("KV_" + bucket); n > want {
					return fmt.Errorf("%d consumers", n)
				}
				return nil
			})
			w := open(t, nc, bucket, natsstore.Options{})
			h.seen("team.new", must(t, w, store.Write{Key: "team.new", Value: []byte("v")}))
		})
	}
}

// A store that watches the whole bucket must get through the initial state of
// the bucket.
func TestWatchOfOneKeyInALargeBucketWatchedWhole(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	bucket := newBucket()
	nc := srv.Connect(t)
	natslab.KV(t, nc, foreign(bucket))
	fill(t, nc, bucket, 10_000)
	var dropped atomic.Int64
	reader := srv.Connect(t, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrSlowConsumer) {
			dropped.Add(1)
		}
	}))
	s := open(t, reader, bucket, natsstore.Options{WatchWholeBucket: true, QueueSize: 64})
	h := listen(t, s, "team.9999")
	h.until("the key", func(e store.Entry) bool { return e.Revision > 0 })
	w := open(t, nc, bucket, natsstore.Options{})
	rev := must(t, w, store.Write{Key: "team.new", Value: []byte("v")})
	_ = listen(t, s, "team.new").revision(rev)
	for range 20 { // reads while the consumer is being made would show some of them
		rev = must(t, w, store.Write{Key: "team.new", Expected: rev, Value: []byte("v")})
	}
	natslab.Eventually(t, "one consumer that lasts", func(context.Context) error {
		if n := srv.Consumers("KV_" + bucket); n != 1 {
			return fmt.Errorf("%d consumers", n)
		}
		return nil
	})
	if n := dropped.Load(); n > 0 {
		t.Errorf("messages were dropped %d times", n)
	}
}

func TestPatternsAndKeysShareTheConsumerOfTheWholeBucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	bucket := newBucket()
	nc := srv.Connect(t)
	natslab.KV(t, nc, foreign(bucket))
	s := open(t, nc, bucket, natsstore.Options{WatchWholeBucket: true})
	rev := must(t, s, store.Write{Key: "team.a", Value: []byte("v")})
	k := listen(t, s, "team.a")
	p, q := listenWide(t, s, "team.*"), listenWide(t, s, ">")
	p.seen("team.a", rev)
	q.seen("team.a", rev)
	rev = must(t, s, store.Write{Key: "team.a", Expected: rev, Value: []byte("w")})
	k.revision(rev)
	p.seen("team.a", rev)
	q.seen("team.a", rev)
	natslab.Eventually(t, "one consumer", func(context.Context) error {
		if n := srv.Consumers("KV_" + bucket); n != 1 {
			return fmt.Errorf("%d consumers", n)
		}
		return nil
	})
}

func TestPatternWatchFollowsARecreatedBucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for _, mode := range []struct {
		name          string
		first, second func(testing.TB, *nats.Conn, string)
	}{
		{"Republished", modes[0].make, modes[0].make},
		{"Consumer", modes[1].make, modes[1].make},
		{"NoLongerRepublished", modes[0].make, modes[1].make},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			nc := srv.Connect(t)
			bucket := newBucket()
			mode.first(t, nc, bucket)
			s, writer := open(t, nc, bucket, natsstore.Options{}), open(t, srv.Connect(t), bucket, natsstore.Options{})
			var rev uint64
			for i := range 5 {
				rev = must(t, writer, store.Write{Key: "team.a", Expected: rev, Value: fmt.Append(nil, i)})
			}
			gone := must(t, writer, store.Write{Key: "team.gone", Value: []byte("v")})
			h := listenWide(t, s, "team.*")
			h.complete()
			h.seen("team.gone", gone)
			if err := natslab.JetStream(t, nc).DeleteKeyValue(natslab.Within(t), bucket); err != nil {
				t.Fatal(err)
			}
			mode.second(t, nc, bucket)
			// The holder's renewal is refused, which is what makes a store
			// look.
			_, err := s.CompareAndSwap(natslab.Within(t), store.Write{Key: "team.a", Expected: rev, Value: []byte("renewal")})
			trial.Outcome(t, err, store.Conflict)
			first := trial.Settle(t, writer, "team.a", 0, "anew")
			waiting := map[string]uint64{"team.gone": 0, "team.a": first}
			h.until("that one key is new and one gone", func(e store.Entry) bool {
				if want, ok := waiting[e.Key]; ok && e.Revision == want {
					delete(waiting, e.Key)
				}
				return len(waiting) == 0
			})
			h.seen("team.a", must(t, writer, store.Write{Key: "team.a", Expected: first, Value: []byte("again")}))
			h.seen("team.b", must(t, writer, store.Write{Key: "team.b", Value: []byte("v")}))
		})
	}
}

// The bucket is gone with the restart. The next writer makes it again.
func TestPatternWatchHearsOfWhatARestartForgot(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	bucket := newBucket()
	cfg := natsstore.BucketConfig{Bucket: bucket, Storage: jetstream.MemoryStorage}
	ensure(t, nc, cfg)
	s := open(t, nc, bucket, natsstore.Options{Create: &cfg})
	h := listenWide(t, s, ">")
	h.complete()
	h.seen("a", must(t, s, store.Write{Key: "a", Value: []byte("v")}))
	rev := must(t, s, store.Write{Key: "b", Value: []byte("v")})
	h.seen("b", rev)
	srv.Restart()
	rev = trial.Settle(t, s, "b", 0, "w")
	waiting := map[string]uint64{"a": 0, "b": rev}
	h.until("that a is gone and b is new", func(e store.Entry) bool {
		if want, ok := waiting[e.Key]; ok && e.Revision == want {
			delete(waiting, e.Key)
		}
		return len(waiting) == 0
	})
}

func TestPatternWatchSurvivesTheLossOfTheStreamsLeader(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	cluster := natslab.StartCluster(t, 3)
	for _, mode := range []struct {
		name string
		make func(testing.TB, *nats.Conn, string)
	}{
		{"Republished", makeOurs(natsstore.BucketConfig{Replicas: 3})},
		{"Consumer", makeForeign(jetstream.KeyValueConfig{Replicas: 3})},
	} {
		t.Run(mode.name, func(t *testing.T) {
			bucket := newBucket()
			nc := cluster.Connect(t)
			mode.make(t, nc, bucket)
			s := open(t, cluster.NotStreamLeader("KV_"+bucket).Connect(t), bucket, forgetful())
			writer := open(t, nc, bucket, forgetful())
			rev := trial.Settle(t, writer, "team.a", 0, "before")
			h := listenOnCluster(t, s, "team.*")
			h.seen("team.a", rev)
			leader := cluster.StreamLeader("KV_" + bucket)
			leader.Stop()
			trial.Settle(t, writer, "team.a", rev, "after")
			trial.Settle(t, writer, "team.b", 0, "new")
			h.value("after")
			h.value("new")
			leader.Run()
			cluster.AwaitReady()
		})
	}
}

// While many write, no view may take what a survey overtook for a change of
// mind of the store.
func TestPatternWatchUnderLoadKeepsTheOrderOfRevisions(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	nc := cluster.Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket, Replicas: 3})
	s := open(t, nc, bucket, natsstore.Options{})
	trial.Settle(t, s, "ready", 0, "v")
	writer := open(t, cluster.Connect(t), bucket, natsstore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	last := map[string]uint64{}
	for i := range 16 {
		wg.Go(func() {
			key, rev := fmt.Sprintf("team.%d", i), uint64(0)
			for ctx.Err() == nil {
				next, err := writer.CompareAndSwap(context.WithoutCancel(ctx), store.Write{Key: key, Expected: rev, Value: []byte("v")})
				if err != nil {
					t.Error(err)
					return
				}
				rev = next
			}
			mu.Lock()
			last[key] = rev
			mu.Unlock()
		})
	}
	hs := make([]*wideHeard, 20)
	for i := range hs {
		hs[i] = listenOnCluster(t, open(t, cluster.Nodes[i%3].Connect(t), bucket, forgetful()), "team.*")
		hs[i].complete()
	}
	cancel()
	wg.Wait()
	for _, h := range hs {
		reached, highest := 0, map[string]uint64{}
		h.until("the last write of every key", func(e store.Entry) bool {
			if e.Revision < highest[e.Key] {
				t.Errorf("%s at %d after %d", e.Key, e.Revision, highest[e.Key])
			}
			if e.Revision == last[e.Key] && highest[e.Key] != e.Revision {
				reached++
			}
			highest[e.Key] = e.Revision
			return reached == len(last)
		})
	}
}

// Each key takes more than half of the timeout to deliver, so that the initial
// state takes longer than the timeout whatever the machine, and more of it
// comes before each timeout. A machine that does not manage that may try again.
func TestWatchBeginsHoweverLongItsCurrentStateIs(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	srv := natslab.Start(t)
	for _, mode := range modes[:2] {
		for name, begin := range map[string]func(s *natsstore.Store, deliver func(store.Entry)) (stop func(), err error){
			"Keys": func(s *natsstore.Store, deliver func(store.Entry)) (stop func(), err error) {
				return s.Watch(t.Context(), []string{"team.a", "team.b"}, deliver)
			},
			"Pattern": func(s *natsstore.Store, deliver func(store.Entry)) (stop func(), err error) {
				return s.WatchPattern(t.Context(), "team.*", deliver, func(error) {})
			},
		} {
			t.Run(mode.name+name, func(t *testing.T) {
				t.Parallel()
				nc, bucket := srv.Connect(t), newBucket()
				mode.make(t, nc, bucket)
				s := open(t, nc, bucket, natsstore.Options{Timeout: timeout})
				trial.Settle(t, s, "team.a", 0, "v")
				trial.Settle(t, s, "team.b", 0, "v")
				for tries := natslab.Within(t); ; {
					stop, err := begin(s, func(store.Entry) { <-time.After(timeout * 6 / 10) })
					if err == nil {
						stop()
						return
					}
					trial.Outcome(t, err, store.Transient)
					if tries.Err() != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

func TestPatternWatchOfAMissingBucketNamesTheRemedy(t *testing.T) {
	t.Parallel()
	s := open(t, natslab.Start(t).Connect(t), "missing", natsstore.Options{})
	_, err := s.WatchPattern(natslab.Within(t), ">", func(store.Entry) {}, func(error) {})
	trial.Outcome(t, err, store.Permanent, "leader bucket create --bucket missing")
	s.Close()
	if _, err := s.WatchPattern(natslab.Within(t), ">", func(store.Entry) {}, func(error) {}); err == nil || errors.Is(err, store.ErrUnknown) {
		t.Error(err)
	}
}
