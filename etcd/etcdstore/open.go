package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/tlsfiles"
)

// The form of URLs, and etcd's usual port for clients.
const (
	form = "etcd[s]://[USER:PASSWORD@]HOST[:2379][,HOST2:2379…][/PREFIX/][?ca=FILE&cert=FILE&key=FILE]"
	port = "2379"
)

// Driver opens stores by URLs such as
//
//	etcd://127.0.0.1:2379
//	etcds://app:secret@etcd1:2379,etcd2:2379,etcd3:2379/leader/?ca=/etc/etcd/ca.pem
//
// The path without its first slash is the prefix ([Options.Prefix]). With the
// scheme etcds, or with any of these parameters, the connection is by TLS: ca
// is a file with the certificates that vouch for the servers' (default: the
// system's), cert and key are files with a certificate of the client's own. They
// are read at each handshake.
func Driver() store.Driver {
	return base.Driver(form, openURL, "etcd", "etcds")
}

// Open returns a store with a new client, which Close closes, once a majority
// of the servers has answered. See [Driver] for the URL. Errors are classified
// as in package store.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	return base.Open[*Store](ctx, rawURL, Driver())
}

// The keepalive of a client of our own: a server that is frozen or cut off is
// given up after the sum. gRPC pings no more often than each 10 s.
const (
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	config, err := ClientConfig(u)
	if err != nil {
		return nil, base.InvalidURL(err)
	}
	client, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := newStore(client, Options{Prefix: strings.TrimPrefix(u.Path, "/")}, client.Close)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return base.Reached(ctx, s, s.Store, func(ctx context.Context) error {
		_, err := s.members(ctx)
		return err
	})
}

// connect makes a client. A client with a user logs in immediately, until ctx
// ends, or for as long as the timeout.
func connect(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	config.DialTimeout = DefaultTimeout
	// The client outlives the call: ctx may end it only while it is made. When
	// it is closed nothing depends on its context, which nobody has to end.
	own, end := context.WithCancel(context.Background())
	config.Context = own
	made := context.AfterFunc(ctx, end)
	client, err := clientv3.New(config)
	switch ended := !made(); {
	case ended && err == nil:
		_ = client.Close()
		err = context.Cause(ctx)
	case ended && errors.Is(err, context.Canceled):
		err = context.Cause(ctx)
	case err == nil:
		return client, nil
	}
	c := class(err)
	if c == nil {
		c = store.ErrTransient
	}
	return nil, fmt.Errorf("%w: connecting: %w", c, err)
}

// ClientConfig is a client's configuration by a URL of [Driver], whose path it
// leaves aside, for programs that use the same servers for more than a store.
// Nothing is sent. The error names the fault in the URL.
func ClientConfig(u *url.URL) (clientv3.Config, error) {
	config, err := configOf(u)
	config.Logger = zap.NewNop()
	config.DialKeepAliveTime, config.DialKeepAliveTimeout = keepAliveTime, keepAliveTimeout
	return config, err
}

// configOf is the client's configuration by a URL.
func configOf(u *url.URL) (clientv3.Config, error) {
	var config clientv3.Config
	if u.Host == "" {
		return config, errors.New("it names no host: " + form)
	}
	q := base.Parameters(u)
	// By TLS also with an empty one: a variable of a script may be.
	secure := strings.EqualFold(u.Scheme, "etcds") || q.Has("ca") || q.Has("cert") || q.Has("key")
	files := tlsfiles.Files{CA: q.Text("ca"), Cert: q.Text("cert"), Key: q.Text("key")}
	err := q.Fault()
	if err != nil {
		return config, err
	}
	scheme := "http"
	if secure {
		if config.TLS, err = files.Config(nil); err != nil {
			return config, err
		}
		config.DialOptions = append(config.DialOptions, grpc.WithTransportCredentials(transport{credentials.NewTLS(config.TLS), files}))
		scheme = "https"
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		one := url.URL{Scheme: scheme, Host: host}
		if one.Hostname() == "" {
			return config, fmt.Errorf("a host is empty in %q", u.Host)
		}
		if one.Port() == "" {
			one.Host = strings.TrimSuffix(host, ":") + ":" + port
		}
		if _, _, err := net.SplitHostPort(one.Host); err != nil {
			return config, err
		}
		config.Endpoints = append(config.Endpoints, one.String())
	}
	if u.User != nil {
		config.Username = u.User.Username()
		config.Password, _ = u.User.Password()
		if config.Username == "" || config.Password == "" {
			return config, errors.New("a user needs a name and a password")
		}
	}
	return config, nil
}

// A transport is gRPC's by TLS, with the files as they are at each handshake.
type transport struct {
	credentials.TransportCredentials // of the files as they were at first

	files tlsfiles.Files
}

// ClientHandshake implements [credentials.TransportCredentials].
func (t transport) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := t.files.Config(nil)
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone implements [credentials.TransportCredentials].
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone(), t.files}
}
