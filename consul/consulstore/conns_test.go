package consulstore_test

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
)

// An agent's machine takes connections, and the agent, once it is frozen,
// answers none of them.
type machine struct {
	net.Listener

	frozen atomic.Bool
	open   atomic.Int64 // connections that came since
	most   atomic.Int64 // of them at a time
}

func (m *machine) Accept() (net.Conn, error) {
	for {
		c, err := m.Listener.Accept()
		if err != nil || !m.frozen.Load() {
			return c, err
		}
		m.most.Store(max(m.most.Load(), m.open.Add(1)))
		go func() {
			_, _ = io.Copy(io.Discard, c) // until it is closed
			m.open.Add(-1)
			_ = c.Close()
		}()
	}
}

func TestCallsThatAreGivenUpDoNotAddConnections(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/status/leader") {
			_, _ = io.WriteString(w, `"127.0.0.1:8300"`)
			return
		}
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	m := &machine{Listener: srv.Listener}
	srv.Listener = m
	srv.StartTLS()
	t.Cleanup(func() { close(ended); srv.Close() })
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := consulstore.Open(ctx, "consuls://"+srv.Listener.Addr().String()+"/?ca="+ca)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	m.frozen.Store(true)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for range 10 {
				brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				if _, err := s.Get(brief, "group"); err == nil {
					t.Error("a read that nobody answered succeeded")
				}
				cancel()
			}
		})
	}
	all.Wait()
	if n := m.most.Load(); n > 112 {
		t.Errorf("%d connections at a time, want 112 at the most", n)
	}
}
