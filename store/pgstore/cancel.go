package pgstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errNoCancel: a write that waits for a standby is not to be cancelled.
var errNoCancel = errors.New("the connection's statements are not cancelled")

// NoCancel has a connection that is made with the configuration send no request
// to cancel a statement. [Open] does so. Use it as pgxpool.Config.BeforeConnect
// of a pool that is given to [New], and as stdlib.OptionBeforeConnect of a pool
// that is given to [NewSQL]: both pass each connection a separate
// configuration, and no two connections may share one.
//
// pgx asks the server to cancel what runs when a call's context is done, or
// when the connection breaks. A commit that waits for a synchronous standby is
// not undone by that: it is visible from then on, and the standby may not have
// it (PostgreSQL's syncrep.c, "canceling wait for synchronous replication").
// Others then read a record that a failover loses. Without the request the
// commit waits on, and nobody reads it before the standby has it.
//
// The price is that a statement which is given up keeps its session busy until
// the server has done it. pgx counts the connection among the pool's until
// then, or for 15 s.
func NoCancel(cfg *pgx.ConnConfig) {
	var made atomic.Bool
	dial, after := cfg.DialFunc, cfg.AfterConnect
	// pgx dials again, by the same function, to cancel alone.
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if made.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, addr)
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		made.Store(true)
		if after == nil {
			return nil
		}
		return after(ctx, conn)
	}
}
