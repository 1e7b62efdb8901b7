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
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// consumers waits until the bucket has no more than most consumers, and at least one. The server removes those that
// nobody listens to after some seconds.
func consumers(tb testing.TB, srv *natslab.Server, bucket string, most int) {
	tb.Helper()
	natslab.Eventually(tb, fmt.Sprintf("at most %d consumers", most), func(context.Context) error {
		if n := srv.Consumers("KV_" + bucket); n == 0 || n > most {
			return fmt.Errorf("%d consumers", n)
		}
		return nil
	})
}

// rounds writes every key some times, and waits until each write was heard.
func (h *heard) rounds(s store.Store, keys []string) {
	h.tb.Helper()
	last := make(map[string]uint64, len(keys))
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

// The keys of a thousand elections: each had a consumer of its own.
func TestWatchesOfAStoreShareConsumers(t *testing.T) {
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

// A candidate that may make consumers of its own keys alone watches many groups all the same.
func TestManyKeysWithoutTheRightToAConsumerOfMany(t *testing.T) {
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

// While keys come and go, the consumer is told so; those that stay must not miss a write by it.
func TestKeysThatComeAndGoLoseNoWriteOfTheOthers(t *testing.T) {
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
			all := groupKeys(20)
			stay := listen(t, s, all[:20]...)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range 100 {
					key := all[20+i%20]
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
			h := listen(t, s, all[20:]...)
			h.rounds(writer, all[20:])
		})
	}
}

// Nobody tells that a consumer is gone. Its heartbeats stop.
func TestWatchNoticesThatItsConsumerIsGone(t *testing.T) {
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	for _, groups := range []int{1, 10} {
		t.Run(fmt.Sprint(groups, "groups"), func(t *testing.T) {
			t.Parallel()
			bucket := newBucket()
			kv := natslab.KV(t, nc, foreign(bucket))
			keys := groupKeys(groups)
			s := open(t, srv.Connect(t), bucket, natsstore.Options{})
			h := listen(t, s, keys...)
			h.rounds(s, keys)
			stream, err := natslab.JetStream(t, nc).Stream(natslab.Within(t), "KV_"+bucket)
			if err != nil {
				t.Fatal(err)
			}
			for name := range stream.ConsumerNames(natslab.Within(t)).Name() {
				if err := stream.DeleteConsumer(natslab.Within(t), name); err != nil {
					t.Fatal(err)
				}
			}
			rev, err := kv.Put(natslab.Within(t), keys[len(keys)-1], []byte("unheard"))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			h.revision(rev)
			t.Logf("heard after %v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// In a bucket that does not republish, a group at rest cost 82 messages a second for eleven candidates, nearly all of them the
// heartbeats of two consumers each.
func TestConsumersOfAGroupAreQuiet(t *testing.T) {
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
