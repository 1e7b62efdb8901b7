package pgstore

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// Driver opens stores by URLs such as
// postgres://user:password@host:5432/database?table=leader_records&create=true.
func Driver() store.Driver {
	const form = "postgres://[user[:password]@]host[:port]/database[?table=[schema.]name&create=true]"
	return base.Driver(form, open, "postgres", "postgresql")
}

// Open connects by a URL, and returns a Store with a separate pool, which Close
// closes. In addition to the settings that pgxpool.ParseConfig knows, such as
// several hosts, sslmode and pool_max_conns, the URL's query may have table,
// which is [Options.Table], and create=true, which is [Options.Create].
//
// The pool connects to servers that take writes
// (target_session_attrs=read-write unless the URL sets another value), and does
// not check that a connection still answers before it uses it, unless that was
// idle for half a minute: a renewal then is one round trip.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	return base.Open[*Store](ctx, rawURL, Driver())
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
		return nil, base.InvalidURL(err)
	}
	s, err := newStore(pool, opts, func() error { pool.Close(); return nil })
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return base.Reached(ctx, s, s.Store, func(ctx context.Context) error {
		conn, err := s.acquire(ctx)
		if err == nil {
			conn.release()
		}
		return err
	})
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

// parse reads a URL. It takes this package's parameters out of the query before
// pgx reads it.
func parse(u *url.URL) (opts Options, cfg *pgxpool.Config, err error) {
	q := base.Parameters(u)
	opts = Options{Table: q.Text("table"), Create: q.Bool("create")}
	query, err := q.Rest()
	if err != nil {
		return opts, nil, err
	}
	if _, err := parseTable(opts.Table); err != nil {
		return opts, nil, fmt.Errorf("the store's URL: %w", err)
	}
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
		return opts, nil, base.InvalidURL(err)
	}
	return opts, cfg, nil
}
