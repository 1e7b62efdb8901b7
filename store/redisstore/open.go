package redisstore

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed-ff2cb582/leader/store"
)

// Driver opens stores by their URL, with a connection of their own. Beside the
// parameters of [redis.ParseURL] the URL may have prefix, timeout and wait, which
// are the fields of [Options]. With master, the name of a master, the host, port,
// user and password are those of a Sentinel, and the user and password of the
// servers are the parameters username and password ([redis.ParseFailoverURL]).
func Driver() store.Driver {
	return store.Driver{
		Schemes: []string{"redis", "rediss"},
		Form:    "redis://[user:password@]host[:6379][/0][?prefix=leader:&wait=1&master=name]",
		Open: func(ctx context.Context, u *url.URL) (store.Opened, error) {
			s, err := Open(ctx, u)
			if err != nil {
				return nil, err // and no *Store of nil
			}
			return s, nil
		},
	}
}

// Open connects to the server that the URL names, as [Driver] says, and returns
// a store whose Close closes the connection. ctx bounds the attempt to connect.
// Errors are store.ErrInvalid (the URL), store.ErrPermanent (the user) and
// store.ErrTransient (no server answers).
func Open(ctx context.Context, u *url.URL) (*Store, error) {
	opts, rest, err := split(u)
	if err != nil {
		return nil, err
	}
	rdb, err := dial(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	s, err := New(rdb, opts)
	if err != nil {
		_ = rdb.Close()
		return nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	s.own = true
	if _, err := (source{s.client}).Read(ctx, nil); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("redisstore: %s: %w", u.Host, err)
	}
	return s, nil
}

// split takes our own parameters out of a URL.
func split(u *url.URL) (Options, *url.URL, error) {
	var opts Options
	rest, query := *u, u.Query()
	invalid := func(name string, err error) (Options, *url.URL, error) {
		return Options{}, nil, fmt.Errorf("%w: the store's URL: %s=%s: %w", store.ErrInvalid, name, query.Get(name), err)
	}
	var err error
	opts.Prefix = query.Get("prefix")
	if text := query.Get("wait"); text != "" {
		if opts.Wait, err = strconv.Atoi(text); err != nil {
			return invalid("wait", err)
		}
	}
	if text := query.Get("timeout"); text != "" {
		if opts.Timeout, err = time.ParseDuration(text); err != nil {
			return invalid("timeout", err)
		}
	}
	for _, name := range []string{"prefix", "wait", "timeout"} {
		query.Del(name)
	}
	rest.RawQuery = query.Encode()
	return opts, &rest, nil
}

// dial makes the client of a URL. It tries nothing twice: an election does.
func dial(u *url.URL) (*redis.Client, error) {
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
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		return redis.NewFailoverClient(o), nil
	}
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.MaintNotificationsConfig = quiet()
	return redis.NewClient(o), nil
}

// quiet switches notifications of maintenance off, which are a data race in
// their automatic mode (go-redis 9.23, initConn).
func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
