module github.com/seed-ff2cb582/leader/test

go 1.26.0

require (
	github.com/nats-io/nats-server/v2 v2.15.2
	github.com/nats-io/nats.go v1.55.0
	github.com/seed-ff2cb582/leader v0.0.0
	go.uber.org/goleak v1.3.0
)
