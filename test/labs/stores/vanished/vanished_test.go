// Package vanished_test cuts connections silently below the stores whose
// clients speak HTTP/2, each opened by its URL. The peer is not a real server
// of these stores, since only the transport is judged.
package vanished_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/store/s3store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m) }

// serve answers as Consul, Cloud Storage and S3 do where there are no records.
func serve(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case r.ProtoMajor != 2:
		http.Error(w, "this test is about HTTP/2", http.StatusHTTPVersionNotSupported)
	case path == "/v1/status/leader":
		_, _ = io.WriteString(w, `"127.0.0.1:8300"`)
	case path == "/storage/v1/b/bucket/o": // is the bucket there?
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	case strings.HasPrefix(path, "/bucket/"):
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `<Error><Code>NoSuchKey</Code></Error>`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// served starts a server of HTTP/2, whose certificate all clients believe that
// are made from now on, and returns its host:port and the certificate's file.
func served(t *testing.T) (addr, ca string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", ca)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	// No URL and no variable names a certificate for Cloud Storage.
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t.Fatalf("the default transport is a %T", http.DefaultTransport)
	}
	believing := usual.Clone()
	believing.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	believing.TLSClientConfig.RootCAs.AddCert(srv.Certificate())
	http.DefaultTransport = believing
	t.Cleanup(func() { http.DefaultTransport = usual })
	return srv.Listener.Addr().String(), ca
}

// TestAConnectionThatVanishesIsGivenUp: a call that times out ends its own
// stream alone, and the next takes the same connection, on which nothing ever
// comes in again. Unless somebody asks, nobody finds out.
func TestAConnectionThatVanishesIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the pings of HTTP/2, which takes eight seconds")
	}
	addr, ca := served(t)
	opens := map[string]func(ctx context.Context, addr string) (store.Opened, error){
		"Consul": func(ctx context.Context, addr string) (store.Opened, error) {
			return consulstore.Open(ctx, "consuls://"+addr+"/?ca="+ca)
		},
		"Cloud Storage": func(ctx context.Context, addr string) (store.Opened, error) {
			return gcsstore.Open(ctx, "gs://bucket?auth=none&endpoint=https://"+addr)
		},
		"S3": func(ctx context.Context, addr string) (store.Opened, error) {
			return s3store.Open(ctx, "s3://key:secret@bucket?region=lab&endpoint=https://"+addr)
		},
	}
	// They wait at the same time. Subtests that do so may not have the
	// environment of their test changed.
	var all sync.WaitGroup
	for name, open := range opens {
		way := relay.New(t, addr)
		s, err := open(trial.Within(t), way.Addr())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { _ = s.Close() })
		all.Go(func() { vanish(t, name, s, way) })
	}
	all.Wait()
}

// vanish has the store's connections vanish, and reads until that succeeds. A
// minute is far more than it takes, and far less than to wait for the system,
// which sends again for a quarter of an hour.
func vanish(t *testing.T, name string, s store.Store, way *relay.Relay) {
	if _, err := s.Get(trial.Within(t), "group"); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	way.Forget()
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := s.Get(ctx, "group")
		cancel()
		switch took := time.Since(began); {
		case err == nil:
			t.Logf("%s: read again after %v", name, took.Round(time.Millisecond))
			return
		case took > time.Minute:
			t.Errorf("%s: the connection is still used after %v: %v", name, took.Round(time.Millisecond), err)
			return
		}
	}
}
