package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/seed-ff2cb582/leader/leaderkube"
)

// deployed is the operator's Deployment.
func deployed(t *testing.T) (d appsv1.Deployment) {
	t.Helper()
	for doc := range strings.SplitSeq(string(read(t, "operator.yaml")), "\n---\n") {
		if strings.Contains(doc, "\nkind: Deployment\n") {
			if err := yaml.UnmarshalStrict([]byte(doc), &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("operator.yaml has no Deployment of one container: %+v", d)
	}
	return d
}

// probed are the paths that the manifest has Kubernetes ask for.
func probed(t *testing.T) []string {
	t.Helper()
	c := deployed(t).Spec.Template.Spec.Containers[0]
	if c.LivenessProbe == nil || c.ReadinessProbe == nil {
		t.Fatal("the manifest has no probe of liveness, or of readiness")
	}
	return []string{c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path}
}

// A copy without a connection waits for ever, and counts as healthy.
func TestTheConnectionLastsAsLongAsTheProcess(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	opts := nats.GetDefaultOptions()
	for _, o := range connection(end) {
		if err := o(&opts); err != nil {
			t.Fatal(err)
		}
	}
	if opts.MaxReconnect != -1 || !opts.RetryOnFailedConnect || !opts.IgnoreAuthErrorAbort {
		t.Errorf("%+v", opts)
	}
	opts.ClosedCB(new(nats.Conn))
	if err := context.Cause(ctx); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("the process goes on without it: %v", err)
	}
}

func TestALeaseThatCannotBeReadIsAnError(t *testing.T) {
	t.Setenv("LEADER_TTL", "30")
	cfg, err := electionConfig("leaders", "one", slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "LEADER_TTL=30") {
		t.Errorf("%v; the lease is %v", err, cfg.TTL)
	}
}

// A record that is released while reconciliations go on has another operator
// lead beside them.
func TestTheRecordWaitsForTheManagerAndThePodForBoth(t *testing.T) {
	for _, ttl := range []string{"", "5s", "1m"} {
		t.Setenv("LEADER_TTL", ttl)
		cfg, err := electionConfig("leaders", "one", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		timing := leaderkube.TimingFor(cfg)
		opts, err := managerOptions(nil, timing)
		if err != nil {
			t.Fatal(err)
		}
		manager := 30 * time.Second // controller-runtime's own
		if opts.GracefulShutdownTimeout != nil {
			manager = *opts.GracefulShutdownTimeout
		}
		record := cfg.DemoteTimeout
		if record == 0 {
			record = max(cfg.TTL, 5*time.Second) // the election's own
		}
		if manager+timing.RenewDeadline+timing.RetryPeriod > record {
			t.Errorf("TTL %v: the manager may take %v, its loop %v more, and the record is released after %v",
				cfg.TTL, manager, timing.RenewDeadline+timing.RetryPeriod, record)
		}
		pod := time.Duration(*deployed(t).Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
		if pod <= record+closes {
			t.Errorf("TTL %v: the pod is killed after %v, and the release may come after %v", cfg.TTL, pod, record+closes)
		}
	}
}
