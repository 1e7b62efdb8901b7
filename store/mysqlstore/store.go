package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// maxValue is the size in bytes of the largest value that a Store takes. Twice
// as much goes over the wire, and the least that a server's max_allowed_packet
// is by default is 4 MiB.
const maxValue = 1 << 20

// A Store is a table of records. Its methods may be called concurrently.
type Store struct {
	*base.Store // all but Check
	*client
}

var _ store.Checker = (*Store)(nil)

// A client sends the statements, each once, on a connection of the pool.
type client struct {
	db     *sql.DB
	names  names
	create bool
	clock  clock
}

// New returns a Store over the user's own pool, of the driver
// github.com/go-sql-driver/mysql, which it does not close. It does not contact
// the server; [Store.Check] does.
func New(db *sql.DB, opts Options) (*Store, error) {
	return newStore(db, opts, nil)
}

func newStore(db *sql.DB, opts Options, release func() error) (*Store, error) {
	n, err := parseTable(opts.Table)
	faults := []error{err}
	if db == nil {
		faults = append(faults, errors.New("db: must not be nil"))
	}
	c := &client{db: db, names: n, create: opts.Create}
	s, err := base.New(source{c}, base.Options{
		Name: "table " + n.bare, MaxValue: maxValue, Timeout: opts.Timeout, Every: opts.Every, Logger: opts.Logger, Release: release,
	})
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("mysqlstore: %w", err)
	}
	return &Store{s, c}, nil
}

// A source is a client as package base uses it.
type source struct{ *client }

// Swap implements [base.System]. It sends one statement, once. If that changes
// nothing, the session is asked why, and if it made a record, which revision
// that has.
func (c source) Swap(ctx context.Context, w store.Write) (uint64, error) {
	conn, err := c.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	if w.Expected == 0 {
		return c.insert(ctx, conn, w)
	}
	return c.update(ctx, conn, w)
}

// update sends a write over a record. Only a valid key, numbers and hexadecimal
// digits are put into its text.
//
// It uses a sql.Conn, which sends once. A sql.DB would repeat a write that the
// driver reports as never sent. A row that is written has another revision than
// before, so that it counts as changed whatever the driver's flags are.
//
// The server refuses a revision that is ahead of its clock. Nothing was written
// then, so update proposes another revision, by the clock that it read
// afterwards.
func (c *client) update(ctx context.Context, conn *sql.Conn, w store.Write) (uint64, error) {
	revision := following(w.Expected, c.clock.now())
	for range 2 {
		text := fmt.Sprintf(c.names.fill.Replace(updateSQL), revision, w.Tombstone, w.Value, w.Key, w.Expected, revision)
		result, err := conn.ExecContext(ctx, text)
		if err != nil {
			return 0, c.failed(conn, w, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, c.explain(store.ErrUnknown, err)
		}
		if n != 0 {
			return revision, nil
		}
		stands, clock, err := c.fits(ctx, conn, w.Key)
		if err != nil {
			return 0, err
		}
		if stands != w.Expected {
			return 0, fmt.Errorf("%w: table %s, key %q: not at revision %d", store.ErrConflict, c.names.bare, w.Key, w.Expected)
		}
		revision = following(w.Expected, clock)
	}
	return 0, fmt.Errorf("%w: table %s, key %q: nothing was written at revision %d: the server's clock was set back, or it was read-only for a moment",
		store.ErrTransient, c.names.bare, w.Key, w.Expected)
}

// following returns the revision of a write over another, by the server's clock.
// A replica that is promoted may lack the latest revisions, which numbers that
// grow by one would repeat.
func following(expected, clock uint64) uint64 { return max(expected+1, clock) }

// insert sends a write where no record is, and asks which revision it drew.
func (c *client) insert(ctx context.Context, conn *sql.Conn, w store.Write) (revision uint64, err error) {
	_, err = conn.ExecContext(ctx, fmt.Sprintf(c.names.fill.Replace(insertSQL), w.Key, w.Tombstone, w.Value))
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == erBadNull {
		if _, _, unfit := c.fits(ctx, conn, w.Key); unfit != nil {
			return 0, unfit
		}
		return 0, c.explain(store.ErrPermanent, fmt.Errorf("its floor is empty: run the statements that mysqlstore.Schema returns: %w", err))
	}
	if err != nil {
		return 0, c.failed(conn, w, err)
	}
	if err := conn.QueryRowContext(ctx, drawnSQL).Scan(&revision); err != nil {
		return 0, c.explain(store.ErrUnknown, fmt.Errorf("key %q: it was written, and its revision is not known: %w", w.Key, err))
	}
	return revision, nil
}

// failed gives the class of a failed write. The server itself refuses what a
// user of few rights writes while it is read-only.
func (c *client) failed(conn *sql.Conn, w store.Write, err error) error {
	if isReadOnly(err) {
		discard(conn)
	}
	return c.explain(classifyWrite(err), fmt.Errorf("key %q: %w", w.Key, err))
}

// fits finds out why a write changed nothing. It returns an error if the session
// takes no writes, and otherwise the record's revision and the server's clock.
func (c *client) fits(ctx context.Context, conn *sql.Conn, key string) (stands, clock uint64, err error) {
	var commits, readOnly bool
	err = conn.QueryRowContext(ctx, fmt.Sprintf(c.names.fill.Replace(fitSQL), key)).Scan(&commits, &readOnly, &clock, &stands)
	switch {
	case err != nil:
		// Nothing was written, and why is not known.
		return 0, 0, c.explain(store.ErrTransient, err)
	case !commits:
		return 0, 0, fmt.Errorf("%w: table %s: the session does not commit by itself: connect without autocommit=0", store.ErrPermanent, c.names.bare)
	case readOnly:
		discard(conn)
		return 0, 0, fmt.Errorf("%w: table %s: %w", store.ErrTransient, c.names.bare, errReadOnly)
	}
	c.clock.saw(clock)
	return stands, clock, nil
}

// acquire returns a connection of the pool. Nothing was sent if it fails.
func (c *client) acquire(ctx context.Context) (*sql.Conn, error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, c.explain(classifyConnect(err), fmt.Errorf("no connection to the database: %w", err))
	}
	return conn, nil
}

// discard has the pool close a connection in place of using it again.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // which it returns
}

// entries returns the records for which the condition holds.
func (c *client) entries(ctx context.Context, condition string) ([]store.Entry, error) {
	conn, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	rows, err := conn.QueryContext(ctx, fmt.Sprintf(c.names.fill.Replace(readSQL), condition))
	if err != nil {
		return nil, c.explain(classifyRead(err), err)
	}
	entries, err := c.collect(rows)
	if err != nil {
		if errors.Is(err, errReadOnly) {
			discard(conn)
		}
		return nil, c.explain(classifyRead(err), err)
	}
	return entries, nil
}

// collect reads the rows of readSQL.
func (c *client) collect(rows *sql.Rows) (entries []store.Entry, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var readOnly bool
		var clock uint64
		var key sql.NullString
		var revision, tombstone sql.NullInt64
		var value []byte
		if err := rows.Scan(&readOnly, &clock, &key, &revision, &tombstone, &value); err != nil {
			return nil, err
		}
		if readOnly {
			return nil, errReadOnly
		}
		c.clock.saw(clock)
		if key.Valid {
			entries = append(entries, store.Entry{Key: key.String, Revision: uint64(revision.Int64), Tombstone: tombstone.Int64 != 0, Value: value})
		}
	}
	return entries, rows.Err()
}

// Read implements [feed.Source].
func (c source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	if len(keys) == 0 {
		return c.entries(ctx, "FALSE")
	}
	return c.entries(ctx, "r.name IN ('"+strings.Join(keys, "', '")+"')")
}

// List implements [feed.Source]. It reads all keys that begin as the pattern
// does, which the table's index finds: keys are ordered by their bytes, and no
// byte of a key is as large as a tilde.
func (c source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	from := base.Literal(pattern)
	return c.entries(ctx, "r.name >= '"+from+"' AND r.name < '"+from+"~'")
}
