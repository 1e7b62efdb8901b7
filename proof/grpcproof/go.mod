module github.com/seed-ff2cb582/leader/proof/grpcproof

go 1.26.0

require (
	github.com/seed-ff2cb582/leader v0.0.0
	github.com/seed-ff2cb582/leader/proof v0.0.0
	google.golang.org/grpc v1.83.2
)
