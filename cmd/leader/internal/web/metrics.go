package web

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ListenMetrics begins to listen at the address of --metrics, for readers of a
// command's metrics. Without an address it returns nil. The server outlives
// ctx, until it is closed.
func ListenMetrics(ctx context.Context, address string, hosts Hosts, c prometheus.Collector) (*Server, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	handler, err := Metrics(c)
	if err != nil {
		return nil, err
	}
	return ListenOpen(context.WithoutCancel(ctx), "--metrics", address, hosts, handler)
}

// Metrics returns a handler that serves a command's metrics, and its process's,
// at /metrics.
func Metrics(c prometheus.Collector) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, one := range []prometheus.Collector{
		c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector(),
	} {
		if err := registry.Register(one); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return mux, nil
}
