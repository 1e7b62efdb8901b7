package main

import (
	_ "k8s.io/client-go/tools/leaderelection/resourcelock"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/client"
	_ "github.com/nats-io/nats.go"
	_ "github.com/seed-ff2cb582/leader"
	_ "github.com/seed-ff2cb582/leader/leaderkube"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {}
