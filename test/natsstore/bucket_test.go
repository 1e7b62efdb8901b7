package natsstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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

func TestFiftyProcessesMayMakeTheSameBucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ctx := natslab.Within(t)
	var wg sync.WaitGroup
	for range 50 {
		nc := srv.Connect(t)
		wg.Go(func() {
			js, err := jetstream.New(nc)
			if err != nil {
				t.Error(err)
				return
			}
			if err := natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: "b"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, open(t, srv.Connect(t), "b", natsstore.Options{}), store.Write{Key: "g"})
}

// A process whose clock is an hour ahead made the bucket. Terms are revisions, so
// the one that makes it again by its own clock must begin above.
func TestBucketThatIsMadeAgainBeginsAboveWhatWasSeen(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	js, ctx := natslab.JetStream(t, nc), natslab.Within(t)
	ahead := func(d time.Duration) uint64 { return uint64(time.Now().Add(d).UnixMicro()) }
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		AllowDirect: true, DenyDelete: true, FirstSeq: ahead(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	st := open(t, nc, "b", natsstore.Options{Create: &natsstore.BucketConfig{}})
	seen := make(chan store.Entry, 16)
	stop, err := st.Watch(ctx, []string{"g"}, func(e store.Entry) { seen <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	before := must(t, st, store.Write{Key: "g"})
	for e := range seen {
		if e.Revision == before {
			break
		}
	}
	if err := js.DeleteStream(ctx, "KV_b"); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "the bucket made again", func(ctx context.Context) error {
		_, err := st.Check(ctx, store.CheckRequest{})
		return err
	})
	if after := must(t, st, store.Write{Key: "g"}); after <= before || after > ahead(2*time.Hour) {
		t.Errorf("revision %d, after %d in the bucket that was deleted", after, before)
	}
}

func TestBucketHasAsManyReplicasAsTheClusterAllows(t *testing.T) {
	t.Parallel()
	demand := func(t *testing.T, nc *nats.Conn, cfg natsstore.BucketConfig, want int) {
		t.Helper()
		ensure(t, nc, cfg)
		s, err := natslab.JetStream(t, nc).Stream(natslab.Within(t), "KV_"+cfg.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		if n := s.CachedInfo().Config.Replicas; n != want {
			t.Errorf("%d replicas, want %d", n, want)
		}
	}
	t.Run("Alone", func(t *testing.T) {
		nc := natslab.Start(t).Connect(t)
		demand(t, nc, natsstore.BucketConfig{Bucket: "b"}, 1)
		err := natsstore.EnsureBucket(natslab.Within(t), natslab.JetStream(t, nc), natsstore.BucketConfig{Bucket: "asked", Replicas: 3})
		if err == nil {
			t.Error("one server keeps three replicas")
		}
	})
	t.Run("ClusterOfThree", func(t *testing.T) {
		nc := natslab.StartCluster(t, 3).Connect(t)
		demand(t, nc, natsstore.BucketConfig{Bucket: "b"}, 3)
		demand(t, nc, natsstore.BucketConfig{Bucket: "asked", Replicas: 1}, 1)
	})
	// Two servers that were started while the third was away answer as these do,
	// which have never had one.
	t.Run("ClusterOfTwoThatAThirdJoins", func(t *testing.T) {
		c := natslab.StartCluster(t, 2)
		nc := c.Connect(t)
		js := natslab.JetStream(t, nc)
		lacking := refusals(t, nc, "KV_b", 10005)

		impatient, cancel := context.WithCancel(natslab.Within(t))
		go func() { <-lacking; <-lacking; cancel() }() // the first answer has come when the second is refused
		trial.Outcome(t, natsstore.EnsureBucket(impatient, js, natsstore.BucketConfig{Bucket: "b"}), store.Transient, "3 servers", "Replicas")

		go func() { <-lacking; c.Join() }()
		demand(t, nc, natsstore.BucketConfig{Bucket: "b"}, 3)
	})
}

// refusals reports requests to make the stream that the server refuses with the
// code.
func refusals(t *testing.T, nc *nats.Conn, stream string, code jetstream.ErrorCode) <-chan struct{} {
	t.Helper()
	refused := make(chan struct{})
	audit, err := nc.Subscribe("$JS.EVENT.ADVISORY.API", func(m *nats.Msg) {
		var e struct{ Subject, Response string }
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Error(err)
			return
		}
		if strings.HasSuffix(e.Subject, ".STREAM.CREATE."+stream) && strings.Contains(e.Response, fmt.Sprintf(`"err_code":%d`, code)) {
			select {
			case refused <- struct{}{}:
			default: // nobody waits for it
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = audit.Unsubscribe() })
	if err := nc.FlushTimeout(natslab.Patience); err != nil {
		t.Fatal(err)
	}
	return refused
}

func TestKeyValueToolsReadOurBucket(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, nc, "b", natsstore.Options{})
	kv, err := natslab.JetStream(t, nc).KeyValue(natslab.Within(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	w, err := kv.Watch(natslab.Within(t), "g")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop() }()
	next := func() jetstream.KeyValueEntry {
		for e := range w.Updates() {
			if e != nil {
				return e
			}
		}
		return nil
	}
	rev := must(t, s, store.Write{Key: "g", Value: []byte("held")})
	if e := next(); string(e.Value()) != "held" || e.Revision() != rev {
		t.Errorf("watched %q at %d", e.Value(), e.Revision())
	}
	if keys, err := kv.Keys(natslab.Within(t)); err != nil || !slices.Equal(keys, []string{"g"}) {
		t.Errorf("keys %q, %v", keys, err)
	}
	rev = must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte("vacant"), Tombstone: true})
	if e := next(); string(e.Value()) != "vacant" || e.Operation() != jetstream.KeyValueDelete {
		t.Errorf("watched %q, %v", e.Value(), e.Operation())
	}
	if _, err := kv.Get(natslab.Within(t), "g"); err == nil {
		t.Error("a vacancy reads as a key")
	}
	if _, err := kv.Keys(natslab.Within(t)); !errors.Is(err, jetstream.ErrNoKeysFound) {
		t.Errorf("keys of a vacancy: %v", err)
	}
	// The operator's bare deletion works, and its empty value distinguishes it
	// from a vacancy.
	must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte("held")})
	if err := kv.Delete(natslab.Within(t), "g"); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(natslab.Within(t), "g"); err != nil || !e.Tombstone || len(e.Value) != 0 {
		t.Errorf("after a bare deletion: %+v, %v", e, err)
	}
}

// Attack: a candidate that may write only its own key erases all of the bucket.
func TestOurBucketRefusesToForget(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", []string{"$KV.b.mine"}, []string{"_INBOX.>"})))
	admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
	ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, admin, "b", natsstore.Options{})
	rev := must(t, s, store.Write{Key: "theirs", Value: []byte("held")})
	mine := must(t, s, store.Write{Key: "mine", Value: []byte("held")})

	candidate := natslab.JetStream(t, srv.Connect(t, nats.UserInfo("c", "c")))
	for _, rollup := range []string{"all", "sub"} {
		m := nats.NewMsg("$KV.b.mine")
		m.Header.Set("Nats-Rollup", rollup)
		if _, err := candidate.PublishMsg(natslab.Within(t), m); err == nil {
			t.Errorf("rollup %q accepted", rollup)
		}
	}
	kv, err := natslab.JetStream(t, admin).KeyValue(natslab.Within(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(natslab.Within(t), "theirs"); err == nil {
		t.Error("purge of a key accepted")
	}
	stream, err := natslab.JetStream(t, admin).Stream(natslab.Within(t), "KV_b")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(natslab.Within(t)); err == nil {
		t.Error("purge of the bucket accepted")
	}
	if err := stream.DeleteMsg(natslab.Within(t), rev); err == nil {
		t.Error("deletion of a message accepted")
	}
	for key, want := range map[string]uint64{"theirs": rev, "mine": mine} {
		if e, err := s.Get(natslab.Within(t), key); err != nil || e.Revision != want {
			t.Errorf("key %s is at %d, want %d (%v)", key, e.Revision, want, err)
		}
	}
}

// The server puts its own headers after the writer's headers, which may be
// forged. No candidate writes a sequence, so a value with its own sequence is
// not a record.
func TestForgedSequenceIsNotBelieved(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, nc, "b", natsstore.Options{})
	h := listen(t, s, "g")
	h.revision(0)
	m := nats.NewMsg("$KV.b.g")
	m.Data = []byte("forged")
	m.Header.Set("Nats-Sequence", "9000000000000000000")
	m.Header.Set("Status", "404")
	ack, err := natslab.JetStream(t, nc).PublishMsg(natslab.Within(t), m)
	if err != nil {
		t.Fatal(err)
	}
	h.revision(ack.Sequence)
	if e, err := s.Get(natslab.Within(t), "g"); err != nil || e.Revision != ack.Sequence || len(e.Value) > 0 {
		t.Errorf("read %+v, want nothing at revision %d (%v)", e, ack.Sequence, err)
	}
}

func TestExpiryByTheServerReadsAsATombstoneOrUnknown(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	for _, marker := range []time.Duration{0, time.Minute} {
		bucket := newBucket()
		natslab.KV(t, nc, jetstream.KeyValueConfig{Bucket: bucket, TTL: time.Second, LimitMarkerTTL: marker})
		s := open(t, nc, bucket, natsstore.Options{})
		rev := must(t, s, store.Write{Key: "g", Value: []byte("held")})
		if marker > 0 {
			// A watch that starts late may find the record gone already.
			listen(t, s, "g").until("the marker", func(e store.Entry) bool { return e.Tombstone && e.Revision > rev && len(e.Value) == 0 })
			continue
		}
		natslab.Eventually(t, "expired", func(ctx context.Context) error {
			e, err := s.Get(ctx, "g")
			if err == nil && e.Revision != 0 {
				err = context.DeadlineExceeded
			}
			return err
		})
	}
}

// A bucket that refuses direct gets is read by another request.
func TestBucketWithoutDirectGetsWorks(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	_, err := natslab.JetStream(t, nc).CreateStream(natslab.Within(t), jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, nc, "b", natsstore.Options{})
	if e, err := s.Get(natslab.Within(t), "g"); err != nil || e.Revision != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	h := listen(t, s, "g")
	h.revision(0)
	rev := must(t, s, store.Write{Key: "g", Value: []byte("vacant"), Tombstone: true})
	h.revision(rev)
	if e, err := s.Get(natslab.Within(t), "g"); err != nil || e.Revision != rev || !e.Tombstone || string(e.Value) != "vacant" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	nc := natslab.Start(t).Connect(t)
	js := natslab.JetStream(t, nc)
	origin := newBucket()
	natslab.KV(t, nc, foreign(origin))
	for _, c := range []struct {
		name      string
		alter     func(*jetstream.StreamConfig)
		refused   string // part of the error; empty: accepted
		warnings  []string
		forgetful bool
		expires   bool
	}{
		{name: "fine", alter: func(*jetstream.StreamConfig) {}},
		{name: "history of 64", alter: func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 64 }},
		{name: "compression", alter: func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression }},
		{name: "message TTLs and atomic batches allowed", alter: func(c *jetstream.StreamConfig) { c.AllowMsgTTL, c.AllowAtomicPublish = true, true }},
		{name: "short TTL", alter: func(c *jetstream.StreamConfig) { c.MaxAge = ttl - time.Second }, refused: "before a lease"},
		{name: "TTL", alter: func(c *jetstream.StreamConfig) { c.MaxAge = ttl }, warnings: []string{"wall clock", "no markers"}, expires: true},
		{name: "TTL with markers", alter: func(c *jetstream.StreamConfig) {
			c.MaxAge, c.SubjectDeleteMarkerTTL, c.AllowMsgTTL, c.AllowRollup, c.DenyPurge = ttl, time.Minute, true, true, false
		}, warnings: []string{"wall clock", "Nats-Rollup"}, expires: true},
		{name: "memory", alter: func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, warnings: []string{"memory"}, forgetful: true},
		{name: "memory and TTL", alter: func(c *jetstream.StreamConfig) { c.Storage, c.MaxAge = jetstream.MemoryStorage, ttl }, warnings: []string{"wall clock", "no markers", "memory"}, forgetful: true, expires: true},
		{name: "asynchronous", alter: func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, warnings: []string{"persist_mode"}, forgetful: true},
		{name: "rollups", alter: func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = true, false }, warnings: []string{"Nats-Rollup"}},
		{name: "deletions", alter: func(c *jetstream.StreamConfig) { c.DenyDelete = false }, warnings: []string{"deny_delete"}},
		{name: "no direct gets", alter: func(c *jetstream.StreamConfig) { c.AllowDirect = false }, warnings: []string{"STREAM.MSG.GET"}},
		{name: "drops the oldest", alter: func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 }, warnings: []string{"oldest"}, expires: true},
		{name: "size limit", alter: func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, warnings: []string{"size limit"}},
		{name: "tiny", alter: func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 10 }, refused: "at most 1024 bytes"},
		{name: "small messages", alter: func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 10 }, refused: "messages of at most 1024"},
		{name: "no acknowledgements", alter: func(c *jetstream.StreamConfig) { c.NoAck = true }, refused: "no_ack"},
		{name: "work queue", alter: func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, refused: "retention"},
		{name: "refuses replacement", alter: func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true }, refused: "discard_new_per_subject"},
		{name: "other subjects", alter: func(c *jetstream.StreamConfig) { c.Subjects = []string{c.Name + ".>"} }, refused: "not a key-value bucket"},
		{name: "mirror", alter: func(c *jetstream.StreamConfig) {
			c.Subjects, c.Mirror = nil, &jetstream.StreamSource{Name: "KV_" + origin}
		}, refused: "mirrors"},
		{name: "sources", alter: func(c *jetstream.StreamConfig) {
			c.Sources = []*jetstream.StreamSource{{Name: "KV_" + origin}}
		}, refused: "sources"},
		{name: "two faults", alter: func(c *jetstream.StreamConfig) { c.NoAck, c.MaxAge = true, time.Second }, refused: "no_ack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bucket := newBucket()
			cfg := jetstream.StreamConfig{
				Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1,
				Discard: jetstream.DiscardNew, AllowDirect: true, DenyDelete: true, DenyPurge: true,
			}
			c.alter(&cfg)
			if _, err := js.CreateStream(natslab.Within(t), cfg); err != nil {
				t.Fatal(err)
			}
			r, err := open(t, nc, bucket, natsstore.Options{}).Check(natslab.Within(t), store.CheckRequest{TTL: ttl})
			if c.refused != "" {
				trial.Outcome(t, err, store.Permanent, c.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Forgetful != c.forgetful || r.Expires != c.expires {
				t.Errorf("forgetful %v, want %v; expires %v, want %v", r.Forgetful, c.forgetful, r.Expires, c.expires)
			}
			if len(r.Warnings) != len(c.warnings) {
				t.Errorf("warnings %q, want %q", r.Warnings, c.warnings)
			}
			for i, w := range r.Warnings {
				if i < len(c.warnings) && !strings.Contains(w, c.warnings[i]) {
					t.Errorf("warning %q, want one with %q", w, c.warnings[i])
				}
			}
		})
	}
}

func TestCheckWarnsOfFewReplicasInACluster(t *testing.T) {
	t.Parallel()
	nc := natslab.StartCluster(t, 3).Connect(t)
	for replicas, want := range map[int]string{1: "one replica", 2: "two replicas"} {
		bucket := newBucket()
		ensure(t, nc, natsstore.BucketConfig{Bucket: bucket, Replicas: replicas})
		r, err := open(t, nc, bucket, natsstore.Options{}).Check(natslab.Within(t), store.CheckRequest{TTL: time.Second})
		if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], want) ||
			!strings.Contains(r.Warnings[0], "nats stream edit KV_"+bucket+" --replicas 3") {
			t.Errorf("%d replicas: %+v, %v", replicas, r, err)
		}
	}
}

func TestCheckWithoutPermissionWarns(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.User("c", []string{"$KV.b.g"}, []string{"_INBOX.>"})))
	s := open(t, srv.Connect(t, nats.UserInfo("c", "c")), "b", natsstore.Options{})
	r, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second})
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "$JS.API.STREAM.INFO.KV_b") {
		t.Errorf("%+v, %v", r, err)
	}
}

// A bucket's age counts from its latest creation, by the servers' clock: a
// bucket that was deleted and made again is new, whichever client makes it and
// however old its name.
func TestBucketMadeAgainIsNew(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, nc, "b", natsstore.Options{})
	age := func() time.Duration {
		t.Helper()
		r, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if r.Age <= 0 {
			t.Fatalf("age %v", r.Age)
		}
		return r.Age
	}
	first := age()
	natslab.Eventually(t, "the bucket ages", func(context.Context) error {
		if now := age(); now < first+50*time.Millisecond {
			return fmt.Errorf("age %v after %v", now, first)
		}
		return nil
	})
	old, begun := age(), time.Now()
	if err := natslab.JetStream(t, nc).DeleteStream(natslab.Within(t), "KV_b"); err != nil {
		t.Fatal(err)
	}
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	// The servers' clock is ours here, so that it can have aged by what has
	// passed since, and by no more.
	if again, most := age(), time.Since(begun); again > most {
		t.Errorf("age %v, was %v; made %v ago", again, old, most)
	}
}

// A candidate asks for the bucket's age after its claim. Another election of its
// process may have asked just before, and its answer be still under way.
func TestAgeAskedForIsOfAQuestionThatFollows(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	// Answers travel through a relay, which keeps the first one.
	asked, release := make(chan struct{}), make(chan struct{})
	first := true
	relay, err := nc.Subscribe("relay.STREAM.INFO.KV_b", func(m *nats.Msg) {
		answer, err := nc.Request("$JS.API.STREAM.INFO.KV_b", m.Data, natslab.Patience)
		if err != nil {
			t.Error(err)
			return
		}
		if first {
			first = false
			close(asked)
			<-release
		}
		if err := m.Respond(answer.Data); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = relay.Unsubscribe() }()
	s := open(t, nc, "b", natsstore.Options{APIPrefix: "relay"})
	var before store.Report
	var early sync.WaitGroup
	early.Go(func() {
		r, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second})
		if err != nil {
			t.Error(err)
		}
		before = r
	})
	<-asked
	made := time.Now()
	if err := natslab.JetStream(t, nc).DeleteStream(natslab.Within(t), "KV_b"); err != nil {
		t.Fatal(err)
	}
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	must(t, open(t, nc, "b", natsstore.Options{}), store.Write{Key: "g"}) // the claim
	waits := &awaited{Context: natslab.Within(t), waits: make(chan struct{})}
	go func() { <-waits.waits; close(release) }()
	after, err := s.Check(waits, store.CheckRequest{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	early.Wait()
	if after.Age == before.Age || after.Age > time.Since(made) {
		t.Errorf("age %v, and before it was made again %v; made %v ago", after.Age, before.Age, time.Since(made))
	}
}

// An awaited context reports when a caller begins to wait for its end.
type awaited struct {
	context.Context //nolint:containedctx // it is one itself

	waits chan struct{}
	once  sync.Once
}

func (a *awaited) Done() <-chan struct{} {
	a.once.Do(func() { close(a.waits) })
	return a.Context.Done()
}
