package pgstore

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestCertificatesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, f tlsfiles.Files) func(context.Context) {
		_, cfg, err := configOf(&url.URL{Scheme: "postgres", Host: address, RawQuery: url.Values{
			"sslmode": {"verify-full"}, "sslnegotiation": {"direct"}, "sslrootcert": {f.CA}, "sslcert": {f.Cert}, "sslkey": {f.Key},
		}.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return func(ctx context.Context) { _ = pool.Ping(ctx) }
	})
}
