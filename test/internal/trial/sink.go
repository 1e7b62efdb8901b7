package trial

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// A Sink relays connections, and may let those that it has vanish without a
// word, as a load balancer does that forgets them.
type Sink struct {
	listener net.Listener
	target   string

	mu   sync.Mutex
	lost chan struct{} // closed when the connections so far are forgotten
}

// NewSink starts a sink in front of host:port, which ends with the test.
func NewSink(tb testing.TB, target string) *Sink {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Sink{listener: l, target: target, lost: make(chan struct{})}
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

// Addr returns the sink's own host:port.
func (s *Sink) Addr() string { return s.listener.Addr().String() }

// relay copies until ctx is done; after lost is closed nothing passes.
func (s *Sink) relay(ctx context.Context, client net.Conn, lost chan struct{}) {
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

// Forget lets the connections so far vanish. Those that come later pass.
func (s *Sink) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.lost)
	s.lost = make(chan struct{})
}
