package tlsfilestest_test

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

// A test of a client that dials.
func Example() { //nolint:testableexamples // it takes a test
	_ = func(t *testing.T) {
		tlsfilestest.Run(t, func(address string, files tlsfiles.Files) func(context.Context) {
			return func(ctx context.Context) {
				config, err := files.Config(nil)
				if err != nil {
					return
				}
				if c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address); err == nil {
					_ = c.Close()
				}
			}
		})
	}
}
