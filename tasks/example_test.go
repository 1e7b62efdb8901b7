package tasks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/tasks"
)

// A candidate that hands out tasks when it leads, a worker, and a client, all
// in one program. Over NATS the store is a Bucket, and the transport NewNATS.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	st, wires := tasks.NewMemory(), new(tasks.Local)

	d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: "shout"}, wires)
	all.Go(func() {
		cfg := leader.ElectionConfig{Group: "shout", InstanceID: "one", AcquireGrace: leader.GraceOff}.WithProfile(leader.ProfileLowLatency)
		if err := leader.RunWithStore(ctx, memstore.New(), cfg, d.Lead); err != nil {
			fmt.Println(err)
		}
	})
	shout := func(_ context.Context, t tasks.Task) ([]byte, error) {
		return []byte(strings.ToUpper(string(t.Payload))), nil
	}
	w := tasks.NewWorker(wires, shout, tasks.WorkerOptions{Group: "shout", Name: "w1"})
	all.Go(func() {
		if err := w.Run(ctx); err != nil {
			fmt.Println(err)
		}
	})

	if _, err := tasks.Submit(ctx, st, tasks.Spec{ID: "greeting", Payload: []byte("hello")}); err != nil {
		fmt.Println(err)
	}
	s, err := tasks.Wait(ctx, st, "greeting")
	fmt.Println(s.State, string(s.Result), err)
	cancel()
	all.Wait()
	// Output: done HELLO <nil>
}
