package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The rights of a user who watches key g of bucket b.
const (
	mayAsk    = "$JS.API.STREAM.INFO.KV_b"
	mayMake   = "$JS.API.CONSUMER.CREATE.KV_b.*.$KV.b.g"
	mayRead   = "$JS.API.DIRECT.GET.KV_b.$KV.b.g"
	mayHear   = "leader.b.g"  // to subscribe to
	mayAnswer = "_INBOX_c.>"  // the answers to its questions come there
	mayOther  = "$KV.b.other" // an empty list would allow everything
)

// restricted returns a store of a user with these rights alone, and one of a
// user who may do everything. Without a subject to subscribe to, the user may
// subscribe to all.
func restricted(t *testing.T, foreignBucket bool, publish, subscribe []string) (s, admin *natsstore.Store) {
	t.Helper()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", append(publish, mayOther), subscribe)))
	root := srv.Connect(t, nats.UserInfo("admin", "admin"))
	if foreignBucket {
		natslab.KV(t, root, foreign("b"))
	} else {
		ensure(t, root, natsstore.BucketConfig{Bucket: "b"})
	}
	nc := srv.Connect(t, nats.UserInfo("c", "c"), nats.CustomInboxPrefix("_INBOX_c"))
	return open(t, nc, "b", natsstore.Options{}), open(t, root, "b", natsstore.Options{})
}

// A watch without two of its rights either delivers writes or reports the
// missing right. The connection shows the latest denial alone. A watch was
// silent for ever if the denial of a read hid the other denial, or was taken
// for the denial of a consumer.
func TestAWatchWithoutTwoOfItsRightsIsNotSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		foreign            bool
		publish, subscribe []string
		lacks              string // "": the next write is heard
	}{
		{"may make consumers", true, []string{mayMake}, nil, mayRead},
		{"may make consumers and hear answers", true, []string{mayMake}, []string{mayAnswer}, mayRead},
		{"may ask", true, []string{mayAsk}, []string{mayAnswer}, ""},
		{"may ask, republished", false, []string{mayAsk}, []string{mayAnswer}, mayHear},
		{"may ask and hear, republished", false, []string{mayAsk}, []string{mayAnswer, mayHear}, ""},
		{"may hear, republished", false, nil, []string{mayHear, mayAnswer}, ""},
		{"may hear but no answers, republished", false, nil, []string{mayHear}, ""},
		{"may hear nothing, republished", false, nil, []string{mayAnswer}, mayHear},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, admin := restricted(t, c.foreign, c.publish, c.subscribe)
			if c.lacks == "" && !c.foreign {
				h := listen(t, s, "g")
				h.revision(must(t, admin, store.Write{Key: "g", Value: []byte("v")}))
				return
			}
			stop, err := s.Watch(t.Context(), []string{"g"}, func(store.Entry) {})
			if err == nil {
				stop()
			}
			trial.Outcome(t, err, store.Permanent, c.lacks)
		})
	}
}

// A user may be granted some groups and not others. If a consumer for a denied
// group is refused, this must not affect the bucket: the watches of the other
// groups, on the same store, were taken off their consumers, and delivered
// nothing more.
func TestAKeyThatIsDeniedLeavesTheOthersTheirConsumers(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string][]string{"consumer": {mayRead + "2"}, "read": {mayMake + "2"}, "both": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, admin := restricted(t, true, append([]string{mayMake, mayRead}, denied...), nil)
			h := listen(t, s, "g")
			var rev uint64
			for i := range 3 {
				_, err := s.Watch(natslab.Within(t), []string{"g2"}, func(store.Entry) {})
				trial.Outcome(t, err, store.Permanent, "$KV.b.g2")
				rev = must(t, admin, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i)})
				h.revision(rev)
			}
		})
	}
}

// A watch that consumers can serve leaves the others where they listen. They
// were moved to consumers, too, which the user may not make, and heard no more.
func TestAConsumerOfOneKeyLeavesTheOthersListening(t *testing.T) {
	t.Parallel()
	const mayMakeOther = mayMake + "2"
	for name, publish := range map[string][]string{
		"may read": {mayMakeOther, mayRead, mayRead + "2"}, "may not read": {mayMakeOther, mayRead + "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, admin := restricted(t, false, publish, []string{mayHear, mayAnswer})
			listening := listen(t, s, "g")
			consuming := listen(t, s, "g2")
			var rev, rev2 uint64
			for i := range 3 {
				rev = must(t, admin, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i)})
				listening.revision(rev)
				rev2 = must(t, admin, store.Write{Key: "g2", Expected: rev2, Value: fmt.Append(nil, i)})
				consuming.revision(rev2)
			}
		})
	}
}

// Nor must it affect watches that start beside it, whichever denial comes
// first: each gets its own denial, and an allowed watch starts. A watch that
// started at the same time as another was refused permanently.
func TestAWatchIsRefusedForItsOwnDenialAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		foreign            bool
		publish, subscribe []string
		denied             string // the subject's beginning
		known              bool   // by a watch before, that consumers serve
	}{
		{"may ask", true, []string{mayMake, mayRead, mayAsk}, nil, "$KV.b.", false},
		{"may not ask", true, []string{mayMake, mayRead}, nil, "$KV.b.", true},
		{"republished, may ask", false, []string{mayRead, mayAsk}, []string{mayAnswer, mayHear}, "leader.b.", false},
		{"republished, may not ask", false, []string{mayRead}, []string{mayAnswer, mayHear}, "leader.b.", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for round := 0; round < 20 && !t.Failed(); round++ {
				s, _ := restricted(t, c.foreign, c.publish, c.subscribe)
				if c.known {
					listen(t, s, "g")
				}
				begin := func(key string, pattern bool) (err error) {
					var stop func()
					if pattern {
						stop, err = s.WatchPattern(natslab.Within(t), key, func(store.Entry) {}, func(error) {})
					} else {
						stop, err = s.Watch(natslab.Within(t), []string{key}, func(store.Entry) {})
					}
					if err == nil {
						stop()
					}
					return err
				}
				var all sync.WaitGroup
				for _, pattern := range []bool{false, true} {
					all.Go(func() {
						if err := begin("g", pattern); err != nil {
							t.Errorf("pattern %v: %v", pattern, err)
						}
					})
					for _, key := range []string{"g2", "g3"} {
						all.Go(func() { trial.Outcome(t, begin(key, pattern), store.Permanent, c.denied+key) })
					}
				}
				all.Wait()
			}
		})
	}
}

// Of reads that are denied together, each returns the denial, and none waits
// for its deadline.
func TestReadsThatAreDeniedTogetherEachFail(t *testing.T) {
	t.Parallel()
	s, _ := restricted(t, false, []string{mayRead, mayAsk}, nil)
	for round := 0; round < 20 && !t.Failed(); round++ {
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				key := fmt.Sprintf("g%d", i)
				_, err := s.Get(natslab.Within(t), key)
				trial.Outcome(t, err, store.Permanent, "$KV.b."+key)
			})
		}
		all.Wait()
	}
}

// Beyond the first four they share a consumer, whose refusal does not concern
// others. Most got no answer at all: the denials of the first to go on hid the
// denial of their request for the configuration.
func TestManyWatchesOfAUserWhoMayOnlyListenBeginAtOnce(t *testing.T) {
	t.Parallel()
	s, admin := restricted(t, false, nil, []string{"leader.b.*", mayAnswer})
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			key := fmt.Sprintf("g%d", i)
			heard := make(chan store.Entry, 100)
			stop, err := s.Watch(t.Context(), []string{key}, func(e store.Entry) { heard <- e })
			if err != nil {
				t.Error(err)
				return
			}
			defer stop()
			rev, err := admin.CompareAndSwap(t.Context(), store.Write{Key: key, Value: []byte("v")})
			if err != nil {
				t.Error(err)
				return
			}
			for e := range heard {
				if e.Revision == rev {
					return
				}
			}
		})
	}
	all.Wait()
}

// The program has one connection for all that it does. A denied subscription to
// the subject of a key must not affect a write to the key, which was reported
// as certainly refused, and was applied.
func TestDeniedSubscriptionRefusesNoWrite(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", []string{"$KV.b.g"}, []string{mayAnswer})))
		root := srv.Connect(t, nats.UserInfo("admin", "admin"))
		// The server never acknowledges the write, which is thus in flight when
		// the denial arrives.
		if _, err := natslab.JetStream(t, root).CreateStream(natslab.Within(t), jetstream.StreamConfig{
			Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 1, AllowDirect: true, NoAck: true,
		}); err != nil {
			t.Fatal(err)
		}
		h := listen(t, open(t, root, "b", natsstore.Options{}), "g")
		nc := srv.Connect(t, nats.UserInfo("c", "c"), nats.CustomInboxPrefix("_INBOX_c"))
		w := write(t, open(t, nc, "b", natsstore.Options{}))
		ctx, cancel := context.WithCancel(natslab.Within(t))
		done := make(chan error, 1)
		go func() {
			_, err := w.CompareAndSwap(ctx, store.Write{Key: "g", Value: []byte("applied")})
			done <- err
		}()
		h.value("applied")
		if _, err := nc.SubscribeSync("$KV.b.g"); err != nil {
			t.Fatal(err)
		}
		denied(t, nc)
		cancel()
		trial.Outcome(t, <-done, store.Unknown)
	})
}

// denied waits until the connection has heard of a denial.
func denied(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if err := nc.FlushWithContext(natslab.Within(t)); err != nil {
		t.Fatal(err)
	}
	if err := nc.LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatalf("nothing was denied: %v", err)
	}
}

// A program that serves others on its connection, and may not answer them, may
// still receive answers to its own requests. Each of its late requests was
// reported as permanently denied.
func TestDeniedReplyLeavesTheInboxAllowed(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", []string{mayAsk, mayRead, "$KV.b.g"}, nil)))
	ensure(t, srv.Connect(t, nats.UserInfo("admin", "admin")), natsstore.BucketConfig{Bucket: "b"})
	proxy := natslab.NewRelay(t, srv.Addr())
	nc := natslab.Connect(t, proxy.URL(), nats.UserInfo("c", "c"))
	s := open(t, nc, "b", natsstore.Options{})
	must(t, s, store.Write{Key: "g", Value: []byte("v")})
	if err := reply(nc); err != nil {
		t.Fatal(err)
	}
	denied(t, nc)
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	_, err := s.Get(brief(t), "g")
	trial.Outcome(t, err, store.Transient)
	_, err = s.Check(brief(t), store.CheckRequest{TTL: time.Second, Key: "g"})
	trial.Outcome(t, err, store.Transient)
}

// Nor is an old denial named as the reason why a watch did not begin in time.
func TestDenialBeforeAWatchIsNotItsReason(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", []string{mayRead}, nil)))
	proxy := natslab.NewRelay(t, srv.Addr())
	nc := natslab.Connect(t, proxy.URL(), nats.UserInfo("c", "c"))
	if err := reply(nc); err != nil {
		t.Fatal(err)
	}
	denied(t, nc)
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	s := open(t, nc, "b", natsstore.Options{Republished: "leader.b."})
	_, err := s.Watch(brief(t), []string{"g"}, func(store.Entry) {})
	trial.Outcome(t, err, store.Transient)
	if errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("the denial of a reply is named: %v", err)
	}
}

// reply answers a request, to an inbox like the connection's own inboxes.
func reply(nc *nats.Conn) error { return nc.Publish(nc.NewInbox(), nil) }

// Nor does it keep a watch from its beginning.
func TestAWatchBeginsWhileRepliesAreDenied(t *testing.T) {
	t.Parallel()
	for name, foreignBucket := range map[string]bool{"republished": false, "consumer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", []string{"$JS.API.>"}, nil)))
			root := srv.Connect(t, nats.UserInfo("admin", "admin"))
			if foreignBucket {
				natslab.KV(t, root, foreign("b"))
			} else {
				ensure(t, root, natsstore.BucketConfig{Bucket: "b"})
			}
			nc := srv.Connect(t, nats.UserInfo("c", "c"))
			// So often that some are denied while a watch begins.
			ctx, cancel := context.WithCancel(natslab.Within(t))
			var replies sync.WaitGroup
			replies.Go(func() {
				for ctx.Err() == nil {
					_ = reply(nc)
					_ = nc.FlushWithContext(ctx)
				}
			})
			t.Cleanup(func() { cancel(); replies.Wait() })
			s, admin := open(t, nc, "b", natsstore.Options{}), open(t, root, "b", natsstore.Options{})
			var rev uint64
			for range 5 {
				one, all := listen(t, s, "g"), listenWide(t, s, ">")
				rev = must(t, admin, store.Write{Key: "g", Expected: rev, Value: []byte("v")})
				one.revision(rev)
				all.until("the write", func(e store.Entry) bool { return e.Revision == rev })
			}
		})
	}
}

// Where the configuration may not be read, the bucket was then taken for one
// that republishes, and watches were refused.
func TestADeniedReplyDoesNotShowThatABucketRepublishes(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", []string{mayMake, mayRead}, nil)))
	root := srv.Connect(t, nats.UserInfo("admin", "admin"))
	natslab.KV(t, root, foreign("b"))
	proxy := natslab.NewRelay(t, srv.Addr())
	// The denial of the reply arrives when a consumer has been asked for, and
	// the denial of the request for the configuration arrives before.
	var once sync.Once
	nc := natslab.Connect(t, proxy.URL(), nats.UserInfo("c", "c"), nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, _ error) {
		once.Do(func() {
			proxy.Hold(natslab.ToClient)
			_ = reply(nc)
		})
	}))
	if _, err := root.Subscribe("$JS.API.CONSUMER.CREATE.KV_b.>", func(*nats.Msg) { proxy.Resume() }); err != nil {
		t.Fatal(err)
	}
	if err := root.FlushWithContext(natslab.Within(t)); err != nil {
		t.Fatal(err)
	}
	h := listen(t, open(t, nc, "b", natsstore.Options{}), "g")
	h.revision(must(t, open(t, root, "b", natsstore.Options{}), store.Write{Key: "g", Value: []byte("v")}))
}
