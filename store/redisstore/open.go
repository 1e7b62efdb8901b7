package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/tlsfiles"
)

// Driver opens stores by their URL, with a separate connection. In addition to
// the parameters of [redis.ParseURL] the URL may have prefix, timeout, wait and
// fenced, which are the fields of [Options]. With master, the name of a master,
// the host, port, user and password belong to a Sentinel, and the user and
// password of the servers are the parameters username and password
// ([redis.ParseFailoverURL]). Its parameters for reads from replicas are
// refused. The parameters max_retries, dialer_retries and
// context_timeout_enabled change nothing: an election tries again itself, and
// its contexts bound each call.
//
// With the scheme rediss the connection is by TLS: the parameter ca is a file
// with the certificates that vouch for the servers' (default: the system's),
// cert and key are files with a certificate of the client's own. They are read
// at each handshake.
func Driver() store.Driver {
	const form = "redis[s]://[user:password@]host[:6379][/0][?prefix=p:&wait=1&fenced=true&master=name&ca=FILE&cert=FILE&key=FILE]"
	return base.Driver(form, openURL, "redis", "rediss")
}

// Open connects to the server that the URL names, as described at [Driver], and
// returns a store whose Close closes the connection. ctx bounds the attempt to
// connect. Errors are store.ErrInvalid (the URL), store.ErrPermanent (the user)
// and store.ErrTransient (no server answers).
func Open(ctx context.Context, rawURL string) (*Store, error) {
	return base.Open[*Store](ctx, rawURL, Driver())
}

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	opts, files, rest, err := split(u)
	if err != nil {
		return nil, err
	}
	rdb, err := dial(rest, files)
	if err != nil {
		return nil, base.InvalidURL(err)
	}
	s, err := newStore(rdb, opts, rdb.Close)
	if err != nil {
		_ = rdb.Close()
		return nil, base.InvalidURL(err)
	}
	s, err = base.Reached(ctx, s, s.Store, func(ctx context.Context) error {
		_, err := source{s.client}.Read(ctx, nil)
		return err
	})
	if err != nil {
		// A URL without a host means the client's default.
		return nil, fmt.Errorf("redisstore: %s: %w", cmp.Or(u.Host, "localhost"), err)
	}
	return s, nil
}

// split takes our own parameters out of a URL.
func split(u *url.URL) (Options, tlsfiles.Files, *url.URL, error) {
	q := base.Parameters(u)
	opts := Options{Prefix: q.Text("prefix"), Wait: q.Int("wait"), Fenced: q.Bool("fenced"), Timeout: q.Duration("timeout")}
	files := tlsfiles.Files{CA: q.Text("ca"), Cert: q.Text("cert"), Key: q.Text("key")}
	query, err := q.Rest()
	rest := *u
	rest.RawQuery = query.Encode()
	return opts, files, &rest, err
}

// dial makes the client of a URL. It tries nothing twice: an election does.
func dial(u *url.URL, f tlsfiles.Files) (*redis.Client, error) {
	query := u.Query()
	if name := query.Get("master"); name != "" {
		sentinel := *u
		query.Del("master")
		query.Set("master_name", name)
		sentinel.RawQuery = query.Encode()
		o, err := redis.ParseFailoverURL(sentinel.String())
		if err != nil {
			return nil, err
		}
		if o.RouteByLatency || o.RouteRandomly || o.ReplicaOnly {
			return nil, errors.New("the parameters route_by_latency, route_randomly and replica_only have replicas read, which lag")
		}
		if o.Dialer, err = dialer(f, o.TLSConfig); err != nil {
			return nil, err
		}
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		return redis.NewFailoverClient(o), nil
	}
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	if o.Dialer, err = dialer(f, o.TLSConfig); err != nil {
		return nil, err
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.MaintNotificationsConfig = quiet()
	return redis.NewClient(o), nil
}

// dialer returns what dials with the files as they are then, nil without any
// file. config is nil without TLS.
func dialer(f tlsfiles.Files, config *tls.Config) (func(context.Context, string, string) (net.Conn, error), error) {
	switch {
	case f == tlsfiles.Files{}:
		return nil, nil
	case config == nil:
		return nil, errors.New("the parameters ca, cert and key belong to TLS: rediss://")
	}
	fresh := func() (*tls.Config, error) { return f.Config(config) }
	_, err := fresh()
	return tlsfiles.Dial(fresh), err
}

// quiet switches notifications of maintenance off, which are a data race in
// their automatic mode (go-redis 9.23, initConn).
func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
