package pgstore

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
)

// Driver opens stores by URLs such as
// postgres://user:password@host:5432/database?table=leader_records&create=true.
func Driver() store.Driver {
	return store.Driver{
		Schemes: []string{"postgres", "postgresql"},
		Form:    "postgres://[user[:password]@]host[:port]/database[?table=[schema.]name&create=true]",
		Open: func(ctx context.Context, u *url.URL) (store.Opened, error) {
			s, err := open(ctx, u)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

// Open connects by a URL, and returns a Store with a pool of its own, which
// Close closes. Besides the settings that pgxpool.ParseConfig knows, such as
// several hosts, sslmode and pool_max_conns, the URL's query may have table,
// which is [Options.Table], and create=true, which is [Options.Create].
//
// The pool connects to servers that take writes
// (target_session_attrs=read-write unless the URL says otherwise), and does not
// ask a connection whether it is still there before it uses it, unless that was
// idle for half a minute: a renewal then is one round trip.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	opened, err := store.Open(ctx, rawURL, Driver())
	if err != nil {
		return nil, err
	}
	s, ok := opened.(*Store)
	if !ok {
		return nil, fmt.Errorf("%w: the store's URL", store.ErrInvalid) // not reached: there is one driver
	}
	return s, nil
}

// idle is how long a connection of [Open] may have been idle before it is asked
// whether it is still there.
const idle = 30 * time.Second

func open(ctx context.Context, u *url.URL) (*Store, error) {
	opts, cfg, err := configOf(u)
	if err != nil {
		return nil, err
	}
	// The pool outlives ctx, which bounds the first connection alone.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	s, err := New(pool, opts)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	s.own = true
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	conn, err := s.acquire(bounded)
	if err != nil {
		_ = s.Close() // the first error counts
		return nil, err
	}
	conn.release()
	return s, nil
}

// configOf is the pool's configuration by a URL.
func configOf(u *url.URL) (Options, *pgxpool.Config, error) {
	opts, cfg, err := parse(u)
	if err != nil {
		return opts, nil, err
	}
	cfg.BeforeConnect = func(_ context.Context, own *pgx.ConnConfig) error {
		// The files of certificates may have been renewed.
		_, fresh, err := parse(u)
		if err != nil {
			return err
		}
		own.TLSConfig, own.Fallbacks = fresh.ConnConfig.TLSConfig, fresh.ConnConfig.Fallbacks
		NoCancel(own)
		return nil
	}
	cfg.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > idle }
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = DefaultTimeout
	}
	return opts, cfg, nil
}

// parse reads a URL. What is ours is taken out of the query before pgx reads
// it.
func parse(u *url.URL) (opts Options, cfg *pgxpool.Config, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return opts, nil, fmt.Errorf("%w: the store's URL: its query: %w", store.ErrInvalid, err)
	}
	opts.Table = query.Get("table")
	if _, err := parseTable(opts.Table); err != nil {
		return opts, nil, fmt.Errorf("the store's URL: %w", err)
	}
	if text := query.Get("create"); text != "" {
		if opts.Create, err = strconv.ParseBool(text); err != nil {
			return opts, nil, fmt.Errorf("%w: the store's URL: create=%q: must be true or false", store.ErrInvalid, text)
		}
	}
	query.Del("table")
	query.Del("create")
	if !query.Has("target_session_attrs") {
		query.Set("target_session_attrs", "read-write")
	}
	if !query.Has("application_name") {
		query.Set("application_name", "leader")
	}
	rest := *u
	rest.RawQuery = query.Encode()
	cfg, err = pgxpool.ParseConfig(rest.String())
	if err != nil {
		return opts, nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	return opts, cfg, nil
}
