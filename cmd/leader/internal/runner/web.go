package runner

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
	"github.com/seed-ff2cb582/leader/leaderprom"
	"github.com/seed-ff2cb582/leader/probe"
)

// maxConnections is how many connections there are at a time: of probes and
// scrapes there are few, and each takes a descriptor, of which the start of the
// program needs some.
const maxConnections = 128

// An endpoint serves the probes and the metrics of the candidate.
type endpoint struct {
	probes atomic.Pointer[http.Handler] // nil while there is no election
}

// openWeb serves on an address until ctx is done, and adds the metrics to the
// configuration. Without an address it does nothing.
//
// It listens before the election begins: an address that is taken ends leader
// run with an error, and not as a line in the log of a leader. A server that
// fails later is reported and no more: probes that do not answer are for the
// orchestrator to judge, and the program runs.
func openWeb(ctx context.Context, address string, hosts web.Hosts, cfg *leader.ElectionConfig, stderr io.Writer) (*endpoint, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // a nil endpoint is none
	}
	registry := prometheus.NewRegistry()
	metrics, err := leaderprom.New(registry)
	if err != nil {
		return nil, err
	}
	w := new(endpoint)
	mux := http.NewServeMux()
	mux.HandleFunc("/", w.probe)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server, err := web.ListenOpen(ctx, "--http", address, hosts, mux)
	if err != nil {
		return nil, err
	}
	server.Limit(maxConnections, func() {})
	cfg.Hooks = leader.JoinHooks(cfg.Hooks, metrics.Hooks())
	fmt.Fprintf(stderr, "leader: %s/leader\n", server.URL())
	go func() {
		if err := server.Serve(ctx); err != nil {
			fmt.Fprintln(stderr, "leader:", err)
		}
	}()
	return w, nil
}

// probe answers for the elections, and before there are any: a host that waits
// for its store lives, and no restart would help it.
func (w *endpoint) probe(rw http.ResponseWriter, r *http.Request) {
	switch all := w.probes.Load(); {
	case all != nil:
		(*all).ServeHTTP(rw, r)
	case path.Base(r.URL.Path) == "livez":
		fmt.Fprintln(rw, "ok")
	default:
		http.Error(rw, "waiting for the store", http.StatusServiceUnavailable)
	}
}

// show serves the elections. With --slots, /leader?group=GROUP.1 asks for one.
func (w *endpoint) show(candidacies []*candidacy) {
	if w != nil {
		all := probes(candidacies)
		w.probes.Store(&all)
	}
}

// probes answers for one election, or for all slots as for the roles of one
// instance.
func probes(candidacies []*candidacy) http.Handler {
	if len(candidacies) == 1 {
		return probe.Handler(candidacies[0].e, probe.Options{})
	}
	all := make(map[string]leader.Election)
	for _, s := range candidacies {
		all[s.group] = s.e
	}
	return probe.HandlerOf(func() map[string]leader.Election { return all }, probe.Options{})
}
