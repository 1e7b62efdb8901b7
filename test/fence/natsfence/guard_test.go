package natsfence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/natsfence"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func openKV(t *testing.T, js jetstream.JetStream, n uint64, token string) *natsfence.KV {
	t.Helper()
	k, err := natsfence.OpenKV(natslab.Within(t), js, "orders", "g", term(n, token))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGuardOpensForTermsThatSupersede(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := bucket(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "orders"})
	openKV(t, js, 7, "a")
	before, _ := guardAt(t, js, "KV_orders", ordersMark)
	for _, c := range []struct {
		n     uint64
		token string
		stale bool
	}{{7, "a", false}, {6, "b", true}, {7, "b", true}} {
		_, err := natsfence.OpenKV(natslab.Within(t), js, "orders", "g", term(c.n, c.token))
		if errors.Is(err, fence.ErrStale) != c.stale || (err == nil) == c.stale {
			t.Errorf("%d/%s: %v", c.n, c.token, err)
		}
	}
	if seq, n := guardAt(t, js, "KV_orders", ordersMark); seq != before || n != 7 {
		t.Errorf("term %d at %d, was raised at %d: those who were refused, or were there already, wrote", n, seq, before)
	}
	openKV(t, js, 8, "b")
	if seq, n := guardAt(t, js, "KV_orders", ordersMark); seq <= before || n != 8 {
		t.Errorf("term %d at %d", n, seq)
	}
}

// The condition that the package sends is enough: a client that does nothing
// but send it is refused.
func TestServerRefusesWhatIsSentUnderALoweredGuard(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := bucket(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "orders"})
	openKV(t, js, 1, "a")
	old, _ := guardAt(t, js, "KV_orders", ordersMark)
	publish := func() error {
		_, err := js.Publish(natslab.Within(t), "$KV.orders.x", nil, jetstream.WithExpectLastSequenceForSubject(old, ordersMark))
		return err
	}
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	openKV(t, js, 2, "b")
	var api *jetstream.APIError
	if err := publish(); !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Fatal(err)
	}
}

func TestGroupsAndBucketsHaveGuardsOfTheirOwn(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	js := bucket(t, nc, natsstore.BucketConfig{Bucket: "orders"})
	bucket(t, nc, natsstore.BucketConfig{Bucket: "others"})
	k := openKV(t, js, 1, "a")
	for _, where := range [][2]string{{"orders", "h"}, {"others", "g"}} {
		if _, err := natsfence.OpenKV(natslab.Within(t), js, where[0], where[1], term(9, "b")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Put(natslab.Within(t), "x", nil); err != nil {
		t.Error(err)
	}
}

func TestValuesAreReadAsOrdinaryOnes(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Domain("hub"))
	nc := srv.Connect(t)
	bucket(t, nc, natsstore.BucketConfig{Bucket: "orders"})
	inDomain, err := jetstream.NewWithDomain(nc, "hub")
	if err != nil {
		t.Fatal(err)
	}
	withPrefix, err := jetstream.NewWithAPIPrefix(nc, "$JS.hub.API")
	if err != nil {
		t.Fatal(err)
	}
	for i, js := range []jetstream.JetStream{natslab.JetStream(t, nc), inDomain, withPrefix} {
		k := openKV(t, js, uint64(i+1), "a")
		rev, err := k.Put(natslab.Within(t), "x", []byte("value"))
		if err != nil {
			t.Fatal(err)
		}
		kv, err := js.KeyValue(natslab.Within(t), "orders")
		if err != nil {
			t.Fatal(err)
		}
		e, err := kv.Get(natslab.Within(t), "x")
		if err != nil || string(e.Value()) != "value" || e.Revision() != rev {
			t.Fatalf("%v, %v", e, err)
		}
		if err := k.Delete(natslab.Within(t), "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Get(natslab.Within(t), "x"); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Error(err)
		}
	}
}

// Of many who open at once with terms of their own, at the end the newest alone
// writes.
func TestNewestOfManyConcurrentTermsHoldsTheGuard(t *testing.T) {
	t.Parallel()
	lab := natslab.StartCluster(t, 3)
	nc := lab.Connect(t)
	js := bucket(t, nc, natsstore.BucketConfig{Bucket: "orders", Replicas: 3})
	const terms = 12
	opened := make([]*natsfence.KV, terms+1)
	var all sync.WaitGroup
	start := make(chan struct{})
	for n := uint64(terms); n >= 1; n-- {
		all.Go(func() {
			<-start
			k, err := natsfence.OpenKV(natslab.Within(t), js, "orders", "g", term(n, "a"))
			if err != nil && !errors.Is(err, fence.ErrStale) {
				t.Errorf("term %d: %v", n, err)
			}
			opened[n] = k
		})
	}
	close(start)
	all.Wait()
	for n, k := range opened {
		if k == nil {
			continue
		}
		_, err := k.Put(natslab.Within(t), "x", nil)
		if n == terms && err != nil || n < terms && !errors.Is(err, fence.ErrStale) {
			t.Errorf("term %d: %v", n, err)
		}
	}
	if opened[terms] == nil {
		t.Error("the newest did not open")
	}
}

func TestConcurrentWritesOfOneTermAreAllAccepted(t *testing.T) {
	t.Parallel()
	lab := natslab.StartCluster(t, 3)
	js := bucket(t, lab.Connect(t), natsstore.BucketConfig{Bucket: "orders", Replicas: 3})
	// Two writers of the term do not know of each other: the server has one of
	// them wait.
	writers := []*natsfence.KV{openKV(t, js, 1, "a"), openKV(t, js, 1, "a")}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 40 {
				if _, err := writers[i%2].Put(natslab.Within(t), fmt.Sprint("k", i, ".", j), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestStepDownOfTheStreamsLeaderLetsNoStaleWriteIn(t *testing.T) {
	t.Parallel()
	lab := natslab.StartCluster(t, 3)
	nc := lab.Connect(t)
	js := bucket(t, nc, natsstore.BucketConfig{Bucket: "orders", Replicas: 3})
	old := openKV(t, js, 1, "a")
	fresh := openKV(t, js, 2, "b")
	for range 3 {
		lab.StepDownStreamLeader(nc, "KV_orders")
		natslab.Eventually(t, "a write of the newer term", func(ctx context.Context) error {
			_, err := fresh.Put(ctx, "x", nil)
			return err
		})
		for range 50 {
			if _, err := old.Put(natslab.Within(t), "x", nil); err == nil || errors.Is(err, store.ErrUnknown) || errors.Is(err, natsfence.ErrLost) {
				t.Fatalf("the older term's write: %v", err)
			}
		}
	}
}

// A deleted guard admits neither former nor new leaders, since the former
// leader is unknown.
func TestDeletedGuardStopsEveryoneUntilAPersonPutsAMark(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(context.Context, jetstream.KeyValue) error{
		"delete": func(ctx context.Context, kv jetstream.KeyValue) error { return kv.Delete(ctx, ordersKey) },
		"purge":  func(ctx context.Context, kv jetstream.KeyValue) error { return kv.Purge(ctx, ordersKey) },
		"overwrite": func(ctx context.Context, kv jetstream.KeyValue) error {
			_, err := kv.Put(ctx, ordersKey, []byte("{}"))
			return err
		},
		"overwrite with a number that no term has": func(ctx context.Context, kv jetstream.KeyValue) error {
			_, err := kv.Put(ctx, ordersKey, []byte("18446744073709551615/"+fence.Digest("x")))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := natslab.Start(t)
			kv := natslab.KV(t, srv.Connect(t), jetstream.KeyValueConfig{Bucket: "orders"})
			js := natslab.JetStream(t, srv.Connect(t))
			old := openKV(t, js, 7, "a")
			if err := remove(natslab.Within(t), kv); err != nil {
				t.Fatal(err)
			}
			for _, n := range []uint64{6, 7, 8} {
				if _, err := natsfence.OpenKV(natslab.Within(t), js, "orders", "g", term(n, "a")); !errors.Is(err, natsfence.ErrLost) {
					t.Errorf("opening in term %d: %v", n, err)
				}
			}
			if _, err := old.Put(natslab.Within(t), "x", nil); !errors.Is(err, natsfence.ErrLost) {
				t.Errorf("writing: %v", err)
			}
			if _, err := kv.Put(natslab.Within(t), ordersKey, []byte("7/")); err != nil {
				t.Fatal(err)
			}
			if _, err := old.Put(natslab.Within(t), "x", nil); !errors.Is(err, fence.ErrStale) {
				t.Errorf("writing in the term that the person named: %v", err)
			}
			if _, err := openKV(t, js, 8, "b").Put(natslab.Within(t), "x", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestGuardThatVanishedIsNotRaisedAgainByItsWriter(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := stream(t, srv.Connect(t), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	s, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "events.fence", term(7, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Warnings()) == 0 {
		t.Error("no warning that the stream allows what now follows")
	}
	raw, err := js.Stream(natslab.Within(t), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Purge(natslab.Within(t)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Publish(natslab.Within(t), "events.sent", nil); !errors.Is(err, natsfence.ErrLost) {
			t.Error(err)
		}
	}
	if seq, _ := guardAt(t, js, "EVENTS", "events.fence"); seq != 0 {
		t.Errorf("raised again at %d", seq)
	}
	// An earlier term finds nothing there, and raises the guard. That of the
	// later one was lost, and does not merely look so on a replica that lags.
	if _, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "events.fence", term(6, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publish(natslab.Within(t), "events.sent", nil); !errors.Is(err, natsfence.ErrLost) {
		t.Errorf("under the mark of an earlier term: %v", err)
	}
}

func TestGuardOutlivesTheAgeOfItsStream(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := stream(t, srv.Connect(t), jetstream.StreamConfig{
		Name: "EVENTS", Subjects: []string{"events.>"}, MaxAge: time.Second, AllowMsgTTL: true,
		SubjectDeleteMarkerTTL: time.Second,
	})
	s, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "events.fence", term(7, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publish(natslab.Within(t), "events.sent", nil); err != nil {
		t.Fatal(err)
	}
	raw, err := js.Stream(natslab.Within(t), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "the data is gone", func(ctx context.Context) error {
		if info, err := raw.Info(ctx); err != nil || info.State.Msgs > 1 {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	if seq, _ := guardAt(t, js, "EVENTS", "events.fence"); seq == 0 {
		t.Fatal("the guard went with it")
	}
	if _, err := s.Publish(natslab.Within(t), "events.sent", nil); err != nil {
		t.Error(err)
	}

	// Without markers a server that starts drops the guard: see
	// TestStreamsThatWouldDropTheGuardAreRefused.
	srv.Stop()
	srv.Run()
	natslab.Eventually(t, "the guard exists after a restart", func(ctx context.Context) error {
		_, err := natsfence.OpenStream(ctx, js, "EVENTS", "events.fence", term(6, "stale"))
		if err == nil {
			t.Fatal("a stale term opens")
		}
		if !errors.Is(err, fence.ErrStale) {
			return err
		}
		return nil
	})
}

// An operator limits the age of a stream, which had no limit when the guard was
// raised.
func TestGuardOutlivesAnAgeThatIsSetLater(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	for name, c := range map[string]struct {
		allowed bool // per-message TTLs, when the guard is raised
		again   bool // opened once more, after they are
	}{
		"exempted":      {allowed: true},
		"exempted then": {again: true},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			guard, sent := id+".fence", id+".sent"
			cfg := jetstream.StreamConfig{Name: id, Subjects: []string{id + ".>"}, AllowMsgTTL: c.allowed}
			js := stream(t, nc, cfg)
			open := func(n uint64) (*natsfence.Stream, error) {
				return natsfence.OpenStream(natslab.Within(t), js, id, guard, term(n, "a"))
			}
			s, err := open(7)
			if err != nil {
				t.Fatal(err)
			}
			if c.again {
				cfg.AllowMsgTTL = true
				if _, err := js.UpdateStream(natslab.Within(t), cfg); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if _, err := open(7); err != nil {
						t.Fatal(err)
					}
				}
				if seq, _ := guardAt(t, js, id, guard); seq != 2 {
					t.Errorf("at %d: not raised once more, or twice", seq)
				}
			}
			if _, err := s.Publish(natslab.Within(t), sent, []byte("7")); err != nil {
				t.Fatal(err)
			}
			cfg.MaxAge, cfg.SubjectDeleteMarkerTTL = time.Second, time.Second
			if _, err := js.UpdateStream(natslab.Within(t), cfg); err != nil {
				t.Fatal(err)
			}
			raw, err := js.Stream(natslab.Within(t), id)
			if err != nil {
				t.Fatal(err)
			}
			natslab.Eventually(t, "the data is gone", func(ctx context.Context) error {
				if info, err := raw.Info(ctx, jetstream.WithSubjectFilter(sent)); err != nil || info.State.Subjects[sent] > 0 {
					return errors.Join(errors.New("it is there"), err)
				}
				return nil
			})
			if _, err := open(6); !errors.Is(err, fence.ErrStale) {
				t.Fatalf("a stale term opens: %v", err)
			}
			if _, err := s.Publish(natslab.Within(t), sent, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without per-message TTLs nothing exempts the guard.
func TestOpenReportsAnAgeThatWasSetLater(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	cfg := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}}
	js := stream(t, srv.Connect(t), cfg)
	open := func(n uint64) error {
		_, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "events.fence", term(n, "a"))
		return err
	}
	if err := open(7); err != nil {
		t.Fatal(err)
	}
	cfg.MaxAge = time.Hour
	if _, err := js.UpdateStream(natslab.Within(t), cfg); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(3) {
		if err := open(n + 6); !errors.Is(err, natsfence.ErrUnfit) {
			t.Errorf("term %d: %v", n+6, err)
		}
	}
}

func TestStreamsThatWouldDropTheGuardAreRefused(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	for name, cfg := range map[string]jetstream.StreamConfig{
		"age":      {MaxAge: time.Hour},
		"restart":  {MaxAge: time.Hour, AllowMsgTTL: true},
		"messages": {MaxMsgs: 100},
		"bytes":    {MaxBytes: 1 << 20},
		"work":     {Retention: jetstream.WorkQueuePolicy},
		"interest": {Retention: jetstream.InterestPolicy},
		"noack":    {NoAck: true},
		"renamed":  {SubjectTransform: &jetstream.SubjectTransformConfig{Source: "renamed.>", Destination: "other.>"}},
		"counter":  {AllowMsgCounter: true, AllowDirect: true},
		"replaced": {MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Name, cfg.Subjects = name, []string{name + ".>"}
			js := stream(t, nc, cfg)
			if _, err := natsfence.OpenStream(natslab.Within(t), js, name, name+".fence", term(1, "a")); !errors.Is(err, natsfence.ErrUnfit) {
				t.Error(err)
			}
		})
	}
	for name, cfg := range map[string]jetstream.StreamConfig{
		"full":    {MaxMsgs: 100, MaxBytes: 1 << 20, Discard: jetstream.DiscardNew},
		"history": {MaxMsgsPerSubject: 2},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Name, cfg.Subjects = name, []string{name + ".>"}
			js := stream(t, nc, cfg)
			if _, err := natsfence.OpenStream(natslab.Within(t), js, name, name+".fence", term(1, "a")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWarningsNameTheWeaknessOfAGuard(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	js := bucket(t, nc, natsstore.BucketConfig{Bucket: "orders"})
	if w := openKV(t, js, 1, "a").Warnings(); len(w) != 0 {
		t.Errorf("a bucket of this library: %q", w)
	}
	natslab.KV(t, nc, jetstream.KeyValueConfig{Bucket: "theirs", Storage: jetstream.MemoryStorage})
	k, err := natsfence.OpenKV(natslab.Within(t), js, "theirs", "g", term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(k.Warnings(), "\n")
	for _, want := range []string{"counts from 1", "rollups", "memory"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing about %s: %s", want, all)
		}
	}
	stream(t, nc, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, PersistMode: jetstream.AsyncPersistMode})
	s, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "events.fence", term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(s.Warnings(), "\n"); !strings.Contains(all, "persist_mode") {
		t.Errorf("nothing about persist_mode: %s", all)
	}
}

func TestWriteThatWouldBypassTheGuardIsNotSent(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	js := bucket(t, nc, natsstore.BucketConfig{Bucket: "orders"})
	stream(t, nc, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	stream(t, nc, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
	k := openKV(t, js, 1, "a")
	for _, key := range []string{"", ordersKey, natsfence.GuardPrefix + "h", "a b", ".a", "a..b", "*", ">"} {
		if _, err := k.Put(natslab.Within(t), key, nil); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("key %q: %v", key, err)
		}
		if err := k.Delete(natslab.Within(t), key); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("deleting key %q: %v", key, err)
		}
	}
	s, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "events.fence", term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"", "events.fence", "events.*", "events.>", "events..a", "events. a"} {
		if _, err := s.Publish(natslab.Within(t), subject, nil); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("subject %q: %v", subject, err)
		}
	}
	for _, header := range []string{
		"Nats-Rollup", "nats-rollup", "Nats-Expected-Stream", "Nats-Expected-Last-Subject-Sequence",
		"Nats-Expected-Last-Subject-Sequence-Subject", "Nats-Schedule", "Nats-Batch-Id",
	} {
		m := &nats.Msg{Subject: "events.sent", Header: nats.Header{header: {"x"}}}
		if _, err := s.PublishMsg(natslab.Within(t), m); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("header %q: %v", header, err)
		}
	}
	if _, err := s.Publish(natslab.Within(t), "other.sent", nil); !errors.Is(err, store.ErrPermanent) {
		t.Errorf("another stream's subject: %v", err)
	}
	if _, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "other.fence", term(1, "a")); !errors.Is(err, store.ErrPermanent) {
		t.Errorf("another stream's guard: %v", err)
	}
	for _, bad := range []struct{ bucket, group string }{{"orders", ""}, {"orders", "a b"}, {"orders", "a."}, {"orders", strings.Repeat("g", 256)}} {
		if _, err := natsfence.OpenKV(natslab.Within(t), js, bad.bucket, bad.group, term(1, "a")); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	for _, missing := range []string{"nothing", "no bucket", ""} {
		if _, err := natsfence.OpenKV(natslab.Within(t), js, missing, "g", term(1, "a")); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("bucket %q: %v", missing, err)
		}
	}
	for _, no := range []uint64{0} {
		if _, err := natsfence.OpenKV(natslab.Within(t), js, "orders", "g", term(no, "a")); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("term %d: %v", no, err)
		}
	}
}

func TestHeadersOfMessagesAreKeptAndNotChanged(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := stream(t, srv.Connect(t), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	s, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "events.fence", term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: "events.sent", Header: nats.Header{"Trace": {"x"}, jetstream.MsgIDHeader: {"1"}}}
	for _, duplicate := range []bool{false, true} {
		ack, err := s.PublishMsg(natslab.Within(t), m)
		if err != nil || ack.Duplicate != duplicate {
			t.Errorf("%+v, %v", ack, err)
		}
	}
	if len(m.Header) != 2 {
		t.Errorf("changed: %v", m.Header)
	}
	raw, err := js.Stream(natslab.Within(t), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	got, err := raw.GetLastMsgForSubject(natslab.Within(t), "events.sent")
	if err != nil || got.Header.Get("Trace") != "x" {
		t.Errorf("%v, %v", got, err)
	}
}

// The answer gets lost, not the write: it is neither a success nor a failure,
// and the guard bounds it.
func TestWriteWithoutAnAnswerIsUnknownAndStillGuarded(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := bucket(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "orders"})
	proxy := natslab.NewRelay(t, srv.Addr())
	k := openKV(t, natslab.JetStream(t, natslab.Connect(t, proxy.URL())), 1, "a")

	put := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // long enough for it to leave
		defer cancel()
		_, err := k.Put(ctx, key, nil)
		return err
	}
	proxy.Hold(natslab.ToClient)
	if err := put("applied"); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	natslab.Eventually(t, "it is applied", func(ctx context.Context) error { return stands(ctx, js, "applied") })
	proxy.Resume()
	if _, err := k.Put(natslab.Within(t), "next", nil); err != nil {
		t.Fatal(err)
	}

	proxy.Hold(natslab.ToServer)
	if err := put("late"); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("%v", err)
	}
	openKV(t, js, 2, "b")
	proxy.Resume()
	// It arrives now, before this one, on the same connection.
	if _, err := k.Put(natslab.Within(t), "later", nil); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
	if err := stands(natslab.Within(t), js, "late"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("applied after the newer term had started: %v", err)
	}
}

func stands(ctx context.Context, js jetstream.JetStream, key string) error {
	kv, err := js.KeyValue(ctx, "orders")
	if err != nil {
		return err
	}
	_, err = kv.Get(ctx, key)
	return err
}

func TestRaiseWithoutAnAnswerIsResolved(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := bucket(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "orders"})
	proxy := natslab.NewRelay(t, srv.Addr())
	far := natslab.JetStream(t, natslab.Connect(t, proxy.URL()))
	proxy.Delay(300*time.Millisecond, natslab.ToClient)
	opened := make(chan *natsfence.KV, 1)
	go func() {
		k, err := natsfence.OpenKV(natslab.Within(t), far, "orders", "g", term(1, "a"))
		if err != nil {
			t.Error(err)
		}
		opened <- k
	}()
	natslab.Eventually(t, "the guard is raised", func(context.Context) error {
		if seq, _ := guardAt(t, js, "KV_orders", ordersMark); seq == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	proxy.Drop() // with the answer
	proxy.Resume()
	k := <-opened
	if k == nil {
		return
	}
	// On a busy machine the answer was there before, and a write may be lost
	// with the connection.
	natslab.Eventually(t, "a write", func(ctx context.Context) error {
		_, err := k.Put(ctx, "x", nil)
		return err
	})
}

// A leader of the stream that has lost its majority refuses what comes while an
// earlier raise is in flight, and that one gets no answer.
func TestFailureToRaiseAGuardNamesItsState(t *testing.T) {
	t.Parallel()
	c := natslab.StartCluster(t, 3)
	bucket(t, c.Connect(t), natsstore.BucketConfig{Bucket: "orders", Replicas: 3})
	last := c.StreamLeader("KV_orders")
	js := natslab.JetStream(t, natslab.Connect(t, last.URL(), nats.IgnoreDiscoveredServers()))
	for _, s := range c.Nodes {
		if s != last {
			s.Stop()
		}
	}
	open := func(n uint64, wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, err := natsfence.OpenKV(ctx, js, "orders", "g", term(n, "a"))
		return err
	}
	for n := range uint64(2) {
		err := open(n+1, 3*time.Second) // longer than one attempt
		var classes []error
		for _, class := range []error{fence.ErrStale, fence.ErrInvalid, natsfence.ErrLost, natsfence.ErrUnfit, store.ErrTransient, store.ErrPermanent, store.ErrUnknown} {
			if errors.Is(err, class) {
				classes = append(classes, class)
			}
		}
		if len(classes) != 1 || n == 0 && !errors.Is(err, store.ErrUnknown) {
			t.Errorf("term %d: %v, which is %v", n+1, err, classes)
		}
	}
}

// A leader of the stream that has lost its majority refuses a message whose
// first copy is in flight. That copy may be stored yet, and is when the others
// are back.
func TestAMessageWhoseFirstCopyIsInFlightMayYetBeStored(t *testing.T) {
	t.Parallel()
	c := natslab.StartCluster(t, 3)
	stream(t, c.Connect(t), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Replicas: 3})
	last := c.StreamLeader("EVENTS")
	js := natslab.JetStream(t, natslab.Connect(t, last.URL(), nats.IgnoreDiscoveredServers()))
	s, err := natsfence.OpenStream(natslab.Within(t), js, "EVENTS", "events.fence", term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	var away []*natslab.Server
	for _, n := range c.Nodes {
		if n != last {
			n.Stop()
			away = append(away, n)
		}
	}
	m := &nats.Msg{Subject: "events.sent", Header: nats.Header{jetstream.MsgIDHeader: {"1"}}}
	publish := func(ctx context.Context, wait time.Duration) (*jetstream.PubAck, error) {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		return s.PublishMsg(ctx, m)
	}
	if _, err := publish(t.Context(), time.Second); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("the first copy: %v", err)
	}
	// After ten seconds the leader steps down, and then the server reports that
	// there is none.
	var api *jetstream.APIError
	_, err = publish(t.Context(), time.Second)
	if told := errors.As(err, &api) && api.ErrorCode == 10158; errors.Is(err, store.ErrPermanent) || told && store.Classify(err) != store.Unknown {
		t.Errorf("the second copy: %v", err)
	}
	for _, n := range away {
		n.Run()
	}
	natslab.Eventually(t, "it is stored", func(ctx context.Context) error {
		_, err := publish(ctx, time.Second)
		return err
	})
}

func TestNothingIsSentWithoutAConnection(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := bucket(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "orders"})
	proxy := natslab.NewRelay(t, srv.Addr())
	gone := make(chan struct{})
	once := sync.OnceFunc(func() { close(gone) })
	nc := natslab.Connect(t, proxy.URL(), nats.DisconnectErrHandler(func(*nats.Conn, error) { once() }))
	k := openKV(t, natslab.JetStream(t, nc), 1, "a")
	proxy.Cut()
	<-gone
	if _, err := k.Put(natslab.Within(t), "x", nil); !errors.Is(err, store.ErrTransient) || errors.Is(err, store.ErrUnknown) {
		t.Error(err)
	}
	proxy.Resume()
	natslab.Eventually(t, "it writes again", func(ctx context.Context) error {
		_, err := k.Put(ctx, "y", nil)
		return err
	})
	if err := stands(natslab.Within(t), js, "x"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("delivered after it was given up: %v", err)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := bucket(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "orders"})
	k := openKV(t, js, 1, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Put(ctx, "x", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := natsfence.OpenKV(ctx, js, "orders", "g", term(2, "b")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The rights that the package documentation lists suffice.
func TestWriterNeedsNoOtherPermissions(t *testing.T) {
	t.Parallel()
	writer := natslab.User("writer", []string{
		"$KV.orders.>", "$JS.API.STREAM.INFO.KV_orders", "$JS.API.DIRECT.GET.KV_orders.$KV.orders._fence.g",
	}, []string{"_INBOX.>"})
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), writer))
	admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
	bucket(t, admin, natsstore.BucketConfig{Bucket: "orders"})
	js := natslab.JetStream(t, srv.Connect(t, nats.UserInfo("writer", "writer")))
	old := openKV(t, js, 1, "a")
	if _, err := old.Put(natslab.Within(t), "x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := openKV(t, js, 2, "b").Put(natslab.Within(t), "x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Put(natslab.Within(t), "x", nil); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
}

func TestErrorsNeverShowTheToken(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := bucket(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "orders"})
	const token = "6f1c2f6e-0c0e-4e0e-9d61-6ed0f6a1a6e3"
	openKV(t, js, 7, "a")
	_, err := natsfence.OpenKV(natslab.Within(t), js, "orders", "g", term(6, token))
	if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), token) {
		t.Error(err)
	}
	kv, kvErr := js.KeyValue(natslab.Within(t), "orders")
	if kvErr != nil {
		t.Fatal(kvErr)
	}
	openKV(t, js, 8, token)
	e, kvErr := kv.Get(natslab.Within(t), ordersKey)
	if kvErr != nil || !slices.Equal(e.Value(), []byte("8/"+fence.Digest(token))) {
		t.Errorf("%s, %v", strconv.Quote(string(e.Value())), kvErr)
	}
}
