// Package natsfence_test shows that a stale leader's writes are refused by real
// NATS servers.
package natsfence_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/natsfence"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/labs/stalewriter"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func term(n uint64, token string) leader.Term { return leader.Term{Number: n, Token: token} }

// bucket makes a bucket with the library.
func bucket(t *testing.T, nc *nats.Conn, cfg natsstore.BucketConfig) jetstream.JetStream {
	t.Helper()
	js := natslab.JetStream(t, nc)
	natslab.Eventually(t, "bucket made", func(ctx context.Context) error { return natsstore.EnsureBucket(ctx, js, cfg) })
	return js
}

func stream(t *testing.T, nc *nats.Conn, cfg jetstream.StreamConfig) jetstream.JetStream {
	t.Helper()
	js := natslab.JetStream(t, nc)
	natslab.Eventually(t, "stream made", func(ctx context.Context) error {
		_, err := js.CreateStream(ctx, cfg)
		return err
	})
	return js
}

// kv is a bucket for stale writers. Each write goes to a separate key, so that
// all are kept.
func kv(js jetstream.JetStream) stalewriter.Resource {
	var n atomic.Int64
	return stalewriter.Resource{
		Open: func(ctx context.Context, t leader.Term) (func(context.Context) error, error) {
			k, err := natsfence.OpenKV(ctx, js, "orders", "ledger", t)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				_, err := k.Put(ctx, "order."+strconv.FormatInt(n.Add(1), 10), []byte(strconv.FormatUint(t.Number, 10)))
				return err
			}, nil
		},
		Log: func(t *testing.T) []uint64 { return stored(t, js, "KV_orders", "$KV.orders.order.>") },
	}
}

func events(js jetstream.JetStream) stalewriter.Resource {
	return stalewriter.Resource{
		Open: func(ctx context.Context, t leader.Term) (func(context.Context) error, error) {
			s, err := natsfence.OpenStream(ctx, js, "EVENTS", "events.fence", t)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				_, err := s.Publish(ctx, "events.sent", []byte(strconv.FormatUint(t.Number, 10)))
				return err
			}, nil
		},
		Log: func(t *testing.T) []uint64 { return stored(t, js, "EVENTS", "events.sent") },
	}
}

// stored returns the terms in the messages on a subject, in the order of their
// sequences.
func stored(t *testing.T, js jetstream.JetStream, name, subject string) (terms []uint64) {
	t.Helper()
	ctx := natslab.Within(t)
	s, err := js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{FilterSubject: subject, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true})
	if err != nil {
		t.Fatal(err)
	}
	for left := c.CachedInfo().NumPending; left > 0; {
		batch, err := c.Fetch(int(min(left, 500)), jetstream.FetchMaxWait(natslab.Patience))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			n, err := strconv.ParseUint(string(m.Data()), 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", m.Subject(), err)
			}
			terms = append(terms, n)
			left--
		}
	}
	return terms
}

// guardAt returns the sequence and the term of the guard, as the server has it.
func guardAt(t *testing.T, js jetstream.JetStream, name, subject string) (seq, number uint64) {
	t.Helper()
	s, err := js.Stream(natslab.Within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(natslab.Within(t), subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, 0
	}
	if err != nil {
		t.Fatal(err)
	}
	var mark fence.Mark
	if err := mark.UnmarshalText(m.Data); err != nil {
		t.Fatal(err)
	}
	return m.Sequence, mark.Term
}

const (
	second     = time.Second
	ordersKey  = "_fence.g"
	ordersMark = "$KV.orders." + ordersKey
)
