package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// A session that writes for the first time has the functions compiled that a
// write calls, its statements planned and the table's catalogue entries read,
// which takes longer than all the rest of a write. A follower's first write is
// the claim for which its group waits. So where a candidate reads by the clock,
// its session does once what a claim does, and takes it back.

// warmSQL makes a record that nobody else sees and replaces it, which takes the
// functions and the triggers through all that they do. The end of the inner
// block undoes it, notifications included. Nothing waits for a disk or a
// standby, since nothing is left to be kept.
const warmSQL = `DO $warm$
DECLARE
	unused text := pg_catalog.format(' warm %s', pg_catalog.random());
BEGIN
	PERFORM pg_catalog.set_config('synchronous_commit', 'off', true);
	BEGIN
		PERFORM SWAP_NAME(unused, SWAP_NAME(unused, 0::bigint, ''::bytea, false), ''::bytea, false);
		RAISE EXCEPTION USING ERRCODE = 'LEADR';
	EXCEPTION WHEN SQLSTATE 'LEADR' THEN
		NULL;
	END;
END $warm$`

// warmTime bounds the warming of a session: somebody may hold a lock.
const warmTime = time.Second

// warmed is the key of what a connection knows of its session.
const warmed = "leader: warmed"

// warm readies the connection's session for its first write, unless that was
// done. A failure is not repeated: a write then takes its usual time, and
// reports the cause itself.
func (c *client) warm(ctx context.Context, conn *lent) {
	known := conn.PgConn().CustomData()
	if _, is := known[warmed]; is || !c.writes.Load() {
		return
	}
	known[warmed] = true
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	_, _ = conn.Exec(ctx, c.warmText, pgx.QueryExecModeExec) // see above
}
