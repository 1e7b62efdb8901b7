package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// consumers waits until the bucket has no more than most consumers, and at
// least one. The server removes those that nobody listens to after some
// seconds.
func consumers(tb testing.TB, srv *natslab.Server, bucket string, most int) {
	tb.Helper()
	n := 0
	natslab.Eventually(tb, fmt.Sprintf("at most %d consumers", most), func(context.Context) error {
		if n = srv.Consumers("KV_" + bucket); n == 0 || n > most {
			return fmt.Errorf("%d consumers", n)
		}
		return nil
	})
	tb.Logf("%d consumers", n)
}

// rounds writes every key some times, and waits until each write was heard.
func (h *heard) rounds(s store.Store, keys []string) {
	h.tb.Helper()
	last := make(map[string]uint64, len(keys))
	for _, key := range keys {
		e, err := s.Get(natslab.Within(h.tb), key)
		if err != nil {
			h.tb.Fatal(err)
		}
		last[key] = e.Revision
	}
	for round := range 3 {
		for _, key := range keys {
			last[key] = must(h.tb, s, store.Write{Key: key, Expected: last[key], Value: fmt.Append(nil, round)})
		}
		waiting := make(map[string]bool, len(keys))
		for _, key := range keys {
			waiting[key] = true
		}
		h.until(fmt.Sprintf("every key of round %d", round), func(e store.Entry) bool {
			if e.Revision == last[e.Key] {
				delete(waiting, e.Key)
			}
			return len(waiting) == 0
		})
	}
}

func groupKeys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("g%d", i), fmt.Sprintf("_ctl.g%d", i))
	}
	return keys
}

// The keys of a thousand elections, which once had a consumer each.
func TestWatchesOfAStoreShareConsumers(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	bucket := newBucket()
	nc := srv.Connect(t)
	natslab.KV(t, nc, foreign(bucket))
	s := open(t, nc, bucket, natsstore.Options{})
	h := &heard{tb: t, entries: make(chan store.Entry, 1<<16)}
	keys := groupKeys(1000)
	for i := 0; i < len(keys); i += 2 {
		stop, err := s.Watch(t.Context(), keys[i:i+2], func(e store.Entry) { h.entries <- e })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	h.rounds(open(t, srv.Connect(t), bucket, natsstore.Options{}), keys)
	consumers(t, srv, bucket, 10)
}

// A candidate that may only make consumers of its own keys can still watch many
// groups.
func TestManyKeysWithoutTheRightToAConsumerOfMany(t *testing.T) {
	t.Parallel()
	const inbox = "_INBOX_c"
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", []string{
		"$KV.b.*", "$JS.API.STREAM.INFO.KV_b", "$JS.API.DIRECT.GET.KV_b.$KV.b.>",
		"$JS.API.CONSUMER.CREATE.KV_b.*.$KV.b.*", "$JS.API.CONSUMER.CREATE.KV_b.*.$KV.b._ctl.*",
	}, []string{inbox + ".>"})))
	admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
	natslab.KV(t, admin, foreign("b"))
	var denied atomic.Int64
	s := open(t, srv.Connect(t, nats.UserInfo("c", "c"), nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				denied.Add(1)
			}
		})), "b", natsstore.Options{})
	keys := groupKeys(10)
	h := listen(t, s, keys[:2]...)
	if n := denied.Load(); n != 0 {
		t.Errorf("%d denials for the watch of one group", n)
	}
	for i := 2; i < len(keys); i += 2 {
		stop, err := s.Watch(t.Context(), keys[i:i+2], func(e store.Entry) { h.entries <- e })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	h.rounds(open(t, admin, "b", natsstore.Options{}), keys)
	natslab.Eventually(t, "a consumer of each key", func(context.Context) error {
		if n := srv.Consumers("KV_b"); n != len(keys) {
			return fmt.Errorf("%d consumers", n)
		}
		return nil
	})
	if n := denied.Load(); n != 1 {
		t.Errorf("%d denials, want the one by which the store learns its rights", n)
	}
}

// While keys come and go, the consumer is updated. The remaining keys must not
// miss a write because of this.
func TestKeysThatComeAndGoLoseNoWriteOfTheOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start func(testing.TB) *natslab.Server
		cfg   jetstream.KeyValueConfig
	}{
		{"R1", func(tb testing.TB) *natslab.Server { tb.Helper(); return natslab.Start(tb) }, jetstream.KeyValueConfig{}},
		{"R3", func(tb testing.TB) *natslab.Server { tb.Helper(); return natslab.StartCluster(tb, 3).Nodes[0] }, jetstream.KeyValueConfig{Replicas: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := c.start(t)
			bucket := newBucket()
			nc := srv.Connect(t)
			makeForeign(c.cfg)(t, nc, bucket)
			s := open(t, nc, bucket, natsstore.Options{})
			all := groupKeys(30)
			stay := listen(t, s, all[:20]...)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range 100 {
					key := all[20+i%20] // not the last ten groups
					stop, err := s.Watch(t.Context(), []string{key}, func(store.Entry) {})
					if err != nil {
						t.Error(err)
						return
					}
					if i%3 == 0 {
						stop()
					} else {
						t.Cleanup(stop)
					}
				}
			}()
			writer := open(t, srv.Connect(t), bucket, natsstore.Options{})
			stay.rounds(writer, all[:20])
			<-done
			// The consumer does not yet include the last keys when the first
			// writes come, and goes on with the others.
			h := listen(t, s, all...)
			var mixed []string
			for i := range 20 {
				mixed = append(mixed, all[40+i], all[i])
			}
			h.rounds(writer, mixed)
		})
	}
}

// The loss of a consumer is not reported: its heartbeats stop, or a write is
// refused because of a write that was not delivered. The measured times are
// logged, not judged.
func TestWatchNoticesThatItsConsumerIsGone(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for _, c := range []struct {
		name    string
		groups  int
		refused bool
	}{{"OneGroup", 1, false}, {"TenGroups", 10, false}, {"AfterARefusedWrite", 10, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nc, bucket := srv.Connect(t), newBucket()
			kv := natslab.KV(t, nc, foreign(bucket))
			keys := groupKeys(c.groups)
			s := open(t, srv.Connect(t), bucket, natsstore.Options{})
			h := listen(t, s, keys...)
			h.rounds(s, keys)
			removeConsumers(t, nc, bucket)
			before, last := keys[len(keys)-2], keys[len(keys)-1]
			unheard, err := kv.Put(natslab.Within(t), before, []byte("unheard"))
			if err != nil {
				t.Fatal(err)
			}
			rev, err := kv.Put(natslab.Within(t), last, []byte("unheard"))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if c.refused {
				_, err := s.CompareAndSwap(natslab.Within(t), store.Write{Key: before, Expected: 1, Value: []byte("late")})
				trial.Outcome(t, err, store.Conflict)
				h.revision(unheard)
			}
			h.revision(rev)
			t.Logf("heard after %v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// removeConsumers does what the loss of their server does.
func removeConsumers(tb testing.TB, nc *nats.Conn, bucket string) {
	tb.Helper()
	stream, err := natslab.JetStream(tb, nc).Stream(natslab.Within(tb), "KV_"+bucket)
	if err != nil {
		tb.Fatal(err)
	}
	for name := range stream.ConsumerNames(natslab.Within(tb)).Name() {
		if err := stream.DeleteConsumer(natslab.Within(tb), name); err != nil {
			tb.Fatal(err)
		}
	}
}

// In a bucket that does not republish, a group at rest cost 82 messages a
// second for eleven candidates, nearly all of them the heartbeats of two
// consumers each.
func TestConsumersOfAGroupAreQuiet(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	bucket := newBucket()
	nc := srv.Connect(t)
	natslab.KV(t, nc, foreign(bucket))
	listen(t, open(t, nc, bucket, natsstore.Options{}), "g", "_ctl.g")
	consumers(t, srv, bucket, 2)
	for _, c := range consumerConfigs(t, srv, "KV_"+bucket) {
		if c.Heartbeat < 2*time.Second {
			t.Errorf("%v between the heartbeats of a consumer", c.Heartbeat)
		}
	}
}

func consumerConfigs(tb testing.TB, srv *natslab.Server, stream string) (configs []*server.ConsumerConfig) {
	tb.Helper()
	info, err := srv.Inner().Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true, Config: true})
	if err != nil {
		tb.Fatal(err)
	}
	for _, acc := range info.AccountDetails {
		for _, st := range acc.Streams {
			for _, c := range st.Consumer {
				if st.Name == stream {
					configs = append(configs, c.Config)
				}
			}
		}
	}
	return configs
}

// An election then reads the record of a drain, for which a third consumer would
// send a heartbeat every two seconds.
func TestWatchIsCostlyWhereTheBucketDoesNotRepublish(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	natslab.KV(t, nc, foreign("other"))
	ensure(t, nc, natsstore.BucketConfig{Bucket: "ours"})
	for bucket, want := range map[string]bool{"ours": false, "other": true} {
		s := open(t, nc, bucket, natsstore.Options{})
		if _, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second, HeartbeatInterval: time.Second, Key: "g"}); err != nil {
			t.Fatal(err)
		}
		if got := s.CostlyWatch(); got != want {
			t.Errorf("bucket %q: costly: %v", bucket, got)
		}
	}
}

// Of a user who may not read the configuration, the rights show it.
func TestWatchIsCostlyWhereTheUserMayOnlyMakeConsumers(t *testing.T) {
	t.Parallel()
	learn := map[string]func(*testing.T, *natsstore.Store){
		"check": func(t *testing.T, s *natsstore.Store) {
			t.Helper()
			if _, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second, Key: "g"}); err != nil {
				t.Fatal(err)
			}
		},
		"watch": func(t *testing.T, s *natsstore.Store) { t.Helper(); listen(t, s, "g") },
	}
	for name, publish := range map[string][]string{
		"consumers": {mayMake, mayRead, "$KV.b.g"}, "republished": {mayRead, "$KV.b.g"},
	} {
		for by, learn := range learn {
			t.Run(name+", "+by, func(t *testing.T) {
				t.Parallel()
				s, _ := restricted(t, name == "consumers", publish, nil)
				learn(t, s)
				if got := s.CostlyWatch(); got != (name == "consumers") {
					t.Errorf("costly: %v", got)
				}
			})
		}
	}
}
