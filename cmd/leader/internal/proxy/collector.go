package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-ff2cb582/leader/proxy"
)

// A definition is one metric, and the source of its value. With a table of them
// Describe and Collect cannot differ.
type definition struct {
	name, help string
	kind       prometheus.ValueType
	label      string // a further one, with the values below
	values     []value
}

type value struct {
	label string
	of    func(proxy.Stats) float64
}

// definitions describes the metrics.
func definitions() []definition {
	one := func(of func(proxy.Stats) float64) []value { return []value{{of: of}} }
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []definition{
		{"election_proxy_leader_known", "1 while new connections have a leader to go to, 0 otherwise.", gauge, "", one(func(s proxy.Stats) float64 {
			if s.Leader.ID == "" {
				return 0
			}
			return 1
		})},
		{"election_proxy_term", "Number of the term that new connections go to; 0 while no leader is known.", gauge, "", one(func(s proxy.Stats) float64 { return float64(s.Leader.Term) })},
		{"election_proxy_connections", "Clients that are connected, by whether they have reached a leader.", gauge, "state", []value{
			{"carried", func(s proxy.Stats) float64 { return float64(s.Open - s.Waiting) }},
			{"waiting", func(s proxy.Stats) float64 { return float64(s.Waiting) }},
		}},
		{"election_proxy_accepted_connections_total", "Connections of clients.", counter, "", one(func(s proxy.Stats) float64 { return float64(s.Accepted) })},
		{"election_proxy_carried_connections_total", "Those that reached a leader.", counter, "", one(func(s proxy.Stats) float64 { return float64(s.Carried) })},
		{"election_proxy_refused_connections_total", "Those that were reset without reaching a leader, by why.", counter, "reason", []value{
			{"full", func(s proxy.Stats) float64 { return float64(s.Full) }},
			{"no_leader", func(s proxy.Stats) float64 { return float64(s.NoLeader) }},
			{"loop", func(s proxy.Stats) float64 { return float64(s.Loop) }},
		}},
		{"election_proxy_cut_connections_total", "Those that were cut, since their leader's term had ended or the proxy did.", counter, "reason", []value{
			{"deposed", func(s proxy.Stats) float64 { return float64(s.Cut) }},
			{"drained", func(s proxy.Stats) float64 { return float64(s.Drained) }},
		}},
		{"election_proxy_dial_failures_total", "Failed tries to connect to a leader.", counter, "", one(func(s proxy.Stats) float64 { return float64(s.DialFailures) })},
		{"election_proxy_wait_seconds_total", "How long clients waited for a leader and the connection to it, all together.", counter, "", one(func(s proxy.Stats) float64 { return s.Waited.Seconds() })},
		{"election_proxy_bytes_total", "Bytes carried; counted on open connections with each mebibyte, on fast ones with each 64.", counter, "direction", []value{
			{"to_leader", func(s proxy.Stats) float64 { return float64(s.Sent) }},
			{"from_leader", func(s proxy.Stats) float64 { return float64(s.Received) }},
		}},
	}
}

// A collector is what the registry sees of the proxies. It asks the proxies
// with each scrape, so that nothing has to be counted twice.
type collector struct {
	bucket string
	serves []*serving
}

// desc describes the metric to the registry. listen is among the labels, since
// one group may be served at several addresses, and two series must not be
// equal.
func (d definition) desc() *prometheus.Desc {
	labels := []string{"bucket", "role", "listen"}
	if d.label != "" {
		labels = append(labels, d.label)
	}
	return prometheus.NewDesc(d.name, d.help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range definitions() {
		descs <- d.desc()
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, d := range definitions() {
		desc := d.desc()
		for _, s := range c.serves {
			stats := s.proxy.Stats()
			for _, v := range d.values {
				labels := []string{c.bucket, s.group, s.ln.Addr().String()}
				if d.label != "" {
					labels = append(labels, v.label)
				}
				out <- prometheus.MustNewConstMetric(desc, d.kind, v.of(stats), labels...)
			}
		}
	}
}
