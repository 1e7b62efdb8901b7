package announce

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/discovery"
)

// counts are what was done for each group, as lines and as metrics.
type counts struct {
	bucket string
	out    io.Writer
	json   bool // one object a line

	mu     sync.Mutex
	groups []*count
}

type count struct {
	group  string
	events map[discovery.Kind]uint64
	term   uint64 // of what was announced last, 0 since it was removed
}

func newCounts(bucket string, groups []string, out io.Writer, asJSON bool) *counts {
	c := &counts{bucket: bucket, out: out, json: asJSON}
	for _, g := range groups {
		c.groups = append(c.groups, &count{group: g, events: map[discovery.Kind]uint64{}})
	}
	return c
}

// kinds are the kinds of events that an observer's keeper reports.
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
			c.print(line{time.Now().UTC(), group, ev.Kind, e.Instance, e.Term, e.Address})
		default: // the log reports it
		}
	}
}

// A line is a change as --json prints it. Fields are only ever added.
type line struct {
	Time    time.Time      `json:"time"`
	Group   string         `json:"group"`
	Event   discovery.Kind `json:"event"`
	Leader  string         `json:"leader"`
	Term    uint64         `json:"term"`
	Address string         `json:"address,omitempty"`
}

// print prints a line. Others wrote what it contains about the leader.
func (c *counts) print(l line) {
	if c.json {
		_ = output.WriteLine(c.out, l) // who has left needs no line
		return
	}
	fmt.Fprintln(c.out, output.Printable(fmt.Sprint(l.Group, " ", l.Event, " ", l.Leader, " ", l.Term, " ", l.Address)))
}

func eventsDesc() *prometheus.Desc {
	return prometheus.NewDesc("election_announcer_events_total",
		"What was done to the leader's entry: announced, repaired, removed; or why it was not: superseded by the entry of a later term, failed.",
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
