package grpctasks_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/grpctasks"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/tasks"
)

// A candidate serves workers while it leads, and a worker keeps a stream to it.
// With several candidates, the worker's channel is one that follows the leader:
// see package leadergrpc.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, srv, st := grpc.NewServer(), grpctasks.NewServer(), tasks.NewMemory()
	srv.Register(s)
	all.Go(func() { _ = s.Serve(l) })
	d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: "shout"}, srv)
	all.Go(func() {
		cfg := leader.ElectionConfig{Group: "shout", InstanceID: "one", AcquireGrace: leader.GraceOff}.WithProfile(leader.ProfileLowLatency)
		if err := leader.RunWithStore(ctx, memstore.New(), cfg, d.Lead); err != nil {
			fmt.Println(err)
		}
	})

	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	shout := func(_ context.Context, t tasks.Task) ([]byte, error) {
		return []byte(strings.ToUpper(string(t.Payload))), nil
	}
	w := tasks.NewWorker(grpctasks.NewLink(conn, grpctasks.LinkOptions{}), shout, tasks.WorkerOptions{Group: "shout", Name: "w1"})
	working := make(chan error, 1)
	go func() { working <- w.Run(ctx) }()

	if _, err := tasks.Submit(ctx, st, tasks.Spec{ID: "greeting", Payload: []byte("hello")}); err != nil {
		fmt.Println(err)
	}
	done, err := tasks.Wait(ctx, st, "greeting")
	fmt.Println(done.State, string(done.Result), err)
	cancel()
	fmt.Println(<-working)
	s.Stop()
	_ = conn.Close()
	all.Wait()
	// Output:
	// done HELLO <nil>
	// <nil>
}
