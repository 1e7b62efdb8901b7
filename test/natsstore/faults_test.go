package natsstore_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// modes are the two ways in which a store watches.
var modes = []struct {
	name string
	make func(testing.TB, *nats.Conn, string)
}{
	{"Republished", makeOurs(natsstore.BucketConfig{})},
	{"Consumer", makeForeign(jetstream.KeyValueConfig{})},
}

// The measured times are logged, not judged: a test must not depend on being
// fast.
func TestWatchHearsOfWritesAfterAServerRestart(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			srv := natslab.Start(t)
			bucket := newBucket()
			nc := srv.Connect(t)
			mode.make(t, nc, bucket)
			s, writer := open(t, nc, bucket, natsstore.Options{}), open(t, srv.Connect(t), bucket, natsstore.Options{})
			rev := must(t, writer, store.Write{Key: "g", Value: []byte("before")})
			h := listen(t, s, "g")
			h.revision(rev)
			for i := range 3 {
				srv.Restart()
				value := fmt.Sprint("after restart ", i)
				rev = trial.Settle(t, writer, "g", rev, value)
				acknowledged, worst := time.Now(), time.Duration(0)
				h.value(value)
				first := time.Since(acknowledged)
				for range 100 {
					rev = must(t, writer, store.Write{Key: "g", Expected: rev, Value: []byte("v")})
					acknowledged = time.Now()
					h.revision(rev)
					worst = max(worst, time.Since(acknowledged))
				}
				t.Logf("deaf for %v after the first acknowledged write, for at most %v after the next hundred",
					first.Round(10*time.Microsecond), worst.Round(10*time.Microsecond))
			}
		})
	}
}

func TestWatchFollowsARecreatedBucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			nc := srv.Connect(t)
			bucket := newBucket()
			mode.make(t, nc, bucket)
			s, writer := open(t, nc, bucket, natsstore.Options{}), open(t, srv.Connect(t), bucket, natsstore.Options{})
			var rev uint64
			for i := range 5 {
				rev = must(t, writer, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i)})
			}
			h := listen(t, s, "g")
			h.revision(rev)
			if err := natslab.JetStream(t, nc).DeleteKeyValue(natslab.Within(t), bucket); err != nil {
				t.Fatal(err)
			}
			mode.make(t, nc, bucket)
			first := trial.Settle(t, writer, "g", 0, "anew")
			h.value("anew")
			second := must(t, writer, store.Write{Key: "g", Expected: first, Value: []byte("again")})
			h.revision(second)
		})
	}
}

// The key of the new bucket is at a lower revision than the old one's was, and
// the new stream has come beyond that. Within one stream that would mean a
// replica that lags.
func TestWatchBelievesALowerRevisionOfAnotherStream(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	bucket := newBucket()
	natslab.KV(t, nc, foreign(bucket))
	s, writer := open(t, nc, bucket, natsstore.Options{}), open(t, srv.Connect(t), bucket, natsstore.Options{})
	var rev uint64
	for range 5 {
		rev = must(t, writer, store.Write{Key: "g", Expected: rev, Value: []byte("old")})
	}
	h := listen(t, s, "g")
	h.revision(rev)
	if err := natslab.JetStream(t, nc).DeleteKeyValue(natslab.Within(t), bucket); err != nil {
		t.Fatal(err)
	}
	natslab.KV(t, nc, foreign(bucket))
	first := trial.Settle(t, writer, "g", 0, "anew")
	for i := range 10 {
		must(t, writer, store.Write{Key: fmt.Sprint("other", i), Value: []byte("v")})
	}
	h.value("anew")
	if first >= rev {
		t.Errorf("revision %d is not below %d, so that the test shows nothing", first, rev)
	}
}

// A bucket that changes from republishing to not must not leave its watches
// deaf.
func TestWatchSurvivesABucketRecreatedWithoutRepublishing(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
	s := open(t, nc, bucket, natsstore.Options{})
	rev := must(t, s, store.Write{Key: "g", Value: []byte("before")})
	h := listen(t, s, "g")
	h.revision(rev)
	if err := natslab.JetStream(t, nc).DeleteKeyValue(natslab.Within(t), bucket); err != nil {
		t.Fatal(err)
	}
	natslab.KV(t, nc, foreign(bucket))
	// The holder's renewal is refused, which is what makes the store look.
	_, err := s.CompareAndSwap(natslab.Within(t), store.Write{Key: "g", Expected: rev, Value: []byte("renewal")})
	trial.Outcome(t, err, store.Conflict)
	h.revision(0)
	other := open(t, srv.Connect(t), bucket, natsstore.Options{})
	rev = 0
	for range 20 { // the first may be found by the reads that the refusal set off
		rev = must(t, other, store.Write{Key: "g", Expected: rev, Value: []byte("anew")})
		h.revision(rev)
	}
}

func TestRevisionsContinueAboveADeletedBuckets(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	bucket := newBucket()
	s := open(t, nc, bucket, natsstore.Options{Create: &natsstore.BucketConfig{}})
	var rev uint64
	for range 3 {
		ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
		next := must(t, s, store.Write{Key: "g", Value: []byte("v")})
		if next <= rev || next >= 1<<53 {
			t.Fatalf("revision %d follows %d", next, rev)
		}
		rev = next
		if err := natslab.JetStream(t, nc).DeleteKeyValue(natslab.Within(t), bucket); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchSurvivesTheLossOfTheStreamsLeader(t *testing.T) {
	t.Parallel()
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
			stream := "KV_" + bucket
			nc := cluster.Connect(t)
			mode.make(t, nc, bucket)
			// Both clients stay connected while the leader goes.
			s := open(t, cluster.NotStreamLeader(stream).Connect(t), bucket, natsstore.Options{})
			writer := open(t, nc, bucket, natsstore.Options{})
			rev := trial.Settle(t, writer, "g", 0, "before")
			h := listen(t, s, "g")
			h.value("before")

			cluster.StepDownStreamLeader(nc, stream)
			rev = trial.Settle(t, writer, "g", rev, "after the handover")
			start := time.Now()
			h.value("after the handover")
			t.Logf("handover: heard %v after its acknowledgement", time.Since(start).Round(time.Millisecond))

			leader := cluster.StreamLeader(stream)
			leader.Stop()
			trial.Settle(t, writer, "g", rev, "after the stop")
			start = time.Now()
			h.value("after the stop")
			t.Logf("leader stopped: heard %v after its acknowledgement", time.Since(start).Round(time.Millisecond))
			leader.Run()
			cluster.AwaitReady()
		})
	}
}

// It runs alone, since it counts the goroutines of the process.
func TestAThousandWatchesShareOneGoroutine(t *testing.T) {
	elsewhere(t)
	srv := natslab.Start(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			nc := srv.Connect(t)
			bucket := newBucket()
			mode.make(t, nc, bucket)
			n := 1000
			if mode.name == "Consumer" {
				n = 50 // the server's own goroutines for consumers are counted below as well
			}
			s := open(t, nc, bucket, natsstore.Options{})
			listen(t, s, "first").revision(0)
			before := runtime.NumGoroutine()
			for i := range n {
				listen(t, s, fmt.Sprintf("g%d", i), fmt.Sprintf("_ctl.g%d", i))
			}
			t.Logf("%d watches of two keys: %d goroutines more in client and server together, %d consumers",
				n, runtime.NumGoroutine()-before, srv.Consumers("KV_"+bucket))
			if mode.name == "Republished" {
				if more := runtime.NumGoroutine() - before; more > 20 {
					t.Errorf("%d goroutines more for %d watches", more, n)
				}
				if c := srv.Consumers("KV_" + bucket); c != 0 {
					t.Errorf("%d consumers on the server", c)
				}
			}
			h := listen(t, s, fmt.Sprintf("g%d", n-1))
			h.revision(must(t, s, store.Write{Key: fmt.Sprintf("g%d", n-1), Value: []byte("v")}))
		})
	}
}

// It runs alone, since it counts the goroutines of the process.
func TestUnusedStoreHasNoGoroutine(t *testing.T) {
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
	s := open(t, nc, bucket, natsstore.Options{})
	before := runtime.NumGoroutine()
	if _, err := s.Get(natslab.Within(t), "g"); err != nil {
		t.Fatal(err)
	}
	must(t, s, store.Write{Key: "g", Value: []byte("v")})
	stop, err := s.Watch(t.Context(), []string{"g"}, func(store.Entry) {})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	natslab.Eventually(t, "the watch's goroutine gone", func(context.Context) error {
		if n := runtime.NumGoroutine(); n > before+1 { // the context of within
			return fmt.Errorf("%d goroutines, %d before", n, before)
		}
		return nil
	})
}

func TestEndOfAWatchsContextEndsTheWatch(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
	s := open(t, nc, bucket, natsstore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Watch(ctx, []string{"g"}, func(store.Entry) {}); err != nil {
		t.Fatal(err)
	}
	subs := nc.NumSubscriptions()
	cancel()
	natslab.Eventually(t, "subscriptions gone", func(context.Context) error {
		if n := nc.NumSubscriptions(); n > subs-2 {
			return fmt.Errorf("%d subscriptions, %d while watching", n, subs)
		}
		return nil
	})
}

func BenchmarkCompareAndSwap(b *testing.B) {
	run := func(b *testing.B, nc *nats.Conn, bucket string) {
		b.Helper()
		s := open(b, nc, bucket, natsstore.Options{})
		value := make([]byte, 256)
		rev := trial.Settle(b, s, "g", 0, string(value))
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			next, err := s.CompareAndSwap(ctx, store.Write{Key: "g", Expected: rev, Value: value})
			if err != nil {
				b.Fatal(err)
			}
			rev = next
		}
	}
	b.Run("R1File", func(b *testing.B) {
		nc := natslab.Start(b).Connect(b)
		ensure(b, nc, natsstore.BucketConfig{Bucket: "b"})
		run(b, nc, "b")
	})
	b.Run("R3File", func(b *testing.B) {
		nc := natslab.StartCluster(b, 3).Connect(b)
		ensure(b, nc, natsstore.BucketConfig{Bucket: "b", Replicas: 3})
		run(b, nc, "b")
	})
}
