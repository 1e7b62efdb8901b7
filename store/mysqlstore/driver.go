package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
)

// Driver opens stores by URLs such as
// mysql://user:password@host:3306/database?table=leader_records&create=true.
func Driver() store.Driver {
	return store.Driver{
		Schemes: []string{"mysql", "mariadb"},
		Form:    "mysql://[user[:password]@]host[:port]/database[?table=[database.]name&create=true]",
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
// Close closes. Besides the parameters of the driver's data source names, such
// as tls and timeout, the URL's query may have table, which is [Options.Table],
// and create=true, which is [Options.Create].
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

// maxIdle is how many idle connections a pool of [Open] keeps: one for
// renewals, one for reads, and some for bursts.
const maxIdle = 4

func open(ctx context.Context, u *url.URL) (*Store, error) {
	opts, cfg, err := parse(u)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(maxIdle)
	s, err := New(db, opts)
	if err != nil {
		_ = db.Close() // it has no connections yet
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
	return s, conn.Close()
}

// parse reads a URL. What is ours is taken out of the query before the driver
// reads it.
func parse(u *url.URL) (opts Options, cfg *mysql.Config, err error) {
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
	if query.Has("strict") { // at which the driver panics
		return opts, nil, fmt.Errorf("%w: the store's URL: strict: the driver has it no longer: set sql_mode", store.ErrInvalid)
	}
	query.Del("table")
	query.Del("create")
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return opts, nil, fmt.Errorf("%w: the store's URL: its path must name a database", store.ErrInvalid)
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	// With the address, of whose host the driver then demands a certificate, and
	// with commas as they are: the driver does not unescape a list of charsets.
	cfg, err = mysql.ParseDSN("tcp(" + addr + ")/?" + strings.ReplaceAll(query.Encode(), "%2C", ","))
	if err != nil {
		return opts, nil, fmt.Errorf("%w: the store's URL: its query: %w", store.ErrInvalid, err)
	}
	cfg.DBName = database
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	cfg.Logger = &mysql.NopLogger{} // what it would tell is returned as errors
	return opts, cfg, nil
}
