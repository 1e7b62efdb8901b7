package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Nobody makes the bucket again: what waits for it is told what is missing,
// long before a lease or a context ends.
func TestWhoWaitsOnADeletedBucketIsTold(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	js := natslab.JetStream(t, nc)
	control, err := leader.NewControl(nc, "b", "operator")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(control.Close)
	for name, wait := range map[string]func(context.Context, *member) error{
		"ValidateToken": func(ctx context.Context, m *member) error { return m.ValidateToken(ctx) },
		"Do": func(ctx context.Context, m *member) error {
			return m.Do(ctx, func(context.Context) error { t.Error("done"); return nil })
		},
		"Resign": func(ctx context.Context, m *member) error { return m.Resign(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
			g := newGroup(t, "b")
			a := g.join(srv.Connect(t), "a", func(c *leader.ElectionConfig) {
				c.BucketAutoCreate, c.Fencing.ValidateOnCriticalOps, c.HeartbeatInterval = false, true, long/3
			})
			g.leader()
			remove(t, js)
			demandMissing(t, wait(natslab.Within(t), a))
		})
	}
	t.Run("Ask", func(t *testing.T) {
		ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
		asked := make(chan error, 1)
		go func() { // nobody stands, so that nobody takes over
			_, err := control.Resume(natslab.Within(t), "g")
			asked <- err
		}()
		// The request has been stored when it can be read.
		kv, err := js.KeyValue(natslab.Within(t), "b")
		if err != nil {
			t.Fatal(err)
		}
		natslab.Eventually(t, "the request is stored", func(ctx context.Context) error {
			_, err := kv.Get(ctx, "_ctl.g")
			if errors.Is(err, jetstream.ErrKeyDeleted) {
				return nil
			}
			return err
		})
		remove(t, js)
		demandMissing(t, await(t, asked))
	})
}

func remove(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if err := js.DeleteKeyValue(natslab.Within(t), "b"); err != nil {
		t.Fatal(err)
	}
}

func demandMissing(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrPermanent) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `bucket "b" does not exist`) {
		t.Error(err)
	}
}

// A call that is given up says what the store said meanwhile.
func TestWhoGivesUpIsToldWhatTheStoreSaid(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewProxy(t, srv.Addr())
	g := newGroup(t, "b")
	a := g.join(natslab.Connect(t, proxy.URL()), "a")
	g.leader()
	proxy.Cut()
	g.await("the connection is lost", func() bool { return a.Status().ConnectionStatus != "CONNECTED" })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := a.ValidateToken(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrTransient) {
		t.Error(err)
	}
}
