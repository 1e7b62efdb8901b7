package natsstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestAStoreIsOpenedByItsURL(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ctx := natslab.Within(t)
	st, err := store.Open(ctx, srv.URL()+"/votes?create=true&replicas=1", natsstore.Driver())
	if err != nil {
		t.Fatal(err)
	}
	c, ok := st.(store.Checker) // which makes the bucket
	if !ok {
		t.Fatalf("%T cannot be checked", st)
	}
	if _, err := c.Check(ctx, store.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	rev, err := st.CompareAndSwap(ctx, store.Write{Key: "g", Value: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.Open(ctx, srv.URL()+"/votes", natsstore.Driver())
	if err != nil {
		t.Fatal(err)
	}
	if e, err := again.Get(ctx, "g"); err != nil || e.Revision != rev {
		t.Errorf("another client reads %+v, %v; want revision %d", e, err, rev)
	}
	for range 2 {
		if err := errors.Join(st.Close(), again.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.CompareAndSwap(ctx, store.Write{Key: "g", Expected: rev, Value: []byte("w")}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
}

func TestAURLThatOpensNothingIsRefused(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for path, want := range map[string]string{
		"":                        `path ""`,
		"/no.bucket":              `path "/no.bucket"`,
		"/b?colour=blue":          `"colour" is unknown`,
		"/b?create=perhaps":       `create="perhaps"`,
		"/b?domain=a&domain=b":    `domain: must be set once`,
		"/b?replicas=3":           `replicas=3: has no effect without create=true`,
		"/b?create=1&replicas=no": `replicas="no"`,
	} {
		_, err := store.Open(natslab.Within(t), srv.URL()+path, natsstore.Driver())
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", path, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Open(ctx, srv.URL()+"/b", natsstore.Driver()); store.Classify(err) != store.Transient {
		t.Errorf("under a cancelled context: %v", err)
	}
	srv.Stop()
	if _, err := store.Open(natslab.Within(t), srv.URL()+"/b", natsstore.Driver()); store.Classify(err) != store.Transient {
		t.Errorf("without a server: %v", err)
	}
}

// The error names the server that is away, and contains no password.
func TestErrorOfALostConnectionNamesTheServers(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect("nats://user:secret@127.0.0.1:1", nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	st, err := natsstore.New(nc, "b", natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	_, err = st.Get(t.Context(), "k")
	if store.Classify(err) != store.Transient || !strings.Contains(err.Error(), "no connection to nats://127.0.0.1:1:") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a read without a connection: %v", err)
	}
}
