package k8sstore_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/stores/kubelab"
)

// A sink relays connections, and may let those that it has vanish without a
// word, as a load balancer does that forgets them.
type sink struct {
	listener net.Listener
	target   string

	mu   sync.Mutex
	lost chan struct{} // closed when the connections so far are forgotten
}

func newSink(tb testing.TB, target string) *sink {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &sink{listener: l, target: target, lost: make(chan struct{})}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(tb.Context())
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			lost := s.lost
			s.mu.Unlock()
			all.Go(func() { s.relay(ctx, conn, lost) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		cancel()
		all.Wait()
	})
	return s
}

// relay copies until ctx is done; after lost is closed nothing passes.
func (s *sink) relay(ctx context.Context, client net.Conn, lost chan struct{}) {
	server, err := net.Dial("tcp", s.target)
	if err != nil {
		_ = client.Close()
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			buffer := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buffer)
				if err != nil {
					return
				}
				select {
				case <-lost:
					_, _ = io.Copy(io.Discard, way[0])
					return
				default:
				}
				if _, err := way[1].Write(buffer[:n]); err != nil {
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { both.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	_ = client.Close()
	_ = server.Close()
	<-ended
}

// forget lets the connections so far vanish.
func (s *sink) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.lost)
	s.lost = make(chan struct{})
}

// Connections of the store's own are given up when nothing comes in:
// client-go's own wait for 45 s.
func forgotten(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	between := newSink(t, srv.Addr)
	config := srv.Admin()
	config.Host = "https://" + between.listener.Addr().String()
	s := open(t, config, opts)
	h := trial.Listen(t, s, "g")
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h.Value("1")
	between.forget()
	at := time.Now()
	eventually(t, s, "g", rev, "2")
	written := time.Since(at)
	h.Value("2")
	t.Logf("a connection that vanished: written again after %v, heard after %v", written.Round(time.Millisecond), time.Since(at).Round(time.Millisecond))
	if written > 30*time.Second { // less than client-go, by as much as a machine may stall
		t.Error("it took too long")
	}
}
