package mongostore

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestCertificatesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, f tlsfiles.Files) func(context.Context) {
		both := filepath.Join(t.TempDir(), "both.pem") // as the driver wants it
		join(t, both, f)
		client, err := mongo.Connect(clientOptions(&url.URL{Scheme: "mongodb", Host: address, Path: "/leader", RawQuery: url.Values{
			"tls": {"true"}, "tlsCAFile": {f.CA}, "tlsCertificateKeyFile": {both},
		}.Encode()}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
		return func(ctx context.Context) {
			join(t, both, f)
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_ = client.Ping(ctx, nil)
		}
	})
}

// join writes certificate and key into one file.
func join(t *testing.T, to string, f tlsfiles.Files) {
	t.Helper()
	var all []byte
	for _, name := range []string{f.Cert, f.Key} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		all = append(all, b...)
	}
	if err := os.WriteFile(to+".new", all, 0o600); err != nil {
		t.Error(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Error(err)
	}
}
