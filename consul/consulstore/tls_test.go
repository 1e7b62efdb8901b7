package consulstore

import (
	"context"
	"net/url"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestCertificatesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, f tlsfiles.Files) func(context.Context) {
		config, err := ClientConfig(&url.URL{Scheme: "consuls", Host: address, RawQuery: url.Values{"ca": {f.CA}, "cert": {f.Cert}, "key": {f.Key}}.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		c, err := api.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) {
			_, _, _ = c.KV().Get("k", (&api.QueryOptions{}).WithContext(ctx))
		}
	})
}

// A script may leave the variable empty that names the file.
func TestEmptyFileOfTheURLKeepsTLS(t *testing.T) {
	t.Parallel()
	config, err := ClientConfig(&url.URL{Scheme: "consul", Host: "a", RawQuery: "ca="})
	if err != nil || config.Scheme != "https" {
		t.Errorf("scheme %q, %v", config.Scheme, err)
	}
}
