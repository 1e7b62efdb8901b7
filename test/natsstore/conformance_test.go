package natsstore_test

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A bed is where a conformance run takes place.
type bed struct {
	connect   func(testing.TB) *nats.Conn
	make      func(tb testing.TB, nc *nats.Conn, bucket string)
	opts      natsstore.Options
	interrupt func()
}

// harness gives each claim a separate bucket.
func (b bed) harness(tb testing.TB) storetest.Harness {
	bucket := newBucket()
	admin := b.connect(tb)
	b.make(tb, admin, bucket)
	js, err := jetstream.New(admin)
	if b.opts.Domain != "" {
		js, err = jetstream.NewWithDomain(admin, b.opts.Domain)
	}
	if err != nil {
		tb.Fatal(err)
	}
	kv, err := js.KeyValue(natslab.Within(tb), bucket)
	if err != nil {
		tb.Fatal(err)
	}
	return storetest.Harness{
		Open:   func(tb testing.TB) store.Store { return open(tb, b.connect(tb), bucket, b.opts) },
		Delete: func(key string) error { return kv.Delete(natslab.Within(tb), key) },
		Put: func(key string, value []byte) error {
			_, err := kv.Put(natslab.Within(tb), key, value)
			return err
		},
		Purge: func(key string) error {
			s, err := js.Stream(natslab.Within(tb), "KV_"+bucket)
			if err != nil {
				return err
			}
			return s.Purge(natslab.Within(tb), jetstream.WithPurgeSubject("$KV."+bucket+"."+key))
		},
		Visible: func(key string) (bool, error) {
			_, err := kv.Get(natslab.Within(tb), key)
			if errors.Is(err, jetstream.ErrKeyNotFound) {
				return false, nil
			}
			return err == nil, err
		},
		Interrupt: func() error { b.interrupt(); return nil },
	}
}

func makeOurs(cfg natsstore.BucketConfig) func(testing.TB, *nats.Conn, string) {
	return func(tb testing.TB, nc *nats.Conn, bucket string) {
		cfg := cfg // parallel tests make buckets by one function
		cfg.Bucket = bucket
		ensure(tb, nc, cfg)
	}
}

func makeForeign(cfg jetstream.KeyValueConfig) func(testing.TB, *nats.Conn, string) {
	return func(tb testing.TB, nc *nats.Conn, bucket string) {
		cfg := cfg
		cfg.Bucket = bucket
		natslab.KV(tb, nc, cfg)
	}
}

// byFeed runs a test with each kind of bucket by which a pattern is watched.
func byFeed(t *testing.T, test func(t *testing.T, create func(testing.TB, *nats.Conn, string))) {
	t.Helper()
	for name, create := range map[string]func(testing.TB, *nats.Conn, string){
		"Republished": makeOurs(natsstore.BucketConfig{}),
		"Consumer":    makeForeign(jetstream.KeyValueConfig{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, create)
		})
	}
}

// noPurge: a bucket that the library makes refuses requests that would destroy
// records.
const noPurge = "the bucket denies purges"

var patience = flag.Duration("patience", 0, "how long TestConformance waits for an event; 0 means the suite's default")

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(testing.TB, *nats.Conn, string)
		opts natsstore.Options
		caps storetest.Caps
	}{
		{"Ours", makeOurs(natsstore.BucketConfig{}), natsstore.Options{}, storetest.Caps{NoPurge: noPurge}},
		{"OursWatchedWholeInADomain", makeOurs(natsstore.BucketConfig{}), natsstore.Options{Domain: "hub", WatchWholeBucket: true}, storetest.Caps{NoPurge: noPurge}},
		{"Foreign", makeForeign(jetstream.KeyValueConfig{}), natsstore.Options{}, storetest.Caps{}},
		{"ForeignWatchedWholeWithHistory", makeForeign(jetstream.KeyValueConfig{History: 64}), natsstore.Options{WatchWholeBucket: true}, storetest.Caps{}},
		{"ForeignWithTTLAndMarkers", makeForeign(jetstream.KeyValueConfig{TTL: time.Hour, LimitMarkerTTL: time.Minute, Compression: true}),
			natsstore.Options{}, storetest.Caps{}},
	} {
		c.caps.Patience = *patience
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := natslab.Start(t, natslab.Domain("hub"))
			connect := func(tb testing.TB) *nats.Conn { return srv.Connect(tb) }
			storetest.Run(t, bed{connect: connect, make: c.make, opts: c.opts, interrupt: srv.DropClients}.harness, c.caps)
		})
	}
}

// elsewhere skips a test under the race detector. It slows the servers that a
// test embeds, a cluster by a factor of five; a thousand watches take
// gigabytes; and TestConformance already runs the client that the detector is
// for.
func elsewhere(tb testing.TB) {
	tb.Helper()
	if raceEnabled {
		tb.Skip("make test runs it without the race detector")
	}
}

func TestConformanceInACluster(t *testing.T) {
	elsewhere(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(testing.TB, *nats.Conn, string)
		caps storetest.Caps
	}{
		{"Ours", makeOurs(natsstore.BucketConfig{Replicas: 3}), storetest.Caps{NoPurge: noPurge}},
		{"Foreign", makeForeign(jetstream.KeyValueConfig{Replicas: 3}), storetest.Caps{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster := natslab.StartCluster(t, 3)
			interrupt := func() {
				for _, node := range cluster.Nodes {
					node.DropClients()
				}
			}
			connect := func(tb testing.TB) *nats.Conn { return cluster.Connect(tb) }
			storetest.Run(t, bed{connect: connect, make: c.make, interrupt: interrupt}.harness, c.caps)
		})
	}
}
