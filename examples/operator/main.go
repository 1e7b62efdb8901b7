// Operator is a small operator of Kubernetes whose leader is elected over NATS:
// two copies run, one works. For each LeaderGroup, a custom resource that names
// a group of elections, it keeps a ConfigMap that shows who leads that group,
// leadergroup-NAME, and the resource's status. A ConfigMap of that name that is
// not the resource's own it leaves alone, and reports in the status.
//
//	make servers SLICE="kubernetes etcd"             # once; then, in this directory:
//	GOWORK=off go test .                             # tests it on a real API server
//	kubectl apply -k examples/operator/deploy        # after deploy/kubernetes, which brings NATS
//
// It shows a manager of controller-runtime with a lock of package leaderkube,
// and writes that the API server itself refuses when they come from an earlier
// leader (deploy/fence.yaml).
//
// It reads KUBECONFIG (or the pod's account), NATS_URL, POD_NAME,
// LEADER_BUCKET, the bucket of its election and of groups that name none,
// LEADER_TTL, the length of its lease (20s), NAMESPACE, the namespace whose
// LeaderGroups it serves (all of them), and PROBES, where it answers /healthz
// and /readyz (:8081).
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
)

func main() { os.Exit(run(context.Background(), slog.New(slog.NewJSONHandler(os.Stderr, nil)))) }

func run(ctx context.Context, logger *slog.Logger) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	if err := operate(ctx, logger); err != nil {
		logger.Error("the operator ends", "error", err)
		return 1
	}
	return 0
}

// lock is the election as client-go sees it.
type lock = leaderkube.Lock[resourcelock.LeaderElectionRecord]

func operate(ctx context.Context, logger *slog.Logger) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), connection(end)...)
	if err != nil {
		return err
	}
	defer nc.Close()
	bucket := cmp.Or(os.Getenv("LEADER_BUCKET"), "leaders")
	lock, err := newLock(nc, bucket, logger)
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := newManager(config, lock)
	if err != nil {
		return err
	}
	o := newObservers(nc)
	if err := mgr.Add(o); err != nil {
		return err
	}
	if err := newReconciler(mgr.GetClient(), o, lock, bucket).register(mgr); err != nil {
		return err
	}
	return manage(ctx, mgr, lock)
}

// manage runs the manager until ctx ends or the lead is lost.
func manage(ctx context.Context, mgr ctrl.Manager, lock *lock) error {
	// Without Run the manager would notice the loss of its lock up to 2 s later,
	// and after a suspension only then. Nor would the record wait for its
	// reconciliations for longer than that.
	err := lock.Run(ctx, mgr.Start)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closes)
	defer cancel()
	err = errors.Join(err, lock.Close(closing))
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, nats.ErrConnectionClosed):
		return errors.Join(cause, err)
	case ctx.Err() == nil && err == nil:
		return errors.New("the lead was lost")
	}
	return err
}

// connection returns the options of the connection to NATS. It lasts for as
// long as the process: a permanently closed one ends it, since a standby
// without a connection would count as healthy, and never lead.
func connection(end context.CancelCauseFunc) []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		// Credentials may be refused while they are being renewed: see Security
		// in docs/operate/security.md.
		nats.IgnoreAuthErrorAbort(),
		nats.ClosedHandler(func(nc *nats.Conn) { end(errors.Join(nats.ErrConnectionClosed, nc.LastError())) }),
	}
}

// How long the end of a term, and of a pod, may take.
const (
	// drains is how long the manager waits for reconciliations to end. Its
	// default is 30 s.
	drains = 15 * time.Second
	// demotes is how long the record waits for the manager. If the manager took
	// longer, another copy would lead beside its reconciliations.
	demotes = drains + 5*time.Second
	// closes is how long the process waits for the release.
	closes = 5 * time.Second
)

func newLock(nc *nats.Conn, bucket string, logger *slog.Logger) (*lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	cfg, err := electionConfig(bucket, cmp.Or(os.Getenv("POD_NAME"), host), logger)
	if err != nil {
		return nil, err
	}
	return leaderkube.New[resourcelock.LeaderElectionRecord](nc, cfg, leaderkube.Options{Timing: leaderkube.TimingFor(cfg)})
}

func electionConfig(bucket, id string, logger *slog.Logger) (leader.ElectionConfig, error) {
	cfg := leader.ElectionConfig{
		Bucket: bucket, BucketAutoCreate: true, Group: "leadergroup-operator", InstanceID: id, DemoteTimeout: demotes, Logger: logger,
	}.WithProfile(leader.ProfileStable)
	if text := os.Getenv("LEADER_TTL"); text != "" {
		ttl, err := time.ParseDuration(text)
		if err != nil {
			return cfg, fmt.Errorf("LEADER_TTL=%s: must be a duration, such as 20s: %w", text, err)
		}
		cfg.TTL, cfg.HeartbeatInterval = ttl, ttl/5
	}
	return cfg, nil
}

func newManager(config *ctrlConfig, l *lock) (ctrl.Manager, error) {
	opts, err := managerOptions(l, l.Timing())
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, opts)
	if err == nil {
		// Readiness is not leadership: a rollout that waited for a new copy to
		// lead would never end. Neither depends on NATS, since no restart
		// brings it back.
		err = errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
	}
	if err != nil {
		return nil, fmt.Errorf("the manager: %w", err)
	}
	return mgr, nil
}

func managerOptions(l resourcelock.Interface, timing leaderkube.Timing) (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return ctrl.Options{}, err
	}
	addToScheme(scheme)
	patience := drains
	var within map[string]cache.Config
	if ns := os.Getenv("NAMESPACE"); ns != "" {
		within = map[string]cache.Config{ns: {}}
	}
	return ctrl.Options{
		Scheme: scheme, Cache: cache.Options{DefaultNamespaces: within},
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: cmp.Or(os.Getenv("PROBES"), ":8081"),
		LeaderElection: true, LeaderElectionResourceLockInterface: l, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &timing.LeaseDuration, RenewDeadline: &timing.RenewDeadline, RetryPeriod: &timing.RetryPeriod,
		GracefulShutdownTimeout: &patience,
	}, nil
}
