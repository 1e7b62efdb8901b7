// Servers and clients of gRPC while leaders come and go. They have a module of their own, which nobody requires.
module github.com/seed-ff2cb582/leader/test/reach

go 1.26.0

require (
	github.com/nats-io/nats.go v1.55.0
	github.com/seed-ff2cb582/leader v0.0.0
	github.com/seed-ff2cb582/leader/leadergrpc v0.0.0
	github.com/seed-ff2cb582/leader/test v0.0.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)
