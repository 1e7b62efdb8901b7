package leaderprom_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderprom"
	"github.com/seed-ff2cb582/leader/tasks"
)

// dispatch makes a leader and a worker run three tasks, of which one fails at
// first and one permanently, and leaves one that nobody takes.
func dispatch(ctx context.Context, t *testing.T, hooks tasks.Hooks) (end func()) {
	t.Helper()
	st, link := tasks.NewMemory(), &tasks.Local{}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 2)
	d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: "g", Hooks: hooks}, link)
	go func() { ended <- d.Lead(ctx, leader.Term{Number: 1, Token: "t"}) }()
	var failed atomic.Bool
	w := tasks.NewWorker(link, func(_ context.Context, task tasks.Task) ([]byte, error) {
		switch {
		case task.ID == "never":
			return nil, tasks.Permanent(errors.New("no"))
		case task.ID == "later" && !failed.Swap(true):
			return nil, errors.New("not yet")
		}
		return nil, nil
	}, tasks.WorkerOptions{Group: "g", Name: "w"})
	go func() { ended <- w.Run(ctx) }()
	for _, s := range []tasks.Spec{{ID: "once"}, {ID: "later"}, {ID: "never"}, {ID: "nobody", To: tasks.Target{Label: "gpu"}}} {
		if _, err := tasks.Submit(ctx, st, s); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Second)
	synctest.Wait()
	return func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
}

func TestTasksAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		m, err := leaderprom.NewTasks(reg)
		if err != nil {
			t.Fatal(err)
		}
		hooks := m.Hooks("g")
		end := dispatch(t.Context(), t, hooks)
		hooks.Refused("x", "w") // what deposed leaders hear is tested in package tasks
		demandGauge(t, reg, "election_tasks{role=g,state=queued}", 1)
		demandGauge(t, reg, "election_tasks{role=g,state=assigned}", 0)
		demandGauge(t, reg, "election_tasks_workers{role=g}", 1)
		all := gather(t, reg)
		for name, want := range map[string]float64{"assigned": 4, "retried": 1, "done": 2, "failed": 1, "refused": 1} {
			if got := all["election_tasks_"+name+"_total{role=g}"].GetCounter().GetValue(); got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		if n := all["election_tasks_assignment_duration_seconds{role=g}"].GetHistogram().GetSampleCount(); n != 4 {
			t.Errorf("%d assignments took some time, want 4", n)
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v, %v", problems, err)
		}
		end()
		demandGauge(t, reg, "election_tasks{role=g,state=queued}", 0)
		demandGauge(t, reg, "election_tasks_workers{role=g}", 0)
	})
}

func TestTasksAreRegisteredOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := leaderprom.NewTasks(reg); err != nil {
		t.Fatal(err)
	}
	if _, err := leaderprom.NewTasks(reg); !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		t.Error(err)
	}
	if _, err := leaderprom.NewTasks(nil); err == nil {
		t.Error("a registerer that is nil was taken")
	}
}

// Where the registry refuses one metric, none stays registered, so that the
// program may try again.
func TestTasksThatAreRefusedAreNotRegisteredInPart(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	// A registry never forgets the labels and the help that a name had.
	inTheWay := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "election_tasks_refused_total", Help: "Orders that a worker refused, since it had seen a newer term.",
	}, []string{"role"})
	reg.MustRegister(inTheWay)
	if _, err := leaderprom.NewTasks(reg); err == nil {
		t.Fatal("a name that is taken was taken again")
	}
	reg.Unregister(inTheWay)
	if _, err := leaderprom.NewTasks(reg); err != nil {
		t.Error(err)
	}
}

// A registry panics at a label that is not UTF-8, and a metric must not end a
// program.
func TestTaskGroupWithInvalidUTF8IsShown(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m, err := leaderprom.NewTasks(reg)
	if err != nil {
		t.Fatal(err)
	}
	m.Hooks("crawl\xff").Stats(tasks.Stats{Workers: 2})
	demandGauge(t, reg, "election_tasks_workers{role=crawl\uFFFD}", 2)
}
