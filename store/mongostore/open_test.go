package mongostore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mongostore"
)

func TestOpenReportsEachFaultOfTheURL(t *testing.T) {
	t.Parallel()
	for url, word := range map[string]string{
		"nats://127.0.0.1":                           "scheme",
		"mongodb:///app":                             "no host",
		"mongodb://me:hush@127.0.0.1":                "no database",
		"mongodb://me:hush@127.0.0.1/":               "no database",
		"mongodb://me:hush@127.0.0.1:port/app":       "port",
		"mongodb://me:hush@127.0.0.1/a?authSource=":  "authSource",
		"mongodb://me:hush@127.0.0.1/app?tls=maybes": "tls",
		"mongodb://me:hush@127.0.0.1/app?a=b;tls=1":  "semicolon",
	} {
		_, err := mongostore.Open(t.Context(), url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v; want %q", url, err, word)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the password is shown: %v", url, err)
		}
	}
}

// nowhere is a database of a server that nobody runs.
func nowhere(t *testing.T) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1").SetServerSelectionTimeout(50 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return client.Database("app")
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	if _, err := mongostore.New(nil, mongostore.Options{}); err == nil {
		t.Error("no database")
	}
	if _, err := mongostore.New(nowhere(t), mongostore.Options{Timeout: -1}); err == nil {
		t.Error("a negative timeout")
	}
}

// Invalid keys and values are refused before MongoDB is asked.
func TestKeysAndValuesAreJudgedWithoutAServer(t *testing.T) {
	t.Parallel()
	db := nowhere(t)
	s, err := mongostore.New(db, mongostore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, w := range []store.Write{{Key: ""}, {Key: "a b"}, {Key: "a", Value: make([]byte, mongostore.MaxValue+1)}} {
		if _, err := s.CompareAndSwap(ctx, w); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("key %q, %d bytes: %v", w.Key, len(w.Value), err)
		}
	}
	if _, err := s.Get(ctx, "a b"); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
	if _, err := s.CompareAndSwap(ctx, store.Write{Key: "a", Expected: 1 << 63}); !errors.Is(err, store.ErrConflict) {
		t.Error(err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	// No server answers there, and nothing was sent.
	for _, ctx := range []context.Context{ctx, ended} {
		if _, err := s.CompareAndSwap(ctx, store.Write{Key: "a"}); store.Classify(err) != store.Transient {
			t.Error(err)
		}
		if _, err := s.Get(ctx, "a"); store.Classify(err) != store.Transient {
			t.Error(err)
		}
	}
	if err := db.Client().Disconnect(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CompareAndSwap(ctx, store.Write{Key: "a"}); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, get := s.Get(ctx, "a")
	_, swap := s.CompareAndSwap(ctx, store.Write{Key: "a"})
	_, check := s.Check(ctx, store.CheckRequest{})
	for _, err := range []error{get, swap, check} {
		if !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	}
}
