package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderprom"
	"github.com/seed-ff2cb582/leader/probe"
)

// An endpoint serves the probes and the metrics of the candidate.
type endpoint struct {
	listener net.Listener
	registry *prometheus.Registry
	server   *http.Server
	err      io.Writer
}

// openWeb listens on an address, and adds the metrics to the configuration.
// Without an address it does nothing.
//
// It listens before the election begins: an address that is taken ends leader
// run with an error, and not as a line in the log of a leader.
func openWeb(address string, cfg *leader.ElectionConfig, stderr io.Writer) (*endpoint, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // a nil endpoint is none
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w", address, err)
	}
	w := &endpoint{listener: l, registry: prometheus.NewRegistry(), err: stderr}
	metrics, err := leaderprom.New(w.registry)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	cfg.Hooks = leader.JoinHooks(cfg.Hooks, metrics.Hooks())
	return w, nil
}

// show serves the elections. With --slots, /leader?group=GROUP.1 asks for one.
//
// A server that fails later is reported and no more: probes that do not answer
// are for the orchestrator to judge, and the program runs.
func (w *endpoint) show(seats []*seat) {
	if w == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/", probes(seats))
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}))
	w.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(w.err, "leader: http://%s/leader\n", w.listener.Addr())
	go func() {
		if err := w.server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(w.err, "leader:", err)
		}
	}()
}

// probes answers for one election, or for all slots as for the roles of one
// instance.
func probes(seats []*seat) http.Handler {
	if len(seats) == 1 {
		return probe.Handler(seats[0].e, probe.Options{})
	}
	all := make(map[string]leader.Election)
	for _, s := range seats {
		all[s.group] = s.e
	}
	return probe.HandlerOf(func() map[string]leader.Election { return all }, probe.Options{})
}

// close ends the server, or the listener of one that never began.
func (w *endpoint) close() {
	switch {
	case w == nil:
	case w.server != nil:
		_ = w.server.Close() // nobody is left to be told
	default:
		_ = w.listener.Close() // as above
	}
}
