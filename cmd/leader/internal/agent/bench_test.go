package agent

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// BenchmarkKeepalive is what a client waits for its trust, over a Unix socket
// and one connection.
func BenchmarkKeepalive(b *testing.B) {
	count, err := newCounters()
	if err != nil {
		b.Fatal(err)
	}
	st := memstore.New()
	s := &server{
		registry: registry{
			most: 1, share: 1, patience: time.Second, count: count, byHandle: map[string]*candidate{}, byName: map[name]*candidate{},
			open: func(cfg leader.ElectionConfig) (leader.Election, error) { return leader.NewElectionWithStore(st, cfg) },
		},
		gate: gate{count: count}, st: st, log: slog.New(slog.DiscardHandler), profile: leader.ProfileStable,
		base: leader.ElectionConfig{AcquireGrace: leader.GraceOff},
	}
	defer s.drain()
	path := filepath.Join(b.TempDir(), "s")
	ln, err := (&net.ListenConfig{}).Listen(b.Context(), "unix", path)
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(s.handler())
	_ = srv.Listener.Close() // another takes its place
	srv.Listener = ln
	srv.Start()
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	c, err := s.add(b.Context(), leader.ElectionConfig{
		Group: "g", InstanceID: "a", TTL: 20 * time.Second, HeartbeatInterval: 4 * time.Second, AcquireGrace: leader.GraceOff, DeleteOnStop: true,
	}, 20*time.Second)
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost/v1/groups/g/candidates/"+c.handle+"/keepalive", strings.NewReader(""))
		if err != nil {
			b.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	c.withdraw(asked)
}
