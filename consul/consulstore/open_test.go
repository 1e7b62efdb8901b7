package consulstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/store"
)

func TestOpenReportsEachFaultOfTheURL(t *testing.T) {
	t.Parallel()
	junk := filepath.Join(t.TempDir(), "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, word := range map[string]string{
		"nats://127.0.0.1":                   "scheme",
		"consul:///leader/":                  "no host",
		"consul://:8500":                     "no host",
		"consul://user:hush@a":               "without a user",
		"consul://hush@a":                    "without a user",
		"consul://:hush@a?timeout=1s":        `"timeout" is unknown`,
		"consul://:hush@a//x":                "Prefix",
		"consul://:hush@a/x//y/":             "Prefix",
		"consul://:hush@a/./":                "Prefix",
		"consul://:hush@a/x y/":              "Prefix",
		"consuls://:hush@a?cert=x":           "one is missing",
		"consuls://:hush@a?cert=/none&key=x": "ca, cert and key",
		"consuls://:hush@a?ca=/absent":       "ca, cert and key",
		"consul://:hush@a?ca=" + junk:        "ca, cert and key",
		"consul://:hush@%zz/":                "escape",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := consulstore.Open(ctx, url)
		cancel()
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v; want %q", url, err, word)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the token is shown: %v", url, err)
		}
	}
}

func nowhere(t *testing.T) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	if _, err := consulstore.New(nil, consulstore.Options{}); err == nil {
		t.Error("no client")
	}
	if _, err := consulstore.New(nowhere(t), consulstore.Options{Timeout: -1}); err == nil {
		t.Error("a negative timeout")
	}
	for _, prefix := range []string{"/leader/", "a//", "./", "a/./", "a b", "~/", "/", "é/", "../"} {
		if _, err := consulstore.New(nowhere(t), consulstore.Options{Prefix: prefix}); err == nil {
			t.Errorf("the prefix %q", prefix)
		}
	}
	for _, prefix := range []string{"leader/", "leader", "a/b/", "a.b/c-d_"} {
		if _, err := consulstore.New(nowhere(t), consulstore.Options{Prefix: prefix}); err != nil {
			t.Errorf("the prefix %q: %v", prefix, err)
		}
	}
}

// Errors that can be decided without Consul are.
func TestKeysAndValuesAreJudgedWithoutAServer(t *testing.T) {
	t.Parallel()
	s, err := consulstore.New(nowhere(t), consulstore.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it never fails
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, w := range []store.Write{{Key: ""}, {Key: "a~"}, {Key: "a b"}, {Key: "a", Value: make([]byte, consulstore.MaxValue+1)}} {
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
	// The port is closed, and nothing left.
	if _, err := s.CompareAndSwap(ctx, store.Write{Key: "a"}); store.Classify(err) != store.Transient {
		t.Error(err)
	}
}
