package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderotel"
	"github.com/seed-ff2cb582/leader/leaderprom"
	"github.com/seed-ff2cb582/leader/telemetry"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// instrument returns hooks for one process, and the two registries in which
// they show it: one for leaderprom, and one for leaderotel by way of
// OpenTelemetry's exporter.
func instrument(t *testing.T) (direct, exported *prometheus.Registry, hooks leader.Hooks) {
	t.Helper()
	direct, exported = prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
	metrics, err := leaderprom.New(direct)
	if err != nil {
		t.Fatal(err)
	}
	exporter, err := otelprom.New(otelprom.WithRegisterer(exported), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	otel, err := leaderotel.New(leaderotel.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))})
	if err != nil {
		t.Fatal(err)
	}
	return direct, exported, leader.JoinHooks(metrics.Hooks(), otel.Hooks())
}

// begin starts a candidate, with its own client, in a bucket that it makes.
func begin(t *testing.T, nc *nats.Conn, id string, hooks leader.Hooks) leader.Election {
	t.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "leaders", Group: "reports", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: 200 * time.Millisecond,
		BucketAutoCreate: true, DeleteOnStop: true, Hooks: hooks, AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.OnPromote(func(context.Context, string) {})
	e.OnDemote(func() {})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// gather scrapes. The keys are names with labels, as in
// election_is_leader{bucket=leaders,…}. It does not distinguish the series that
// a histogram or a summary consists of.
func gather(reg prometheus.Gatherer) (map[string]*dto.Metric, error) {
	families, err := reg.Gather()
	all := make(map[string]*dto.Metric)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" { // to Prometheus, the same as none
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			all[fmt.Sprintf("%s{%s} %s", f.GetName(), strings.Join(labels, ","), f.GetType())] = m
		}
	}
	return all, err
}

// awaitGauge waits until the gauge of the instance has the value.
func awaitGauge(t *testing.T, reg prometheus.Gatherer, name, instance string, want float64) {
	t.Helper()
	key := fmt.Sprintf("%s{bucket=leaders,instance_id=%s,role=reports} GAUGE", name, instance)
	natslab.Eventually(t, fmt.Sprintf("%s = %v", key, want), func(context.Context) error {
		all, err := gather(reg)
		if err == nil && all[key].GetGauge().GetValue() != want {
			err = fmt.Errorf("it is %v", all[key])
		}
		return err
	})
}

// handOver has a lead until its renewals show, then hands over to b and stops
// a.
func handOver(t *testing.T, a leader.Election, regA *prometheus.Registry) {
	t.Helper()
	natslab.Eventually(t, "a renewal", func(context.Context) error {
		all, err := gather(regA)
		const renewals = "election_heartbeat_duration_seconds{bucket=leaders,instance_id=a,role=reports,status=ok} HISTOGRAM"
		if err == nil && all[renewals].GetHistogram().GetSampleCount() < 3 {
			err = errors.New("there are fewer than three")
		}
		return err
	})
	if err := a.Transfer(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := a.ValidateToken(t.Context()); !errors.Is(err, leader.ErrNotLeader) {
		t.Errorf("ValidateToken after the hand-over: %v", err)
	}
}

func TestAHandOverOnAServerShowsInBothAdapters(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	regA, otelA, hooksA := instrument(t)
	regB, otelB, hooksB := instrument(t)
	a := begin(t, srv.Connect(t), "a", hooksA)
	awaitGauge(t, regA, "election_is_leader", "a", 1)
	b := begin(t, srv.Connect(t), "b", hooksB)
	awaitGauge(t, regB, "election_connection_status", "b", 1)
	awaitGauge(t, regB, "election_term", "b", float64(a.Term().Number))
	handOver(t, a, regA)
	for _, reg := range []prometheus.Gatherer{regB, otelB} {
		awaitGauge(t, reg, "election_is_leader", "b", 1)
	}
	for _, reg := range []prometheus.Gatherer{regA, otelA} {
		awaitGauge(t, reg, "election_is_leader", "a", 0)
		awaitGauge(t, reg, "election_term", "a", float64(b.Term().Number))
	}
	const failures = "election_token_validation_failures_total{bucket=leaders,instance_id=a,role=reports} COUNTER"
	natslab.Eventually(t, "a failed validation of a token", func(context.Context) error {
		all, err := gather(regA)
		if err == nil && all[failures].GetCounter().GetValue() != 1 {
			err = fmt.Errorf("it is %v", all[failures])
		}
		return err
	})
	srv.Stop()
	awaitGauge(t, regB, "election_connection_status", "b", 0)
	awaitGauge(t, regB, "election_is_leader", "b", 0)
	srv.Run()
}

// TestBothAdaptersShowTheSameSeries is what lets one dashboard and one set of
// alerts serve both.
func TestBothAdaptersShowTheSameSeries(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	reg, otel, hooks := instrument(t)
	a := begin(t, srv.Connect(t), "a", hooks)
	awaitGauge(t, reg, "election_is_leader", "a", 1)
	handOver(t, a, reg) // to nobody; it campaigns again
	awaitGauge(t, reg, "election_is_leader", "a", 1)
	natslab.Eventually(t, "the same series", func(context.Context) error {
		direct, err := gather(reg)
		exported, err2 := gather(otel)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		want, got := slices.Sorted(maps.Keys(direct)), slices.Sorted(maps.Keys(exported))
		if !slices.Equal(want, got) {
			return fmt.Errorf("leaderprom shows %q, leaderotel %q", want, got)
		}
		return nil
	})
	direct, err := gather(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []telemetry.Metric{
		telemetry.IsLeader, telemetry.Transitions, telemetry.HeartbeatDuration, telemetry.LeaderDuration,
		telemetry.AcquireAttempts, telemetry.TokenValidationFailures, telemetry.ConnectionStatus,
	} {
		name := m.Definition().Prometheus()
		if !slices.ContainsFunc(slices.Collect(maps.Keys(direct)), func(key string) bool { return strings.HasPrefix(key, name+"{") }) {
			t.Errorf("%s is not shown", name)
		}
	}
}
