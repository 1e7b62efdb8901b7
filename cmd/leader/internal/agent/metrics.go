package agent

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderprom"
)

// counters are the agent's own metrics. Package leaderprom has the metrics of
// elections.
type counters struct {
	withdrawn, refused *prometheus.CounterVec
	registry           *prometheus.Registry
	hooks              leader.Hooks
}

// newCounters returns counters in a registry of their own, which nothing else
// of the process writes into.
func newCounters() (*counters, error) {
	c := &counters{
		withdrawn: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "election_agent_withdrawn_candidates_total",
			Help: "Candidates that no longer campaign: withdrawn by their client, silent for a lease, drained with the agent, or ended by themselves.",
		}, []string{"reason"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "election_agent_refused_requests_total",
			Help: "Requests that were not let in: of a browser, to another host, without the token, more than there is room for, or by no route.",
		}, []string{"reason"}),
		registry: prometheus.NewRegistry(),
	}
	// From 0 on, so that the first one of a kind shows as an increase.
	for _, why := range []string{asked, silent, draining, ended} {
		c.withdrawn.WithLabelValues(why)
	}
	elections, err := leaderprom.New(c.registry)
	if err != nil {
		return nil, err
	}
	c.hooks = elections.Hooks()
	err = c.register(
		c.withdrawn, c.refused, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return c, err
}

// register adds collectors, and reports all that cannot be.
func (c *counters) register(all ...prometheus.Collector) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, c.registry.Register(one))
	}
	return errors.Join(errs...)
}

// show adds what is asked of the server with each scrape.
func (c *counters) show(s *server) error {
	return c.register(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "election_agent_candidates", Help: "Candidates that the agent runs.",
		}, func() float64 { return float64(s.number()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "election_agent_streams", Help: "Streams of events that are open.",
		}, func() float64 { return float64(len(s.streams)) }),
	)
}

func (c *counters) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return mux
}

func (c *counters) withdraw(why string) { c.withdrawn.WithLabelValues(why).Inc() }

func (c *counters) refuse(why string) { c.refused.WithLabelValues(why).Inc() }
