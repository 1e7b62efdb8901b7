package leader_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

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

// An operator says who leads next. The leader is asked, whose work stops first,
// and the others let the successor go first.
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
