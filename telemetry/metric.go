package telemetry

import (
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader"
)

// A Metric is one thing that is measured.
type Metric uint8

// The metrics: gauges, counters and histograms, in this order.
const (
	IsLeader Metric = iota
	ConnectionStatus
	TrustRemaining
	TrustWindow
	Term
	Barred

	Transitions
	Failures
	AcquireAttempts
	TokenValidationFailures
	Contention
	Resolutions
	TermsEnded

	HeartbeatDuration
	LeaderDuration
	CallbackDuration
	RenewalMargin
)

// A Kind is the kind of instrument that a metric needs.
type Kind uint8

// The kinds.
const (
	Gauge Kind = iota
	Counter
	Histogram
)

// A Definition describes a metric.
type Definition struct {
	// Name is the OpenTelemetry name, with dots. [Definition.Prometheus]
	// derives the other one.
	Name string
	// Unit is "s" for seconds, or empty.
	Unit string
	// Kind is the kind of instrument.
	Kind Kind
	// Help is a sentence for people.
	Help string
	// Labels are the names of the labels that the metric has after the common
	// ones of [Labels].
	Labels []string
	// Buckets are the upper bounds of a histogram's buckets, in ascending
	// order; nil for the other kinds.
	Buckets []float64

	initial [][]string
}

// Initial returns the values of the labels under which a counter is shown as 0,
// and a histogram as empty, from the beginning of an election: alerts ask for
// increases, and a metric that was absent before does not increase with its
// first value. The result is shared and must not be modified.
func (d Definition) Initial() [][]string {
	if len(d.Labels) == 0 {
		return [][]string{nil}
	}
	return d.initial
}

// Labels returns the names of the labels that every metric has. Their values
// are the fields of an [Identity], in order.
func Labels() []string { return []string{"role", "instance_id", "bucket"} }

// Prometheus returns the metric's name for Prometheus, with the suffixes that
// its conventions ask for.
func (d Definition) Prometheus() string {
	name := strings.ReplaceAll(d.Name, ".", "_")
	if d.Unit == "s" {
		name += "_seconds"
	}
	if d.Kind == Counter {
		name += "_total"
	}
	return name
}

// Definition returns the definition of m, which must be one of the constants.
// Its slices are shared and must not be modified.
func (m Metric) Definition() Definition { return definitions[m] }

// All returns the metrics of the given kinds, or every metric if none is
// given, in the order of the constants.
func All(kinds ...Kind) (all []Metric) {
	for m := range Metric(len(definitions)) {
		if len(kinds) == 0 || slices.Contains(kinds, m.Definition().Kind) {
			all = append(all, m)
		}
	}
	return all
}

var definitions = [...]Definition{
	IsLeader: {
		Name: "election.is_leader",
		Help: "1 if this instance leads at the instant of the scrape, 0 otherwise.",
	},
	ConnectionStatus: {
		Name: "election.connection.status",
		Help: "1 if the store's connection is up, 0 otherwise.",
	},
	TrustRemaining: {
		Name: "election.trust.remaining", Unit: "s",
		Help: "How long this instance leads at the most if no further renewal succeeds; 0 if it does not lead.",
	},
	TrustWindow: {
		Name: "election.trust.window", Unit: "s",
		Help: "Length of the trust window from when a renewal is sent: TTL x (1 - ClockDrift).",
	},
	Term: {
		Name: "election.term",
		Help: "Number of the latest term that this instance knows of; 0 before it knows of any.",
	},
	Barred: {
		Name: "election.barred", Labels: []string{"reason"},
		Help: "1 while something keeps this instance from campaigning: paused, unhealthy or full. Absent otherwise.",
	},
	Transitions: {
		Name: "election.transitions", Kind: Counter, Labels: []string{"from_state", "to_state"},
		Help: "State transitions.",
	},
	Failures: {
		Name: "election.failures", Kind: Counter, Labels: []string{"error_type"},
		Help:    "Failures: calls to the store by class, and troubles of the election by kind.",
		initial: [][]string{{leader.NoteRegressed}, {leader.NoteOverrun}},
	},
	AcquireAttempts: {
		Name: "election.acquire.attempts", Kind: Counter, Labels: []string{"status"},
		Help: "Attempts to acquire the lease, by their outcome.",
	},
	TokenValidationFailures: {
		Name: "election.token_validation.failures", Kind: Counter,
		Help: "Validations of a token whose term was over, or without a term.",
	},
	Contention: {
		Name: "election.contention", Kind: Counter,
		Help: "Claims that another candidate's claim forestalled.",
	},
	Resolutions: {
		Name: "election.lost_acknowledgements.resolved", Kind: Counter, Labels: []string{"call"},
		Help: "Writes without an answer that were found to have been applied.",
	},
	TermsEnded: {
		Name: "election.terms.ended", Kind: Counter, Labels: []string{"reason"},
		Help: "Terms of this instance that ended, by reason.",
	},
	HeartbeatDuration: {
		Name: "election.heartbeat.duration", Unit: "s", Kind: Histogram, Labels: []string{"status"},
		Help:    "How long renewals took, from before the call to its return, by their outcome.",
		Buckets: []float64{.0003, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	},
	LeaderDuration: {
		Name: "election.leader.duration", Unit: "s", Kind: Histogram,
		Help:    "How long this instance led, for terms that ended.",
		Buckets: []float64{1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600},
	},
	CallbackDuration: {
		Name: "election.callback.duration", Unit: "s", Kind: Histogram, Labels: []string{"callback"},
		Help:    "How long callbacks of the program took. A promote callback may last as long as the term.",
		Buckets: []float64{.001, .01, .1, .5, 1, 5, 10, 60, 3600, 24 * 3600},
	},
	RenewalMargin: {
		Name: "election.renewal.margin_ratio", Kind: Histogram,
		Help:    "Share of the trust window that was left when a renewal was acknowledged; 0 is a lost term.",
		Buckets: []float64{0, .1, .25, .4, .5, .6, .7, .8, .9},
	},
}
