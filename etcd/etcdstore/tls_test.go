package etcdstore

import (
	"context"
	"net/url"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestCertificatesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, f tlsfiles.Files) func(context.Context) {
		config, err := ClientConfig(&url.URL{Scheme: "etcds", Host: address, RawQuery: url.Values{"ca": {f.CA}, "cert": {f.Cert}, "key": {f.Key}}.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		c, err := clientv3.New(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
			defer cancel()
			_, _ = c.Get(ctx, "k")
		}
	})
}

// A script may leave the variable empty that names the file.
func TestEmptyFileOfTheURLKeepsTLS(t *testing.T) {
	t.Parallel()
	config, err := ClientConfig(&url.URL{Scheme: "etcd", Host: "a", RawQuery: "ca="})
	if err != nil || config.TLS == nil {
		t.Errorf("TLS %v, %v", config.TLS, err)
	}
}
