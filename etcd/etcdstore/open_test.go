package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
)

func TestOpenReportsEachFaultOfTheURL(t *testing.T) {
	t.Parallel()
	junk := filepath.Join(t.TempDir(), "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, word := range map[string]string{
		"nats://127.0.0.1":                       "scheme",
		"etcd:///leader/":                        "no host",
		"etcd://a,,b":                            "empty",
		"etcd://user@a":                          "password",
		"etcd://:hush@a":                         "a name",
		"etcd://user:hush@a?timeout=1s":          `"timeout" is unknown`,
		"etcds://user:hush@a?cert=x":             "one is missing",
		"etcds://user:hush@a?cert=/absent&key=x": "cert and key",
		"etcds://user:hush@a?ca=/absent":         "ca",
		"etcds://user:hush@a?ca=" + junk:         "holds no certificate",
		"etcd://user:hush@a:b:c:2379":            "colons",
		"etcd://user:hush@%zz/":                  "escape",
	} {
		_, err := etcdstore.Open(t.Context(), url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v; want %q", url, err, word)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the password is shown: %v", url, err)
		}
	}
}

// A client with a user logs in when it is made. Here nobody answers it.
func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		if conn, err := l.Accept(); err == nil {
			accepted <- conn
			cancel()
		}
	}()
	_, err = etcdstore.Open(ctx, "etcd://app:secret@"+l.Addr().String())
	if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || store.Classify(err) != store.Transient {
		t.Errorf("%v; want that the context was canceled, and no timeout", err)
	}
	_ = l.Close()
	for conn := range accepted {
		_ = conn.Close()
	}
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	if _, err := etcdstore.New(nil, etcdstore.Options{}); err == nil {
		t.Error("no client")
	}
	if _, err := etcdstore.New(clientv3.NewCtxClient(t.Context()), etcdstore.Options{}); err == nil {
		t.Error("no connection")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // nothing is under way
	if _, err := etcdstore.New(client, etcdstore.Options{Timeout: -1}); err == nil {
		t.Error("a negative timeout")
	}
}

// Errors that can be decided without etcd are.
func TestKeysAndValuesAreJudgedWithoutAServer(t *testing.T) {
	t.Parallel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // nothing is under way
	s, err := etcdstore.New(client, etcdstore.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the client is the test's own
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, w := range []store.Write{{Key: ""}, {Key: "a+deleted"}, {Key: "a,"}, {Key: "a", Value: make([]byte, etcdstore.MaxValue+1)}} {
		if _, err := s.CompareAndSwap(ctx, w); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("key %q, %d bytes: %v", w.Key, len(w.Value), err)
		}
	}
	if _, err := s.Get(ctx, "a b"); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
	// The port is closed, and nothing left.
	if _, err := s.CompareAndSwap(ctx, store.Write{Key: "a"}); store.Classify(err) != store.Transient {
		t.Error(err)
	}
}
