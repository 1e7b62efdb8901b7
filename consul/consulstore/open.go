package consulstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/tlsfiles"
)

// The form of URLs, and the usual port of an agent's HTTP interface.
const (
	form = "consul[s]://[:TOKEN@]HOST[:8500][/PREFIX/][?dc=NAME&ca=FILE&cert=FILE&key=FILE]"
	port = "8500"
)

// Driver opens stores by URLs such as
//
//	consul://127.0.0.1:8500
//	consuls://:TOKEN@consul.internal:8501/leader/?ca=/etc/consul/ca.pem
//
// The password is the ACL token; the path without its first slash is the prefix
// ([Options.Prefix]). With the scheme consuls, or with any of ca, cert and key,
// the connection is by TLS: ca is a file with the certificates that vouch for
// the agent's (default: the system's), cert and key are files with a
// certificate of the client's own. They are read at each handshake. dc names
// another datacenter than the agent's. Consul's own environment variables
// (CONSUL_HTTP_TOKEN, CONSUL_CACERT, …) supply whatever the URL leaves out.
func Driver() store.Driver {
	return base.Driver(form, openURL, "consul", "consuls")
}

// Open returns a store with a new client, once the agent has answered that the
// servers have a leader. Close ends its connections. See [Driver] for the URL.
// Errors are classified as in package store.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	return base.Open[*Store](ctx, rawURL, Driver())
}

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	config, err := ClientConfig(u)
	if err != nil {
		return nil, base.InvalidURL(err)
	}
	// A call that is given up leaves the connection that was being made for it,
	// which the next does not wait for.
	config.Transport.MaxConnsPerHost = calls + most
	client, err := api.NewClient(config)
	if err != nil {
		return nil, base.InvalidURL(err)
	}
	s, err := newStore(client, Options{Prefix: strings.TrimPrefix(u.Path, "/")}, func() error {
		config.Transport.CloseIdleConnections()
		return nil
	})
	if err != nil {
		return nil, base.InvalidURL(err)
	}
	return base.Reached(ctx, s, s.Store, s.hasLeader)
}

// ClientConfig is a client's configuration by a URL of [Driver], whose path it
// leaves aside, for programs that use the same agent for more than a store.
// Nothing is sent. The error names the fault in the URL.
func ClientConfig(u *url.URL) (*api.Config, error) {
	config, err := configOf(u)
	if err != nil {
		return nil, err
	}
	// The client's own transport keeps fewer idle connections than there are
	// blocking queries.
	config.Transport.MaxIdleConnsPerHost = most
	config.Transport.HTTP2 = base.HTTP2()
	return config, nil
}

// configOf is the client's configuration by a URL.
func configOf(u *url.URL) (*api.Config, error) {
	config := api.DefaultConfig()
	if u.Hostname() == "" {
		return nil, errors.New("it names no host: " + form)
	}
	config.Address = u.Host
	if u.Port() == "" {
		config.Address = strings.TrimSuffix(u.Host, ":") + ":" + port
	}
	if u.User != nil {
		token, _ := u.User.Password()
		if u.User.Username() != "" || token == "" {
			return nil, errors.New("a token follows a colon, without a user: " + form)
		}
		config.Token, config.TokenFile = token, ""
	}
	q := base.Parameters(u)
	config.Scheme = "http"
	// By TLS also with an empty one: a variable of a script may be.
	if strings.EqualFold(u.Scheme, "consuls") || q.Has("ca") || q.Has("cert") || q.Has("key") {
		config.Scheme = "https"
	}
	config.Datacenter = q.Text("dc")
	files := tlsfiles.Files{CA: q.Text("ca"), Cert: q.Text("cert"), Key: q.Text("key")}
	if err := q.Fault(); err != nil {
		return nil, err
	}
	return config, secured(config, files)
}

// secured puts the files of the URL into the configuration, and reads them.
func secured(config *api.Config, of tlsfiles.Files) error {
	if of.CA != "" {
		config.TLSConfig.CAFile = of.CA
	}
	if (of.Cert == "") != (of.Key == "") {
		return errors.New("of the parameters cert and key one is missing")
	}
	if of.Cert != "" {
		config.TLSConfig.CertFile, config.TLSConfig.KeyFile = of.Cert, of.Key
	}
	if config.Scheme != "https" {
		return nil
	}
	files := config.TLSConfig
	secure, err := api.SetupTLSConfig(&files)
	if err != nil {
		return fmt.Errorf("the parameters ca, cert and key: %w", err)
	}
	config.Transport.TLSClientConfig = secure // through a proxy
	config.Transport.DialTLSContext = tlsfiles.Dial(func() (*tls.Config, error) { return api.SetupTLSConfig(&files) }, "h2", "http/1.1")
	config.HttpClient = &http.Client{Transport: config.Transport}
	return nil
}
