package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// mirror makes a mirror of the bucket, and waits until it answers reads of the
// bucket: of a key that must be there.
func mirror(t *testing.T, nc *nats.Conn, name, bucket, key string, maxAge time.Duration) {
	t.Helper()
	js := natslab.JetStream(t, nc)
	s, err := js.CreateStream(natslab.Within(t), jetstream.StreamConfig{
		Name: name, Mirror: &jetstream.StreamSource{Name: "KV_" + bucket}, MaxAge: maxAge,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !s.CachedInfo().Config.MirrorDirect {
		t.Error("the server no longer has mirrors answer unasked")
	}
	natslab.Eventually(t, "the mirror answers", func(ctx context.Context) error {
		m, err := nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET.KV_"+bucket+".$KV."+bucket+"."+key, nil)
		if err == nil && m.Header.Get("Nats-Stream") != name {
			err = errors.New("the bucket did")
		}
		return err
	})
}

// emptied waits until the mirror has dropped what it held.
func emptied(t *testing.T, nc *nats.Conn, name string) {
	t.Helper()
	natslab.Eventually(t, "the mirror is empty", func(ctx context.Context) error {
		s, err := natslab.JetStream(t, nc).Stream(ctx, name)
		if err == nil && s.CachedInfo().State.Msgs > 0 {
			err = fmt.Errorf("%d messages", s.CachedInfo().State.Msgs)
		}
		return err
	})
}

// A mirror with an age drops the records that the bucket keeps, and a read
// without a result does not name the stream that answered.
func TestMirrorThatDroppedARecordIsIgnored(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	rev := must(t, open(t, nc, "b", natsstore.Options{}), store.Write{Key: "g", Value: []byte("held")})
	mirror(t, nc, "m", "b", "g", time.Second)
	emptied(t, nc, "m")
	s := open(t, nc, "b", natsstore.Options{})
	for range 50 {
		if e, err := s.Get(natslab.Within(t), "g"); err != nil || e.Revision != rev {
			t.Fatalf("Get: %+v, %v; want revision %d", e, err, rev)
		}
	}
	for range 50 {
		first := make(chan uint64, 64)
		stop, err := s.Watch(t.Context(), []string{"g"}, func(e store.Entry) { first <- e.Revision })
		if err != nil {
			t.Fatal(err)
		}
		if got := <-first; got != rev {
			t.Errorf("the watch begins with revision %d, want %d", got, rev)
		}
		stop()
	}
	for _, pattern := range []string{">", "g"} {
		for range 25 {
			var shown []string
			present := make(chan []string, 64)
			stop, err := s.WatchPattern(t.Context(), pattern, func(e store.Entry) { shown = append(shown, e.Key) }, func(error) { present <- slices.Clone(shown) })
			if err != nil {
				t.Fatal(err)
			}
			if got := <-present; !slices.Equal(got, []string{"g"}) {
				t.Errorf("the pattern %s begins with %q", pattern, got)
			}
			stop()
		}
	}
	for range 50 {
		if at, revision, err := s.StoredAt(natslab.Within(t), "g"); err != nil || revision != rev || at.IsZero() {
			t.Fatalf("StoredAt: %v, revision %d, %v; want revision %d", at, revision, err, rev)
		}
	}
	// A missing key is still reported as missing.
	if e, err := s.Get(natslab.Within(t), "none"); err != nil || e.Revision != 0 {
		t.Errorf("a key that was never written: %+v, %v", e, err)
	}
}

// A mirror whose origin it does not hear of has records of any age.
func TestRecordOfAMirrorIsIgnored(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, nc, "b", natsstore.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, s, store.Write{Key: "g", Value: []byte("held")})
	mirror(t, nc, "m", "b", "g", 0)
	for range 50 {
		if _, err := s.Get(natslab.Within(t), "g"); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second, Key: "g"})
	if said := strings.Join(r.Warnings, "\n"); err != nil || !strings.Contains(said, "Stream m mirrors bucket") || !strings.Contains(said, "nats stream add m --source KV_b") {
		t.Errorf("Check: %+v, %v", r, err)
	}
}

// Where the bucket is behind a gateway and the mirror is not, the server asks
// the mirror alone. A relay replaces the gateway.
func TestBucketThatNeverAnswersItselfIsRefused(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	must(t, open(t, nc, "b", natsstore.Options{}), store.Write{Key: "g", Value: []byte("held")})
	mirror(t, nc, "m", "b", "g", 0)
	near(t, nc, func(to, answer *nats.Msg) *nats.Msg {
		for answer.Header.Get("Nats-Stream") == "KV_b" {
			again, err := nc.RequestMsg(to, natslab.Patience)
			if err != nil {
				t.Error(err)
				return answer
			}
			answer = again
		}
		return answer
	})
	s := open(t, nc, "b", natsstore.Options{APIPrefix: "near", Logger: slog.New(slog.DiscardHandler)})
	_, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second, Key: "g"})
	trial.Outcome(t, err, store.Permanent, "never answers", "nats stream rm m", "--source KV_b")
	if _, err := s.Get(natslab.Within(t), "g"); store.Classify(err) != store.Transient {
		t.Errorf("Get: %v", err)
	}
	if at, revision, err := s.StoredAt(natslab.Within(t), "g"); store.Classify(err) != store.Transient {
		t.Errorf("StoredAt: %v, revision %d, %v", at, revision, err)
	}
}

// near relays what is asked under the prefix near, as a gateway does, and has
// choose replace the server's answers.
func near(t *testing.T, nc *nats.Conn, choose func(to, answer *nats.Msg) *nats.Msg) {
	t.Helper()
	relay, err := nc.Subscribe("near.>", func(m *nats.Msg) {
		to := nats.NewMsg(strings.TrimPrefix(m.Subject, "near."))
		if !strings.HasPrefix(to.Subject, "$KV.") {
			to.Subject = "$JS.API." + to.Subject
		}
		to.Header, to.Data = m.Header, m.Data
		answer, err := nc.RequestMsg(to, natslab.Patience)
		if err != nil {
			t.Error(err)
			return
		}
		// A copy: the one that lags is shown more than once.
		shown := choose(to, answer)
		_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: shown.Header, Data: shown.Data})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Unsubscribe() })
}

// A replica of the bucket itself lags for many reads: it shows the record as it
// was before the pause. The refusal of a write that is tried at the start names
// the revision that a read must show.
func TestReplicaThatLagsDoesNotHideWhatARefusalNames(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	root := open(t, nc, "b", natsstore.Options{})
	running := must(t, root, store.Write{Key: "_ctl.g", Value: []byte("running")})
	old, err := nc.Request("$JS.API.DIRECT.GET.KV_b.$KV.b._ctl.g", nil, natslab.Patience)
	if err != nil {
		t.Fatal(err)
	}
	must(t, root, store.Write{Key: "g", Value: []byte("vacant"), Tombstone: true})
	paused := must(t, root, store.Write{Key: "_ctl.g", Expected: running, Value: []byte("paused")})
	var late atomic.Int32
	near(t, nc, func(to, answer *nats.Msg) *nats.Msg {
		if to.Subject == "$JS.API.DIRECT.GET.KV_b.$KV.b._ctl.g" && late.Add(-1) >= 0 {
			return old
		}
		return answer
	})
	s := open(t, nc, "b", natsstore.Options{APIPrefix: "near"})
	late.Store(1)
	if _, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second, Key: "g", Reads: []string{"_ctl.g"}}); err != nil {
		t.Fatal(err)
	}
	late.Store(5)
	if first := listen(t, s, "_ctl.g").until("the first state", func(store.Entry) bool { return true }); first.Revision != paused {
		t.Errorf("the watch begins with revision %d, want %d", first.Revision, paused)
	}
	late.Store(5)
	if e, err := s.Get(natslab.Within(t), "_ctl.g"); err != nil || e.Revision != paused {
		t.Errorf("Get: %+v, %v; want revision %d", e, err, paused)
	}
}
