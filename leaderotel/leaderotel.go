// Package leaderotel traces and measures elections with OpenTelemetry.
//
//	telemetry, err := leaderotel.New(leaderotel.Options{})
//	…
//	cfg.Hooks = leader.JoinHooks(cfg.Hooks, telemetry.Hooks())
//
// That is all, for any number of elections.
//
// # Spans
//
//	election.campaign   from when a candidate finds that nobody leads until somebody does
//	election.term       from the promotion to the demotion
//	election.handover   from the demotion until the work has stopped and the record is released
//
// The context that OnPromote (or Run's function) receives holds the term's
// span, so that what the program does in its term becomes a child of it. A term
// may last for months, and its span is exported when it ends; until then a
// trace shows children without a parent. Work that should be traced by itself
// starts with trace.WithNewRoot and
// trace.WithLinks(trace.LinkFromContext(ctx)).
//
// A campaign and a term are separate traces, a hand-over belongs to the trace
// of its term. They are linked: a term to its campaign and to the span in the
// context of Start, if there was one, a campaign to the term that it led to and
// to the last hand-over of the same candidate. Only the record is known of
// candidates in other processes; their reports about one term have the same
// election.correlation.
//
// Every span has the attributes election.group, election.instance_id and
// election.bucket; also, as far as they apply:
//
//	election.term          number of the term
//	election.correlation   a short hash of its token, the same in all logs, metrics and spans of all candidates
//	election.reason        why it began (campaign) or ended (term): a leader.Reason
//	election.outcome       what ended a campaign: a leader.Event
//	election.by, .why      who asked for the end of a term, and why in that one's words
//
// Claims, renewals that failed, releases, and notes (a lost answer that was
// resolved, for example) are events of the span in which they occur. Their
// texts are cut at 4 KiB, and lose bytes that are not UTF-8. A term whose end
// was not requested has the status Error. Tokens are never shown.
//
// # Metrics
//
// The metrics are package leaderprom's under OpenTelemetry's names, such as
// election.is_leader and election.heartbeat.duration. Their attributes are
// named as the labels there (role, instance_id, bucket, …), so that exported to
// Prometheus they have the same names, and the same dashboard and alerts serve:
// counters whose first increment matters to the alerts are 0 from the start of
// an election. The gauges are asked of the elections when the metrics are read,
// and end with them. An SDK keeps its counts of an election for as long as it
// lives, even when the election has stopped; and it shows at most 2000 sets of
// attributes of each metric unless configured otherwise
// (sdkmetric.WithCardinalityLimit).
package leaderotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/telemetry"
)

// scope names the instrumentation.
const scope = "github.com/seed-ff2cb582/leader/leaderotel"

// Options are where spans and metrics go.
type Options struct {
	// TracerProvider makes the spans. Default: the global one,
	// otel.GetTracerProvider.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. Default: the global one,
	// otel.GetMeterProvider.
	MeterProvider metric.MeterProvider
}

// Telemetry traces and measures any number of elections. Its methods may be
// called concurrently.
type Telemetry struct {
	tracer     trace.Tracer
	counters   map[telemetry.Metric]metric.Int64Counter
	histograms map[telemetry.Metric]metric.Float64Histogram
	roster     telemetry.Roster[*meter]
}

// New returns telemetry that goes where opts direct it. Once per provider is
// enough. An error comes from the MeterProvider, whose SDK refuses an
// instrument.
func New(opts Options) (*Telemetry, error) {
	if opts.TracerProvider == nil {
		opts.TracerProvider = otel.GetTracerProvider()
	}
	if opts.MeterProvider == nil {
		opts.MeterProvider = otel.GetMeterProvider()
	}
	t := &Telemetry{
		tracer:     opts.TracerProvider.Tracer(scope),
		counters:   make(map[telemetry.Metric]metric.Int64Counter),
		histograms: make(map[telemetry.Metric]metric.Float64Histogram),
	}
	if err := t.instrument(opts.MeterProvider.Meter(scope)); err != nil {
		return nil, fmt.Errorf("leaderotel: %w", err)
	}
	return t, nil
}

// Hooks returns the hooks that an election needs to be traced and measured.
// They may be given to any number of elections. Of two that have the same
// group, InstanceID and bucket at the same time, the gauges show the one
// started last.
func (t *Telemetry) Hooks() leader.Hooks {
	return leader.Hooks{PerElection: func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
		id := telemetry.IdentityOf(cfg)
		m := &meter{t: t, id: id}
		m.tracker = telemetry.Track(e, cfg, m)
		m.begin()
		s := spans{tracer: t.tracer, attrs: identify(id)}
		return leader.JoinHooks(m.tracker.Hooks(), t.roster.Show(id, m), s.hooks())
	}}
}

// instrument makes the instruments.
func (t *Telemetry) instrument(m metric.Meter) error {
	var errs []error
	for _, c := range telemetry.All(telemetry.Counter) {
		d := c.Definition()
		i, err := m.Int64Counter(d.Name, metric.WithDescription(d.Help), metric.WithUnit(d.Unit))
		t.counters[c], errs = i, append(errs, err)
	}
	for _, h := range telemetry.All(telemetry.Histogram) {
		d := h.Definition()
		i, err := m.Float64Histogram(d.Name, metric.WithDescription(d.Help), metric.WithUnit(d.Unit),
			metric.WithExplicitBucketBoundaries(d.Buckets...))
		t.histograms[h], errs = i, append(errs, err)
	}
	return errors.Join(append(errs, t.observe(m))...)
}

// observe makes the gauges, and has them asked of the elections whenever the
// metrics are read.
func (t *Telemetry) observe(m metric.Meter) error {
	gauges := make(map[telemetry.Metric]metric.Float64ObservableGauge)
	var all []metric.Observable
	var errs []error
	for _, g := range telemetry.All(telemetry.Gauge) {
		d := g.Definition()
		i, err := m.Float64ObservableGauge(d.Name, metric.WithDescription(d.Help), metric.WithUnit(d.Unit))
		gauges[g], all, errs = i, append(all, i), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, e := range t.roster.All() {
			e.tracker.Gauges(func(g telemetry.Metric, value float64, labels ...string) {
				o.ObserveFloat64(gauges[g], value, metric.WithAttributeSet(e.attributes(g, labels)))
			})
		}
		return nil
	}, all...)
	return err
}

// A meter is the telemetry.Sink of one election.
type meter struct {
	t       *Telemetry
	id      telemetry.Identity
	tracker *telemetry.Tracker
}

// begin shows counters that are to be seen before they are incremented. A
// histogram has no such call.
func (m *meter) begin() {
	for _, c := range telemetry.All(telemetry.Counter) {
		for _, labels := range c.Definition().Initial() {
			m.count(c, 0, labels...)
		}
	}
}

// Add implements telemetry.Sink.
func (m *meter) Add(c telemetry.Metric, labels ...string) { m.count(c, 1, labels...) }

func (m *meter) count(c telemetry.Metric, more int64, labels ...string) {
	m.t.counters[c].Add(context.Background(), more, metric.WithAttributeSet(m.attributes(c, labels)))
}

// Observe implements telemetry.Sink.
func (m *meter) Observe(h telemetry.Metric, value float64, labels ...string) {
	m.t.histograms[h].Record(context.Background(), value, metric.WithAttributeSet(m.attributes(h, labels)))
}

// attributes names the values of the labels of a metric.
func (m *meter) attributes(of telemetry.Metric, labels []string) attribute.Set {
	names := append(telemetry.Labels(), of.Definition().Labels...)
	attrs := make([]attribute.KeyValue, len(names))
	for i, value := range m.id.Values(labels) {
		attrs[i] = attribute.String(names[i], value)
	}
	return attribute.NewSet(attrs...)
}
