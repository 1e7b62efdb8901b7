package leaderprom

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-ff2cb582/leader/tasks"
)

// Tasks are the metrics of any number of dispatchers of package tasks on one
// registry, each under its group (the label role). Its methods may be called
// concurrently.
//
//	metrics, err := leaderprom.NewTasks(prometheus.DefaultRegisterer)
//	…
//	opts.Hooks = metrics.Hooks("crawl")
//	d := tasks.NewDispatcher(bucket, opts, hub)
//
// The gauges describe the process that leads, and are 0 elsewhere; the counters
// describe each process's own work.
//
//	election_tasks                              state: queued or assigned
//	election_tasks_workers                      heard of within their lease
//	election_tasks_assigned_total               attempts that were given to a worker
//	election_tasks_retried_total                tasks that were queued for another attempt
//	election_tasks_done_total
//	election_tasks_failed_total                 after their last attempt
//	election_tasks_refused_total                orders that a worker refused, since their term was stale
//	election_tasks_assignment_duration_seconds  from the decision to the stored assignment
type Tasks struct {
	open        *prometheus.GaugeVec
	workers     *prometheus.GaugeVec
	assigned    *prometheus.CounterVec
	retried     *prometheus.CounterVec
	done        *prometheus.CounterVec
	failed      *prometheus.CounterVec
	refused     *prometheus.CounterVec
	assignments *prometheus.HistogramVec
}

// NewTasks returns metrics that are registered with reg. Once per registry is
// enough; a second time is a prometheus.AlreadyRegisteredError. After an error
// the registry is as it was.
func NewTasks(reg prometheus.Registerer) (*Tasks, error) {
	if reg == nil {
		return nil, errors.New("leaderprom: the registerer must not be nil")
	}
	labels := []string{"role"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	t := &Tasks{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "election_tasks", Help: "Open tasks as the leader sees them, by their state; 0 where another leads.",
		}, []string{"role", "state"}),
		workers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "election_tasks_workers", Help: "Workers that the leader has heard of within their lease; 0 where another leads.",
		}, labels),
		assigned: counter("election_tasks_assigned_total", "Attempts that were given to a worker."),
		retried:  counter("election_tasks_retried_total", "Tasks that were queued for another attempt."),
		done:     counter("election_tasks_done_total", "Tasks that were recorded as done."),
		failed:   counter("election_tasks_failed_total", "Tasks that were recorded as failed, after their last attempt."),
		refused:  counter("election_tasks_refused_total", "Orders that a worker refused, since it had seen a newer term."),
		assignments: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "election_tasks_assignment_duration_seconds", Help: "Time from the decision to the stored assignment.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, labels),
	}
	all := []prometheus.Collector{t.open, t.workers, t.assigned, t.retried, t.done, t.failed, t.refused, t.assignments}
	for i, c := range all {
		if err := reg.Register(c); err != nil {
			// A collector that stays registered would be in the way of the next
			// attempt.
			for _, registered := range all[:i] {
				reg.Unregister(registered)
			}
			return nil, fmt.Errorf("leaderprom: %w", err)
		}
	}
	return t, nil
}

// Hooks returns the hooks for the dispatchers of a group. A group that is no
// UTF-8 is shown with U+FFFD for what is not.
func (t *Tasks) Hooks(group string) tasks.Hooks {
	group = strings.ToValidUTF8(group, "\uFFFD") // the library would panic
	queued, given := t.open.WithLabelValues(group, string(tasks.Queued)), t.open.WithLabelValues(group, string(tasks.Assigned))
	workers, refused := t.workers.WithLabelValues(group), t.refused.WithLabelValues(group)
	counters := map[tasks.State]prometheus.Counter{
		tasks.Assigned: t.assigned.WithLabelValues(group), tasks.Queued: t.retried.WithLabelValues(group),
		tasks.Done: t.done.WithLabelValues(group), tasks.Failed: t.failed.WithLabelValues(group),
	}
	took := t.assignments.WithLabelValues(group)
	return tasks.Hooks{
		Recorded: func(r tasks.Recorded) {
			if c := counters[r.State]; c != nil {
				c.Inc()
			}
			if r.State == tasks.Assigned {
				took.Observe(r.Took.Seconds())
			}
		},
		Refused: func(string, string) { refused.Inc() },
		Stats: func(s tasks.Stats) {
			queued.Set(float64(s.Queued))
			given.Set(float64(s.Assigned))
			workers.Set(float64(s.Workers))
		},
	}
}
