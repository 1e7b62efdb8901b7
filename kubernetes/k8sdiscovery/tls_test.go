package k8sdiscovery_test

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/kubernetes/k8sdiscovery"
	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestCertificatesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, f tlsfiles.Files) func(context.Context) {
		config := &rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key}}
		a, err := k8sdiscovery.New(config, k8sdiscovery.Options{Namespace: "apps", Service: "reports-leader", Pod: "reports-0", PodUID: "4f1e5d1c-8a52-4a0e-9d5c-1b8e1d6f2a3b"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		return func(ctx context.Context) { _, _ = a.Look(ctx, "reports") }
	})
}
