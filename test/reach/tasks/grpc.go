package main

import (
	"context"
	"iter"
	"net"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/grpctasks"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

// serveGRPC starts a server for workers on loopback.
func serveGRPC(ctx context.Context) (srv *grpctasks.Server, address string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	s := grpc.NewServer()
	srv = grpctasks.NewServer()
	srv.Register(s)
	go func() { _ = s.Serve(l) }()
	return srv, l.Addr().String(), s.Stop, nil
}

// reachLeader returns a channel to the leader, or to an address if there is
// one.
func reachLeader(nc *nats.Conn, address string) (*grpc.ClientConn, error) {
	creds := grpc.WithTransportCredentials(insecure.NewCredentials())
	if address != "" {
		return grpc.NewClient(address, creds)
	}
	b := leadergrpc.NewBuilder(func(ctx context.Context, group string) iter.Seq2[leader.LeaderInfo, error] {
		return leader.Observe(ctx, nc, elections, group)
	}, leadergrpc.BuilderOptions{})
	return grpc.NewClient("leader:///"+group, append(b.DialOptions(), creds)...)
}
