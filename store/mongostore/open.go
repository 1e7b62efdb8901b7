package mongostore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/ocsp"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/tlsfiles"
)

// The form of URLs.
const form = "mongodb[+srv]://[USER:PASSWORD@]HOST[:27017][,HOST2…]/DATABASE[?collection=NAME&…]"

// Driver opens stores by connection strings of MongoDB, which name a database.
// The parameter collection is [Options.Collection]; the others are the driver's
// (replicaSet, tls, authSource, …). The files of certificates that it names are
// read at each handshake.
func Driver() store.Driver {
	return base.Driver(form, openURL, "mongodb", "mongodb+srv")
}

// Open makes a client, and returns a store on it once a primary has answered.
// Close disconnects the client. See [Driver] for the URL. Errors are classified
// like the errors of package store.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	return base.Open[*Store](ctx, rawURL, Driver())
}

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	database := strings.TrimPrefix(u.Path, "/")
	if u.Host == "" || database == "" {
		return nil, base.InvalidURL(errors.New("it names no host or no database: " + form))
	}
	q := base.Parameters(u)
	opts := Options{Collection: q.Text("collection")}
	query, err := q.Rest()
	if err != nil {
		return nil, err
	}
	own := *u
	own.RawQuery = query.Encode()
	client, err := mongo.Connect(clientOptions(&own))
	if err != nil {
		return nil, base.InvalidURL(errors.New(hidden(err, u)))
	}
	s, err := newStore(client.Database(database), opts, func() error {
		// The client takes leave of a primary that may be gone.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return client.Disconnect(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, client.Disconnect(ctx))
	}
	return base.Reached(ctx, s, s.Store, func(ctx context.Context) error {
		if _, err := s.hello(ctx); err != nil {
			return readError(ctx, "hello", err)
		}
		return nil
	})
}

// clientOptions are the client's by a URL.
func clientOptions(u *url.URL) *options.ClientOptions {
	o := options.Client().ApplyURI(u.String()).SetRetryWrites(false)
	if o.TLSConfig == nil || !namesFiles(u) {
		return o
	}
	secure := tlsfiles.Dial(func() (*tls.Config, error) {
		fresh := options.Client().ApplyURI(u.String())
		return fresh.TLSConfig, fresh.Validate()
	})
	revoked := revocation(o)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := secure(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if c, ok := conn.(*tls.Conn); ok {
			err = revoked(ctx, c.ConnectionState())
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
	return o.SetDialer(dialer(dial)).SetTLSConfig(nil) // else it would be TLS in TLS
}

// revocation returns the check that the driver makes after its own handshakes:
// whether the certificate of a server is revoked. The driver's package is not
// stable, but is the same check, with the same settings.
func revocation(o *options.ClientOptions) func(context.Context, tls.ConnectionState) error {
	if o.TLSConfig.InsecureSkipVerify || o.DisableCertificateRevocationCheck != nil && *o.DisableCertificateRevocationCheck {
		return func(context.Context, tls.ConnectionState) error { return nil }
	}
	settings := &ocsp.VerifyOptions{
		Cache: ocsp.NewCache(), HTTPClient: o.HTTPClient,
		DisableEndpointChecking: o.DisableOCSPEndpointCheck != nil && *o.DisableOCSPEndpointCheck,
	}
	return func(ctx context.Context, state tls.ConnectionState) error { return ocsp.Verify(ctx, state, settings) }
}

// namesFiles reports whether a URL has parameters of the driver that name files.
func namesFiles(u *url.URL) bool {
	for name := range u.Query() {
		if name = strings.ToLower(name); strings.HasSuffix(name, "file") && (strings.HasPrefix(name, "tls") || strings.HasPrefix(name, "ssl")) {
			return true
		}
	}
	return false
}

// A dialer is a function as an options.ContextDialer.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext implements options.ContextDialer.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

// hidden is the error's text without the URL's password.
func hidden(err error, u *url.URL) string {
	text := err.Error()
	if password, ok := u.User.Password(); ok && password != "" {
		text = strings.ReplaceAll(text, password, "xxxxx")
		text = strings.ReplaceAll(text, url.QueryEscape(password), "xxxxx")
	}
	return text
}
