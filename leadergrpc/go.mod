module github.com/seed-ff2cb582/leader/leadergrpc

go 1.26.0

require (
	github.com/seed-ff2cb582/leader v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260825221802-da73d73af1c5
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)
