package redisstore

import (
	"context"
	"net/url"
	"testing"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestCertificatesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, f tlsfiles.Files) func(context.Context) {
		c, err := dial(&url.URL{Scheme: "rediss", Host: address}, f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return func(ctx context.Context) { _ = c.Ping(ctx).Err() }
	})
}
