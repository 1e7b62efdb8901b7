package grpcproof_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/grpcproof"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// health is some service.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
}

// Check answers.
func (health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// A client takes answers of the leader alone, and has never seen the store.
func ExampleUnaryAsker() {
	key, err := proof.GenerateKey() // or proof.ReadKey
	must(err)
	keys, err := proof.NewKeySet(key.Public()) // or proof.ReadKeySet
	must(err)

	// The service, on a host that leads.
	cfg := leader.ElectionConfig{Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second}
	e, err := leader.NewElectionWithStore(memstore.New(), cfg)
	must(err)
	signer, err := proof.NewSigner(e, cfg.Group, cfg.InstanceID, key, proof.SignerOptions{})
	must(err)
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcproof.ProveUnary(signer)))
	grpc_health_v1.RegisterHealthServer(server, health{})
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	must(err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	led := make(chan struct{})
	e.OnPromote(func(context.Context, string) { close(led) })
	must(e.Start(context.Background()))
	<-led

	// The client.
	verifier, err := proof.NewVerifier("reports", keys, proof.VerifierOptions{})
	must(err)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithUnaryInterceptor(grpcproof.UnaryAsker(verifier)),
		grpc.WithTransportCredentials(insecure.NewCredentials())) // TLS, elsewhere than in an example
	must(err)
	client := grpc_health_v1.NewHealthClient(conn)
	ask := func() {
		answer, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		if errors.Is(err, grpcproof.ErrUnproved) {
			fmt.Println("not the leader's answer")
			return
		}
		must(err)
		fmt.Println(answer.GetStatus())
	}
	ask()
	must(e.Stop())
	ask()

	must(conn.Close())
	server.Stop()
	must(<-served)
	// Output:
	// SERVING
	// not the leader's answer
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
