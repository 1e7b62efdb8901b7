// Package grpctasks carries the messages of package tasks over gRPC: each
// worker keeps one bidirectional stream to the leader, which it finds by the
// resolver of package leadergrpc.
//
//	srv := grpctasks.NewServer()              // on each candidate
//	srv.Register(grpcServer)
//	d := tasks.NewDispatcher(store, opts, srv) // and leader.Run(ctx, nc, cfg, d.Lead)
//
//	conn, _ := grpc.NewClient("leader:///jobs", append(builder.DialOptions(), creds)...) // on each worker
//	w := tasks.NewWorker(grpctasks.NewLink(conn, grpctasks.LinkOptions{}), handle, opts)
//
// A candidate that does not lead refuses streams with FailedPrecondition; the
// end of a term ends those that are open. A link connects again, for as long as
// its worker runs, even when a leader has fallen silent on an open connection,
// as a frozen leader does.
//
// The promises of tasks do not depend on the transport: workers judge terms by
// the messages. The stream does not authenticate: a client that may call the
// service may claim to be any worker, and a server that a worker connects to
// may claim to lead in any term. Use TLS with certificates on both sides.
//
//go:generate sh -c "cd ../../tools && GOWORK=off go run ./protogen ../grpc/grpctasks/internal/pb tasks.proto"
package grpctasks
