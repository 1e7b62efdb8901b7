package leader_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A leader hands over to a candidate of its choice: its work stops, the record
// is released, and the others let the successor go first.
func ExampleElection_Transfer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st := memstore.New()
	candidates := make(map[string]leader.Election)
	for _, id := range []string{"worker-1", "worker-2", "worker-3"} {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "scheduler", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		promoted := make(chan struct{})
		e.OnPromote(func(context.Context, string) { close(promoted) })
		_ = e.Start(ctx)
		candidates[id] = e
		if id == "worker-1" {
			<-promoted // who is alone leads
		}
	}
	if err := candidates["worker-1"].Transfer(ctx, "worker-3"); err != nil {
		fmt.Println(err)
	}
	for info := range candidates["worker-2"].Observe(ctx) {
		if info.ID == "worker-3" {
			fmt.Println(info.ID, "leads")
			break
		}
	}
	for _, e := range candidates {
		_ = e.Stop()
	}
	// Output:
	// worker-3 leads
}

// A leader that dies leaves no message. Another leads when the lease has run
// out, by its own clock and with a margin for clocks that run at different
// rates: after TTL × 1.1.
func ExampleElection_failover() {
	const ttl = 500 * time.Millisecond
	ctx := context.Background()
	st := memstore.New()
	leads := make(chan string)
	candidate := func(id string) leader.Election {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "scheduler", InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 5,
		})
		if err != nil {
			panic(err)
		}
		e.OnPromote(func(context.Context, string) { leads <- id })
		_ = e.Start(ctx)
		return e
	}
	first := candidate("worker-1")
	fmt.Println(<-leads, "leads")
	// It stops and leaves its record as it is, as a crash would.
	_ = first.StopWithContext(ctx, leader.StopOptions{})
	begun := time.Now()
	second := candidate("worker-2")
	fmt.Println(<-leads, "leads, after a whole lease:", time.Since(begun) > ttl)
	_ = second.Stop()
	// Output:
	// worker-1 leads
	// worker-2 leads, after a whole lease: true
}

// A leader that is to be drained resigns: its work stops, the record is
// released, and it stays back until another has led, or for a lease.
func ExampleElection_Resign() {
	ctx := context.Background()
	st := memstore.New()
	leads := make(chan string)
	candidate := func(id string) leader.Election {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "scheduler", InstanceID: id, TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second,
		})
		if err != nil {
			panic(err)
		}
		e.OnPromote(func(context.Context, string) { leads <- id })
		_ = e.Start(ctx)
		return e
	}
	first := candidate("worker-1")
	fmt.Println(<-leads, "leads")
	second := candidate("worker-2")
	go func() { _ = first.Resign(ctx) }()
	fmt.Println(<-leads, "leads")
	_ = first.Stop()
	_ = second.Stop()
	// Output:
	// worker-1 leads
	// worker-2 leads
}

// During maintenance nobody is to lead, not even candidates that start
// meanwhile.
func ExampleElection_Pause() {
	ctx := context.Background()
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = e.Start(ctx)
	for info := range e.Observe(ctx) {
		if info.ID != "" {
			fmt.Println(info.ID, "leads")
			_ = e.Pause(ctx, "the database is being moved")
		} else if info.Reason == leader.ReasonPaused {
			fmt.Println("nobody leads:", info.Reason)
			break
		}
	}
	fmt.Println("barred:", e.Status().Barred)
	_ = e.Resume(ctx)
	for info := range e.Observe(ctx) {
		if info.ID != "" {
			fmt.Println(info.ID, "leads")
			break
		}
	}
	_ = e.Stop()
	// Output:
	// worker-1 leads
	// nobody leads: paused
	// barred: paused
	// worker-1 leads
}

// Stop with options: release the record, wait for the work to stop, but no
// longer than a deadline.
func ExampleElection_StopWithContext() {
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	promoted := make(chan struct{})
	e.OnPromote(func(ctx context.Context, _ string) {
		close(promoted)
		<-ctx.Done() // the work
		fmt.Println("the work has stopped:", context.Cause(ctx) != nil)
	})
	e.OnDemote(func() { fmt.Println("demoted") })
	_ = e.Start(context.Background())
	<-promoted
	err = e.StopWithContext(context.Background(), leader.StopOptions{
		DeleteKey: true, WaitForDemote: true, Timeout: 10 * time.Second,
	})
	fmt.Println("stopped:", err)
	// Output:
	// the work has stopped: true
	// demoted
	// stopped: <nil>
}

// An operator asks the leader to step down, and sees who takes over. On NATS
// the Control is made by NewControl.
func ExampleControl_StepDown() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	st := memstore.New()
	for _, id := range []string{"worker-1", "worker-2"} {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "reports", InstanceID: id, TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer e.Stop() //nolint:errcheck,gocritic // there are two of them, and the process ends
		if err := e.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
		for info := range e.Observe(ctx) {
			if info.ID != "" {
				break // worker-1 leads, and worker-2 knows it
			}
		}
	}

	ops, err := leader.NewControlWithStore(st, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ops.Close()
	h, err := ops.StepDown(ctx, "reports", "new kernel")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.From.ID, "handed over to", h.To.ID)
	// Output: worker-1 handed over to worker-2
}

// An operator chooses the next leader. The operator asks the current leader,
// whose work stops first, and the others let the successor go first.
func ExampleControl_Transfer() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	st := memstore.New()
	for _, id := range []string{"worker-1", "worker-2", "worker-3"} {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "reports", InstanceID: id, TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer e.Stop() //nolint:errcheck,gocritic // there are three of them, and the process ends
		if err := e.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
		for info := range e.Observe(ctx) {
			if info.ID != "" {
				break // worker-1 leads, and the others know it
			}
		}
	}

	ops, err := leader.NewControlWithStore(st, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ops.Close()
	h, err := ops.Transfer(ctx, "reports", "worker-3", "its disk is the faster one")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.From.ID, "handed over to", h.To.ID)
	// Output: worker-1 handed over to worker-3
}

// Before maintenance nobody is to lead, candidates that start meanwhile
// included. Pause returns when the work of the leader has ended.
func ExampleControl_Pause() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	st := memstore.New()
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "reports", InstanceID: "worker-1", TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	promoted := make(chan struct{}, 2)
	e.OnPromote(func(context.Context, string) { promoted <- struct{}{} })
	_ = e.Start(ctx)
	<-promoted

	ops, err := leader.NewControlWithStore(st, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ops.Close()
	h, err := ops.Pause(ctx, "reports", "the database moves")
	fmt.Println(h.From.ID, "has stopped:", err == nil)
	state, err := ops.State(ctx, "reports")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("paused by", state.PausedBy+":", state.PausedWhy)
	if _, err := ops.Resume(ctx, "reports"); err != nil {
		fmt.Println(err)
	}
	<-promoted
	fmt.Println("worker-1 leads again")
	_ = e.Stop()
	// Output:
	// worker-1 has stopped: true
	// paused by ann: the database moves
	// worker-1 leads again
}

// A host is known to be dead, and its lease is long. Vacate ends its record, so
// that the next candidate leads at once. Without Force it would first watch the
// record for a whole lease.
func ExampleControl_Vacate() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	st := memstore.New()
	dead, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "reports", InstanceID: "worker-1", TTL: 10 * time.Minute, HeartbeatInterval: time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	promoted := make(chan struct{})
	dead.OnPromote(func(context.Context, string) { close(promoted) })
	_ = dead.Start(ctx)
	<-promoted
	// Here the election stops and leaves its record, as a crash would.
	_ = dead.StopWithContext(ctx, leader.StopOptions{})

	ops, err := leader.NewControlWithStore(st, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ops.Close()
	vacancy, err := ops.Vacate(ctx, leader.VacateRequest{Group: "reports", Force: true, Why: "the host burned down"})
	fmt.Println(vacancy.Reason, "by", vacancy.By, err)
	// Output: vacated by ann <nil>
}
