package natsstore_test

import (
	"context"
	"crypto/rand"
	"errors"
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

// brief is a deadline for calls that are meant to miss it.
func brief(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 300*time.Millisecond)
	tb.Cleanup(cancel)
	return ctx
}

func TestArgumentsAreCheckedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		_, err := natsstore.New(nil, "a bucket", natsstore.Options{Domain: "d", APIPrefix: "p", Timeout: -1})
		if err == nil {
			t.Fatal("accepted")
		}
		for _, part := range []string{"connection", "a bucket", "Domain", "Timeout"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("no mention of %s: %v", part, err)
			}
		}
		nc := natslab.Start(t).Connect(t)
		s := open(t, nc, "missing", natsstore.Options{})
		_, err = write(t, s).CompareAndSwap(natslab.Within(t), store.Write{Key: "a..b"})
		trial.Outcome(t, err, store.Permanent)
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("not ErrInvalid: %v", err)
		}
		_, err = write(t, s).CompareAndSwap(natslab.Within(t), store.Write{Key: "a", Value: make([]byte, nc.MaxPayload()+1)})
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("not ErrInvalid: %v", err)
		}
		_, _, err = s.StoredAt(natslab.Within(t), "a.>")
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("not ErrInvalid: %v", err)
		}
		_, err = s.Watch(natslab.Within(t), []string{"*"}, func(store.Entry) {})
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("not ErrInvalid: %v", err)
		}
	})
}

func TestMissingBucketIsPermanentAndNamesTheRemedy(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		s := open(t, natslab.Start(t).Connect(t), "missing", natsstore.Options{})
		_, err := write(t, s).CompareAndSwap(natslab.Within(t), store.Write{Key: "g"})
		trial.Outcome(t, err, store.Permanent, "leader bucket create --bucket missing", "BucketAutoCreate")
		_, err = s.Get(natslab.Within(t), "g")
		trial.Outcome(t, err, store.Permanent, "leader bucket create --bucket missing")
		_, err = s.Watch(natslab.Within(t), []string{"g"}, func(store.Entry) {})
		trial.Outcome(t, err, store.Permanent, "leader bucket create --bucket missing")
		_, err = s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second})
		trial.Outcome(t, err, store.Permanent, "leader bucket create --bucket missing")
	})
}

func TestMissingBucketIsMadeIfTheOptionsAllowIt(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	s := open(t, nc, "auto", natsstore.Options{Create: &natsstore.BucketConfig{}})
	r, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second})
	if err != nil || len(r.Warnings) > 0 || r.Forgetful {
		t.Fatalf("report %+v, %v", r, err)
	}
	rev := must(t, s, store.Write{Key: "g", Value: []byte("v")})
	if err := natslab.JetStream(t, nc).DeleteKeyValue(natslab.Within(t), "auto"); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "the bucket is made", func(ctx context.Context) error {
		_, err := s.CompareAndSwap(ctx, store.Write{Key: "g", Expected: rev, Value: []byte("w")})
		trial.Outcome(t, err, store.Transient)
		if !strings.Contains(err.Error(), "has been made") {
			return err // the server may still be removing the files of the first
		}
		return nil
	})
	must(t, s, store.Write{Key: "g", Value: []byte("w")})
}

// Every refusal comes from a real server; each leaves the register as it was.
func TestRefusalsAreClassified(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		srv := natslab.Start(t)
		nc := srv.Connect(t)
		js := natslab.JetStream(t, nc)
		for _, c := range []struct {
			name  string
			alter func(*jetstream.StreamConfig)
			write store.Write
			want  store.Outcome
		}{
			{"wrong revision", nil, store.Write{Key: "g", Expected: 7}, store.Conflict},
			{"too large for the stream", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 }, store.Write{Key: "g", Value: make([]byte, 200)}, store.Permanent},
			{"full by bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = 300 }, store.Write{Key: "g", Value: make([]byte, 290)}, store.Permanent},
			{"sealed", func(c *jetstream.StreamConfig) { c.Sealed = true }, store.Write{Key: "g"}, store.Permanent},
			{"subject of no stream", func(c *jetstream.StreamConfig) { c.Subjects = []string{"elsewhere.>"} }, store.Write{Key: "g"}, store.Permanent},
		} {
			t.Run(c.name, func(t *testing.T) {
				bucket := newBucket()
				cfg := jetstream.StreamConfig{
					Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1,
					Discard: jetstream.DiscardNew, AllowDirect: true, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1,
				}
				sealed := false
				if c.alter != nil {
					c.alter(&cfg)
					sealed, cfg.Sealed = cfg.Sealed, false
					if cfg.Subjects[0] == "elsewhere.>" {
						cfg.Subjects[0] = "elsewhere." + bucket
					}
				}
				if _, err := js.CreateStream(natslab.Within(t), cfg); err != nil {
					t.Fatal(err)
				}
				if sealed {
					cfg.Sealed = true
					if _, err := js.UpdateStream(natslab.Within(t), cfg); err != nil {
						t.Fatal(err)
					}
				}
				s := open(t, nc, bucket, natsstore.Options{})
				_, err := write(t, s).CompareAndSwap(natslab.Within(t), c.write)
				trial.Outcome(t, err, c.want)
				if e, err := s.Get(natslab.Within(t), "g"); err != nil || e.Revision != 0 {
					t.Errorf("the register is at %d after a refusal (%v)", e.Revision, err)
				}
			})
		}
	})
}

func TestClosedConnectionIsPermanent(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, nc, "b", natsstore.Options{})
	unwaited := newUnwaited(t, s)
	states := make(chan store.ConnState, 10)
	stop := s.OnConnState(func(c store.ConnState) { states <- c })
	t.Cleanup(stop)
	nc.Close()
	_, err := s.CompareAndSwap(natslab.Within(t), store.Write{Key: "g"})
	trial.Outcome(t, err, store.Permanent)
	_, err = unwaited.CompareAndSwap(natslab.Within(t), store.Write{Key: "g"})
	trial.Outcome(t, err, store.Permanent)
	if !errors.Is(err, store.ErrClosed) {
		t.Errorf("not ErrClosed: %v", err)
	}
	_, err = s.Get(natslab.Within(t), "g")
	trial.Outcome(t, err, store.Permanent)
	_, err = s.Watch(natslab.Within(t), []string{"g"}, func(store.Entry) {})
	trial.Outcome(t, err, store.Permanent)
	for st := range states {
		if st == store.Closed {
			break
		}
	}
	if st := s.ConnState(); st != store.Closed {
		t.Errorf("state %v", st)
	}
}

// On a replicated stream, concurrent writes to a key are answered 10164 while
// one is in flight.
func TestWriteInFlightAloneCausesNoConflict(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		cluster := natslab.StartCluster(t, 3)
		nc := cluster.Connect(t)
		ensure(t, nc, natsstore.BucketConfig{Bucket: "b", Replicas: 3})
		s := open(t, nc, "b", natsstore.Options{})
		rev := trial.Settle(t, s, "g", 0, "0")
		elected, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.KV_b")
		if err != nil {
			t.Fatal(err)
		}
		// news is how often a leader of the stream was elected since it was asked.
		news := func() (n int) {
			for {
				if _, err := elected.NextMsg(time.Millisecond); err != nil {
					return n
				}
				n++
			}
		}
		for rounds := 0; rounds < 20; rounds++ {
			var wg sync.WaitGroup
			outcomes := make([]store.Outcome, 16)
			revs := make([]uint64, len(outcomes))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			for i := range outcomes {
				wg.Go(func() {
					var err error
					revs[i], err = write(t, s).CompareAndSwap(ctx, store.Write{Key: "g", Expected: rev, Value: []byte("v")})
					outcomes[i] = store.Classify(err)
				})
			}
			wg.Wait()
			late := ctx.Err() != nil
			cancel()
			// On a busy machine the stream changes its leader, and what was in
			// flight is never answered.
			if n := news(); late && n > 0 {
				rounds--
				rev = trial.Settle(t, s, "g", rev, rand.Text())
				continue
			}
			won := 0
			for i, o := range outcomes {
				switch o {
				case store.OK:
					won++
					rev = revs[i]
				case store.Conflict:
				default:
					t.Errorf("outcome %v of a race", o)
				}
			}
			if won != 1 {
				t.Fatalf("%d writers won", won)
			}
		}
	})
}

func TestInFlightRefusalsEndAsTransient(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		srv := natslab.Start(t)
		nc := srv.Connect(t)
		// A responder in the stream's place answers as a stream leader does
		// that is cut off from its peers.
		sub, err := nc.Subscribe("$KV.b.g", func(m *nats.Msg) {
			_ = m.Respond([]byte(`{"stream":"KV_b","error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`))
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		s := open(t, nc, "b", natsstore.Options{})
		natslab.Eventually(t, "the deadline comes between two refusals", func(context.Context) error {
			_, err := write(t, s).CompareAndSwap(brief(t), store.Write{Key: "g"})
			if errors.Is(err, store.ErrUnknown) {
				return err // it came before an answer
			}
			trial.Outcome(t, err, store.Transient)
			return nil
		})
	})
}

// The permissions of the package's documentation, each taken away in turn.
func TestPermissions(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		const replies = "_INBOX_c.>"
		base := []string{"$KV.b.g", "$JS.API.STREAM.INFO.KV_b", "$JS.API.DIRECT.GET.KV_b.$KV.b.g"}
		consumer := "$JS.API.CONSUMER.CREATE.KV_b.*.$KV.b.g"
		without := func(all []string, s string) (rest []string) {
			for _, x := range all {
				if x != s {
					rest = append(rest, x)
				}
			}
			return rest
		}
		type result struct{ get, cas, watch store.Outcome }
		ok := result{store.OK, store.OK, store.OK}
		for _, c := range []struct {
			name               string
			foreign            bool
			publish, subscribe []string
			opts               natsstore.Options
			want               result
		}{
			{"all, republished", false, base, []string{replies, "leader.b.g"}, natsstore.Options{}, ok},
			{"all, consumer", true, append([]string{consumer}, base...), []string{replies}, natsstore.Options{}, ok},
			{"no write", false, base[1:], []string{replies, "leader.b.g"}, natsstore.Options{},
				result{store.OK, store.Permanent, store.OK}},
			{"no info, republished named", false, without(base, base[1]), []string{replies, "leader.b.g"}, natsstore.Options{Republished: "leader.b."}, ok},
			{"no info, consumer", true, append([]string{consumer}, without(base, base[1])...), []string{replies}, natsstore.Options{}, ok},
			{"no read, republished", false, base[:2], []string{replies, "leader.b.g"}, natsstore.Options{},
				result{store.Permanent, store.OK, store.OK}},
			{"no read, consumer", true, append([]string{consumer}, base[:2]...), []string{replies}, natsstore.Options{},
				result{store.Permanent, store.OK, store.Permanent}},
			{"no consumer", true, base, []string{replies}, natsstore.Options{},
				result{store.OK, store.OK, store.Permanent}},
			{"no republished subject", false, base, []string{replies}, natsstore.Options{},
				result{store.OK, store.OK, store.Permanent}},
			// The write itself is allowed, and lands: no error may claim that
			// it did not.
			{"no replies", false, base, []string{"leader.b.g"}, natsstore.Options{},
				result{store.Permanent, store.Unknown, store.Permanent}},
			{"observer", false, []string{"nothing"}, []string{"leader.b.g", replies}, natsstore.Options{Republished: "leader.b."},
				result{store.Permanent, store.Permanent, store.OK}},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", c.publish, c.subscribe)))
				admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
				if c.foreign {
					natslab.KV(t, admin, foreign("b"))
				} else {
					ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
				}
				c.opts.Timeout = 2 * time.Second
				s := open(t, srv.Connect(t, nats.UserInfo("c", "c"), nats.CustomInboxPrefix("_INBOX_c")), "b", c.opts)
				var got result
				e, err := s.Get(t.Context(), "g")
				got.get = store.Classify(err)
				t.Log("get:", err)
				_, err = write(t, s).CompareAndSwap(t.Context(), store.Write{Key: "g", Expected: e.Revision, Value: []byte("v")})
				got.cas = store.Classify(err)
				t.Log("write:", err)
				entries := make(chan store.Entry, 100)
				stop, err := s.Watch(t.Context(), []string{"g"}, func(e store.Entry) { entries <- e })
				got.watch = store.Classify(err)
				t.Log("watch:", err)
				if got != c.want {
					t.Fatalf("got %v, want %v", got, c.want)
				}
				if got.watch != store.OK {
					return
				}
				t.Cleanup(stop)
				a := open(t, admin, "b", natsstore.Options{})
				e, err = a.Get(natslab.Within(t), "g")
				if err != nil {
					t.Fatal(err)
				}
				rev := must(t, a, store.Write{Key: "g", Expected: e.Revision, Value: []byte("by another")})
				for deadline := natslab.Within(t); e.Revision != rev; {
					select {
					case e = <-entries:
					case <-deadline.Done():
						t.Fatalf("revision %d was never heard", rev)
					}
				}
			})
		}
	})
}

// After the bucket was deleted, another stream may take its subjects in. It
// would store the record, acknowledge it, and never give it back.
func TestWriteThatAnotherStreamWouldTakeIsRefused(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		nc := natslab.Start(t).Connect(t)
		js := natslab.JetStream(t, nc)
		ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
		s := open(t, nc, "b", natsstore.Options{Create: &natsstore.BucketConfig{}})
		rev := must(t, s, store.Write{Key: "g", Value: []byte("held")})
		if err := js.DeleteKeyValue(natslab.Within(t), "b"); err != nil {
			t.Fatal(err)
		}
		other, err := js.CreateStream(natslab.Within(t), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"$KV.>"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, expected := range []uint64{0, rev} {
			_, err = write(t, s).CompareAndSwap(natslab.Within(t), store.Write{Key: "g", Expected: expected, Value: []byte("stray")})
			trial.Outcome(t, err, store.Permanent, "KV_b")
		}
		if info, err := other.Info(natslab.Within(t)); err != nil || info.State.Msgs != 0 {
			t.Errorf("the other stream stored %d messages (%v)", info.State.Msgs, err)
		}
	})
}
