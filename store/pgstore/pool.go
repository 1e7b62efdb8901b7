package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A pool lends connections, each for one call at a time.
type pool interface {
	acquire(ctx context.Context) (*lent, error)
}

// A lent connection is the caller's until it releases it. A closed connection
// is not lent again.
type lent struct {
	*pgx.Conn

	release func()
	hijack  func() *pgx.Conn // takes it out of the pool; nil: that cannot be
}

// A pgxPool is a pool of pgx's own.
type pgxPool struct{ *pgxpool.Pool }

func (p pgxPool) acquire(ctx context.Context) (*lent, error) {
	c, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &lent{c.Conn(), c.Release, c.Hijack}, nil
}

// A sqlPool is one of database/sql.
type sqlPool struct{ db *sql.DB }

// errDriver: the connections are not pgx's.
var errDriver = errors.New("the pool is not of pgx's driver for database/sql (github.com/jackc/pgx/v5/stdlib)")

// acquire lends the connection of pgx that is below one of the driver's.
// database/sql allows its use only while a function runs that was given to Raw,
// so one does until the connection is released.
func (p sqlPool) acquire(ctx context.Context) (*lent, error) {
	pooled, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	given, back, done := make(chan *pgx.Conn), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- pooled.Raw(func(below any) error {
			c, ok := below.(interface{ Conn() *pgx.Conn })
			if !ok {
				return errDriver
			}
			given <- c.Conn()
			<-back
			if c.Conn().IsClosed() {
				return driver.ErrBadConn // it is replaced
			}
			return nil
		})
	}()
	select {
	case c := <-given:
		return &lent{Conn: c, release: func() {
			close(back)
			<-done //nolint:errcheck // its end is all that matters: a bad connection is not lent again
			_ = pooled.Close()
		}}, nil
	case err := <-done:
		return nil, errors.Join(err, pooled.Close())
	}
}
