package announce

import (
	"fmt"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-ff2cb582/leader/discovery"
)

// counts are what was done for each group, as lines and as metrics.
type counts struct {
	bucket string
	out    io.Writer

	mu     sync.Mutex
	groups []*count
}

type count struct {
	group  string
	events map[discovery.Kind]uint64
	term   uint64 // of what was announced last, 0 since it was removed
}

func newCounts(bucket string, groups []string, out io.Writer) *counts {
	c := &counts{bucket: bucket, out: out}
	for _, g := range groups {
		c.groups = append(c.groups, &count{group: g, events: map[discovery.Kind]uint64{}})
	}
	return c
}

// kinds are those of the events that an observer's keeper reports.
func kinds() []discovery.Kind {
	return []discovery.Kind{discovery.Announced, discovery.Repaired, discovery.Removed, discovery.Superseded, discovery.Failed}
}

// of returns what the keeper of a group reports to.
func (c *counts) of(group string) func(discovery.Event) {
	var own *count
	for _, g := range c.groups {
		if g.group == group {
			own = g
		}
	}
	return func(ev discovery.Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		own.events[ev.Kind]++
		switch e := ev.Entry; ev.Kind {
		case discovery.Announced, discovery.Repaired, discovery.Removed:
			own.term = e.Term
			if ev.Kind == discovery.Removed {
				own.term = 0
			}
			fmt.Fprintln(c.out, group, ev.Kind, e.Instance, e.Term, e.Address)
		default: // the log tells of it
		}
	}
}

func eventsDesc() *prometheus.Desc {
	return prometheus.NewDesc("election_announcer_events_total",
		"What was done to the leader's entry: announced, repaired, removed; or why it was not: superseded by that of a later term, failed.",
		[]string{"bucket", "role", "event"}, nil)
}

func termDesc() *prometheus.Desc {
	return prometheus.NewDesc("election_announcer_term",
		"Number of the term whose entry this process wrote last; 0 before, and since it has removed one.", []string{"bucket", "role"}, nil)
}

// Describe implements prometheus.Collector.
func (c *counts) Describe(descs chan<- *prometheus.Desc) {
	descs <- eventsDesc()
	descs <- termDesc()
}

// Collect implements prometheus.Collector.
func (c *counts) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	events, term := eventsDesc(), termDesc()
	for _, g := range c.groups {
		for _, kind := range kinds() {
			out <- prometheus.MustNewConstMetric(events, prometheus.CounterValue, float64(g.events[kind]), c.bucket, g.group, string(kind))
		}
		out <- prometheus.MustNewConstMetric(term, prometheus.GaugeValue, float64(g.term), c.bucket, g.group)
	}
}
