package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sdiscovery"
)

// A signpost makes Kubernetes send clients to the copy that leads, in two ways.
// Its pod carries the label, for a Service that selects it. The EndpointSlice
// of the service, which has no selector, contains its address. The slice
// decides: a copy that may not write it, since a later leader has, does not set
// the label.
type signpost struct {
	label, service string
}

func (s *signpost) define(fs *flag.FlagSet) {
	fs.StringVar(&s.label, "label", app.Env("LEADER_LABEL", ""),
		"in Kubernetes: the `key` of the label that the leader's pod carries, $POD_NAME with the uid $POD_UID; needs -service ($LEADER_LABEL)")
	fs.StringVar(&s.service, "service", app.Env("LEADER_SERVICE", ""),
		"in Kubernetes: the `name` of a Service without a selector, with a port named http, that leads to the leader ($LEADER_SERVICE)")
}

// keeper returns what keeps the signs of a copy until its election has ended,
// or ctx; that does nothing if none are wanted. The API server is from
// $KUBECONFIG, or of the cluster in whose pod the program runs.
func (s *signpost) keeper(pod string) (keep func(ctx context.Context, e leader.Election, logger *slog.Logger), err error) {
	if *s == (signpost{}) {
		return func(context.Context, leader.Election, *slog.Logger) {}, nil
	}
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	config, err := found.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("-label and -service need an API server: %w", err)
	}
	namespace, _, err := found.Namespace()
	if err != nil {
		return nil, fmt.Errorf("-label and -service need a namespace: %w", err)
	}
	a, err := k8sdiscovery.New(config, k8sdiscovery.Options{
		Namespace: namespace, Service: s.service, PortName: "http", Pod: pod, PodUID: os.Getenv("POD_UID"), Label: s.label,
	})
	if err != nil {
		return nil, fmt.Errorf("-label and -service: %w", err)
	}
	return func(ctx context.Context, e leader.Election, logger *slog.Logger) {
		_ = discovery.Keep(ctx, e, a, discovery.Options{Logger: logger}) // what ended the election, which Stop returns, too
		_ = a.Close()                                                    // it closes connections, and nothing is under way
	}, nil
}
