package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// Driver opens stores by URLs such as
// mysql://user:password@host:3306/database?table=leader_records&create=true.
func Driver() store.Driver {
	const form = "mysql://[user[:password]@]host[:port]/database[?table=[database.]name&create=true]"
	return base.Driver(form, open, "mysql", "mariadb")
}

// Open connects by a URL, and returns a Store with a separate pool, which Close
// closes. In addition to the parameters of the driver's data source names, such
// as tls and timeout, the URL's query may have table, which is [Options.Table],
// and create=true, which is [Options.Create].
func Open(ctx context.Context, rawURL string) (*Store, error) {
	return base.Open[*Store](ctx, rawURL, Driver())
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
		return nil, base.InvalidURL(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(maxIdle)
	s, err := newStore(db, opts, db.Close)
	if err != nil {
		_ = db.Close() // it has no connections yet
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return base.Reached(ctx, s, s.Store, func(ctx context.Context) error {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// parse reads a URL. It takes this package's parameters out of the query before
// the driver reads it.
func parse(u *url.URL) (opts Options, cfg *mysql.Config, err error) {
	q := base.Parameters(u)
	opts = Options{Table: q.Text("table"), Create: q.Bool("create")}
	query, err := q.Rest()
	if err != nil {
		return opts, nil, err
	}
	if _, err := parseTable(opts.Table); err != nil {
		return opts, nil, fmt.Errorf("the store's URL: %w", err)
	}
	if query.Has("strict") { // at which the driver panics
		return opts, nil, base.InvalidURL(errors.New("strict: the driver has it no longer: set sql_mode"))
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return opts, nil, base.InvalidURL(errors.New("its path must name a database"))
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	// With the address, of whose host the driver then demands a certificate, and
	// with commas as they are: the driver does not unescape a list of charsets.
	cfg, err = mysql.ParseDSN("tcp(" + addr + ")/?" + strings.ReplaceAll(query.Encode(), "%2C", ","))
	if err != nil {
		return opts, nil, base.InvalidURL(fmt.Errorf("its query: %w", err))
	}
	cfg.DBName = database
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	cfg.Logger = &mysql.NopLogger{} // its messages are returned as errors, too
	return opts, cfg, nil
}
