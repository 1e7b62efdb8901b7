package k8sstore_test

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestCertificatesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, f tlsfiles.Files) func(context.Context) {
		config := &rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key}}
		s, err := k8sstore.NewForConfig(config, k8sstore.Options{Namespace: "n"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return func(ctx context.Context) { _, _ = s.Get(ctx, "k") }
	})
}
