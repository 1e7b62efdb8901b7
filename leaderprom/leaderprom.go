// Package leaderprom shows elections to Prometheus.
//
//	metrics, err := leaderprom.New(prometheus.DefaultRegisterer)
//	…
//	cfg.Hooks = leader.JoinHooks(cfg.Hooks, metrics.Hooks())
//
// That is all, for one election or for ten thousand: each shows up when it is
// started, under its group (the label role), its InstanceID and its bucket, and
// its series go away when it has stopped.
//
// The gauges are asked of the election at the scrape. So election_is_leader is
// never 1 after the trust window has closed, however long ago the last
// transition was.
//
//	election_is_leader                               1 while this instance leads
//	election_connection_status                       1 while the store's connection is up
//	election_trust_remaining_seconds                 how long it leads at most without a further renewal
//	election_trust_window_seconds                    TTL × (1 − ClockDrift)
//	election_term                                    the latest term that it knows of, also of another's
//	election_barred                                  reason: why it does not campaign
//	election_transitions_total                       from_state, to_state
//	election_failures_total                          error_type: see below
//	election_acquire_attempts_total                  status: an outcome
//	election_token_validation_failures_total         tokens that were validated after their term
//	election_contention_total                        claims that another candidate forestalled
//	election_lost_acknowledgements_resolved_total    call: acquire, renew or release
//	election_terms_ended_total                       reason
//	election_heartbeat_duration_seconds              status: an outcome; how long renewals took
//	election_leader_duration_seconds                 how long terms lasted, of those that ended
//	election_callback_duration_seconds               callback: promote, demote, campaign or leader-change
//	election_renewal_margin_ratio                    share of the trust window left at each renewal
//
// An outcome is ok, conflict, transient, permanent or unknown, as package store
// defines them. An error_type is one of these but ok (of any call to the store;
// a conflict only where it means that somebody wrote the leader's record) or
// one of the leader.Note constants regressed, overrun, gave-up, not-ready,
// panic, takeover-request and malformed. States and reasons are the constants
// of package leader. No label ever holds a token.
//
// An election has about 35 series, about 95 on an instance that has led, and
// takes some 15 KiB. A scrape of 1,000 takes some 30 ms of one core.
//
// The module's files alerts.yaml and dashboard.json are alerting rules and a
// Grafana dashboard for these metrics.
package leaderprom

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/telemetry"
)

// Metrics are the metrics of any number of elections on one registry. Its
// methods may be called concurrently.
type Metrics struct{ roster telemetry.Roster[*series] }

// New returns metrics that are registered with reg. Once per registry is
// enough; a second time is a prometheus.AlreadyRegisteredError.
func New(reg prometheus.Registerer) (*Metrics, error) {
	if reg == nil {
		return nil, errors.New("leaderprom: the registerer must not be nil")
	}
	m := &Metrics{}
	if err := reg.Register(collector{m, describe()}); err != nil {
		return nil, fmt.Errorf("leaderprom: %w", err)
	}
	return m, nil
}

// Hooks returns the hooks that an election needs to be shown. They may be given
// to any number of elections. Of two that have the same group, InstanceID and
// bucket at the same time, the one started last is shown.
func (m *Metrics) Hooks() leader.Hooks {
	return leader.Hooks{PerElection: func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
		id := telemetry.IdentityOf(cfg)
		s := newSeries(id)
		s.tracker = telemetry.Track(e, cfg, s)
		return leader.JoinHooks(s.tracker.Hooks(), m.roster.Show(id, s))
	}}
}

// A collector is what the registry sees of Metrics.
type collector struct {
	m     *Metrics
	descs []*prometheus.Desc
}

// describe returns the descriptions of all metrics, so that the registry can
// refuse two of a name.
func describe() (all []*prometheus.Desc) {
	for _, m := range telemetry.All() {
		d := m.Definition()
		all = append(all, prometheus.NewDesc(d.Prometheus(), d.Help, labels(d), nil))
	}
	return all
}

func labels(d telemetry.Definition) []string { return append(telemetry.Labels(), d.Labels...) }

// Describe implements prometheus.Collector.
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	for _, s := range c.m.roster.All() {
		s.collect(c.descs, metrics)
	}
}
