package leadergrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Two instances of a service, and a client that always calls the one that
// leads. The example uses the health service because it is available; by
// default every instance serves gRPC's own methods, unless Local excludes them.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	st := memstore.New()
	one, stopOne, err := startInstance(ctx, st, "one")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stopOne()
	_, stopTwo, err := startInstance(ctx, st, "two")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stopTwo()

	b := leadergrpc.NewBuilder(leadergrpc.ObserveStore(st), leadergrpc.BuilderOptions{})
	conn, err := grpc.NewClient("leader:///reports", append(b.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close() //nolint:errcheck // the process ends
	client := grpc_health_v1.NewHealthClient(conn)
	for _, id := range []string{"one", "two"} {
		resp, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "reports of " + id})
		fmt.Println(id, resp.GetStatus(), err)
		_ = one.Stop() // the second takes over
	}
	// Output:
	// one SERVING <nil>
	// two SERVING <nil>
}

// startInstance starts a server that serves where it leads.
func startInstance(ctx context.Context, st store.Store, id string) (e leader.Election, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	e, err = leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "reports", InstanceID: id, TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second, DeleteOnStop: true,
		Address:          l.Addr().String(),
		ConnectionParams: []byte(`{"methodConfig": [{"name": [{}], "waitForReady": true, "timeout": "10s"}]}`),
	})
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	all := leadergrpc.ServerOptions{Local: func(string) bool { return false }}
	s := grpc.NewServer(grpc.UnaryInterceptor(leadergrpc.UnaryServer(e, all)), grpc.StreamInterceptor(leadergrpc.StreamServer(e, all)))
	service := health.NewServer()
	service.SetServingStatus("reports of "+id, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, service)
	go func() { _ = s.Serve(l) }()
	stop = func() {
		_ = e.Stop()
		s.Stop()
	}
	if err := e.Start(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	for info := range e.Observe(ctx) {
		if info.ID != "" {
			break
		}
	}
	return e, stop, nil
}

// A resource that only the latest leader may change, and the leader's channel
// to it.
func ExampleRequireTerm() {
	// The resource. The gate's mark would be persisted, see fence.Gate.
	unary, stream := leadergrpc.RequireTerm(map[string]*fence.Gate{"reports": {}}, leadergrpc.ServerOptions{})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream))
	defer server.Stop()

	// The leader, whose calls have the context of its term.
	stateUnary, stateStream := leadergrpc.StateTerm("reports")
	conn, err := grpc.NewClient("dns:///archive.example:443", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(stateUnary), grpc.WithChainStreamInterceptor(stateStream))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close() //nolint:errcheck // the process ends
	err = conn.Invoke(context.Background(), "/archive.Archive/Add", nil, nil)
	fmt.Println(err)
	// Output: leadergrpc: no term in the context of a call
}
