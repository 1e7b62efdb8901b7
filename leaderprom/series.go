package leaderprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-ff2cb582/leader/telemetry"
)

// A series is what is shown of one election. Each has its own instruments, of
// the same descriptions: in one vector for all, the removal of one election
// would have to look at the series of every other.
type series struct {
	id         telemetry.Identity
	tracker    *telemetry.Tracker
	counters   map[telemetry.Metric]*prometheus.CounterVec
	histograms map[telemetry.Metric]*prometheus.HistogramVec
}

func newSeries(id telemetry.Identity) *series {
	s := &series{
		id:         id,
		counters:   make(map[telemetry.Metric]*prometheus.CounterVec),
		histograms: make(map[telemetry.Metric]*prometheus.HistogramVec),
	}
	for _, m := range telemetry.All(telemetry.Counter) {
		d := m.Definition()
		s.counters[m] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Prometheus(), Help: d.Help}, labels(d))
		for _, labels := range d.Initial() {
			s.counter(m, labels)
		}
	}
	for _, m := range telemetry.All(telemetry.Histogram) {
		d := m.Definition()
		s.histograms[m] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Prometheus(), Help: d.Help, Buckets: d.Buckets}, labels(d))
		for _, labels := range d.Initial() {
			s.histogram(m, labels)
		}
	}
	return s
}

func (s *series) counter(m telemetry.Metric, labels []string) prometheus.Counter {
	c, err := s.counters[m].GetMetricWithLabelValues(s.id.Values(labels)...)
	if err != nil {
		// It is not registered: a metric must not end a program.
		return prometheus.NewCounter(prometheus.CounterOpts{})
	}
	return c
}

func (s *series) histogram(m telemetry.Metric, labels []string) prometheus.Observer {
	h, err := s.histograms[m].GetMetricWithLabelValues(s.id.Values(labels)...)
	if err != nil {
		return prometheus.ObserverFunc(func(float64) {})
	}
	return h
}

// Add implements telemetry.Sink.
func (s *series) Add(m telemetry.Metric, labels ...string) { s.counter(m, labels).Inc() }

// Observe implements telemetry.Sink.
func (s *series) Observe(m telemetry.Metric, value float64, labels ...string) {
	s.histogram(m, labels).Observe(value)
}

// collect sends the metrics of one scrape.
func (s *series) collect(descs []*prometheus.Desc, metrics chan<- prometheus.Metric) {
	s.tracker.Gauges(func(m telemetry.Metric, value float64, labels ...string) {
		if g, err := prometheus.NewConstMetric(descs[m], prometheus.GaugeValue, value, s.id.Values(labels)...); err == nil {
			metrics <- g
		}
	})
	for _, c := range s.counters {
		c.Collect(metrics)
	}
	for _, h := range s.histograms {
		h.Collect(metrics)
	}
}
