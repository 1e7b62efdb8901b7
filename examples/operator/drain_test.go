package main

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The loop of a manager that has lost its lock gives up within 2 s, and its
// reconciliations may take longer.
func TestTheNextOperatorLeadsWhenTheManagerOfTheLastHasEnded(t *testing.T) {
	t.Setenv("PROBES", "0")
	cfg, err := electionConfig("", "one", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cfg.BucketAutoCreate = false // the store is another one
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		l, err := leaderkube.NewWithStore[resourcelock.LeaderElectionRecord](st, cfg, leaderkube.Options{Timing: leaderkube.TimingFor(cfg)})
		if err != nil {
			t.Fatal(err)
		}
		mgr, err := newManager(&rest.Config{Host: "http://127.0.0.1:1"}, l)
		if err != nil {
			t.Fatal(err)
		}
		began, ended := make(chan struct{}), make(chan struct{})
		if err := mgr.Add(reconciliation(began, ended)); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- manage(t.Context(), mgr, l) }()
		<-began
		next := cfg
		next.InstanceID = "two"
		e, err := leader.NewElectionWithStore(st, next)
		if err != nil {
			t.Fatal(err)
		}
		leads := make(chan struct{})
		e.OnPromote(func(context.Context, string) { close(leads) })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		control, err := leader.NewControlWithStore(st, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer control.Close()
		if _, err := control.StepDown(t.Context(), cfg.Group, "to see its manager end"); err != nil {
			t.Fatal(err)
		}
		<-leads
		select {
		case <-ended:
		default:
			t.Error("the next one leads, and a reconciliation goes on")
		}
		if err := <-over; err == nil || err.Error() != "the lead was lost" {
			t.Errorf("it ended with %v", err)
		}
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// reconciliation is work of a manager that takes nearly all of its time to end.
func reconciliation(began, ended chan<- struct{}) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		time.Sleep(drains - time.Second)
		close(ended)
		return nil
	})
}
