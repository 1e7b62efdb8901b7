package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// checkSQL reads the settings that matter, and what the catalogue knows of the
// table and its sequence. It has one row, of whatever is there.
const checkSQL = `SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only') = 'on',
	pg_catalog.current_setting('fsync') = 'on', pg_catalog.current_setting('full_page_writes') = 'on',
	pg_catalog.current_setting('synchronous_standby_names') <> '',
	(SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication WHERE state IS DISTINCT FROM 'backup'),
	(SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots WHERE slot_type = 'physical'),
	pg_catalog.pg_backend_pid(),
	coalesce(t.relkind::text, ''), coalesce(t.relpersistence::text, ''), coalesce(s.relpersistence::text, ''),
	coalesce(q.seqcache, 0), coalesce(q.seqincrement > 0 AND NOT q.seqcycle, false),
	coalesce((extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint - q.seqstart, 0),
	coalesce((SELECT CASE WHEN pg_catalog.pg_is_in_recovery() OR history.current = 1 THEN -1
		WHEN history.current <> c.timeline_id THEN 0
		ELSE (extract(epoch FROM pg_catalog.clock_timestamp() - c.checkpoint_time) OPERATOR(pg_catalog.*) 1000000)::bigint END
		FROM pg_catalog.pg_control_checkpoint() AS c, (SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery()
			THEN ('x' || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::int END AS current) AS history), -1),
	(SELECT pg_catalog.count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = t.oid AND tgenabled IN ('O', 'A')
		AND tgname IN ('leader_draw', 'leader_tell', 'leader_tell_all')),
	EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = t.oid AND tgenabled IN ('O', 'A') AND tgname = 'leader_keep'),
	NOT EXISTS (SELECT FROM pg_catalog.pg_proc WHERE oid IN (pg_catalog.to_regprocedure('DRAW_NAME()')::oid, pg_catalog.to_regprocedure('TELL_NAME()')::oid)
		AND pg_catalog.strpos(prosrc, 'TG_RELID') = 0)
FROM (VALUES (0)) AS one
LEFT JOIN pg_catalog.pg_class AS t ON t.oid = pg_catalog.to_regclass('TABLE_NAME')::oid
LEFT JOIN pg_catalog.pg_class AS s ON s.oid = pg_catalog.to_regclass('SEQUENCE_NAME')::oid
LEFT JOIN pg_catalog.pg_sequence AS q ON q.seqrelid = s.oid`

// findings are the row of checkSQL.
type findings struct {
	standby, readOnly           bool
	fsync, fullPages, syncNames bool
	senders, slots              int64
	pooler                      bool   // the session's number differs from the number of the server's process
	kind, persistence           string // of the table: pg_class.relkind, relpersistence
	sequence                    string // relpersistence of the sequence; empty: there is none
	cache                       int64
	grows                       bool
	age                         int64 // in microseconds
	promoted                    int64 // so many microseconds ago or more; negative: the server was never promoted
	triggers                    int64
	keeps                       bool     // the trigger is there that a table of an earlier version lacks
	guarded                     bool     // the trigger functions refuse other tables; an earlier version's do not
	reach                       []string // the rows of reachSQL
}

// Check implements [store.Checker]. It refuses a table that is missing, not
// logged or not as [Schema] makes it, and a user who may not read and write it;
// Options.Create makes a missing one first. A server that is a standby, or
// takes no writes, is refused for the moment (store.ErrTransient).
//
// It warns, and reports that the store may forget, where acknowledged writes
// may be lost: without fsync or full_page_writes, and where standbys exist of
// which none is synchronous. It also warns where notifications do not arrive;
// of a table that an earlier version made, which Options.Create brings up to
// date where the user owns it; and of rights by which another role could act as
// the owner or spoil the revisions, with the statements that revoke them.
//
// The report's Age is the age of the table. Of a server that was promoted, and
// so may lack writes that another server acknowledged, it is the time since its
// last checkpoint, which is at most the time since the promotion.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	s.Pace(req.HeartbeatInterval, req.Key)
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return store.Report{}, err
	}
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return store.Report{}, err
	}
	f, err := s.find(ctx, conn)
	conn.release()
	if err != nil {
		return store.Report{}, err
	}
	if err := s.refuse(f); err != nil {
		return store.Report{}, err
	}
	report := s.judge(f)
	if err := base.Usable(ctx, s.Store, req); err != nil {
		return report, err
	}
	if req.Key != "" {
		s.writes.Store(true)
	}
	if s.listens && f.pooler && s.deaf(ctx) {
		report.Warnings = append(report.Warnings,
			"Changes are not notified ("+errDeaf.Error()+"). The table is read by the clock instead, twice in a heartbeat.")
	}
	return report, nil
}

// outdated reports whether an earlier version of this package made the table.
func (f findings) outdated() bool { return f.kind == "r" && f.triggers == 3 && !(f.keeps && f.guarded) }

// find looks at the server, and makes the table if it is missing or of an
// earlier version and that was asked for.
func (c *client) find(ctx context.Context, conn *lent) (findings, error) {
	f, err := c.look(ctx, conn)
	if err == nil && f.kind == "" && c.create && !f.standby && !f.readOnly {
		if _, err = conn.Exec(ctx, c.names.fill(schema), pgx.QueryExecModeExec); err == nil {
			f, err = c.look(ctx, conn)
		}
	}
	if err == nil && f.outdated() && c.create && !f.standby && !f.readOnly {
		// A user that does not own the table cannot, and goes on with it as it
		// is.
		if _, failed := conn.Exec(ctx, c.names.fill(schema), pgx.QueryExecModeExec); failed == nil {
			f, err = c.look(ctx, conn)
		}
	}
	switch {
	case err != nil:
		return f, c.explain(conn, classifyRead(err), err)
	case f.standby:
		return f, c.explain(conn, store.ErrTransient, fmt.Errorf("%w: elections need the primary; connect with target_session_attrs=read-write", errStandby))
	case f.readOnly:
		c.drop(conn)
		return f, fmt.Errorf("%w: table %s: the server takes no writes (default_transaction_read_only)", store.ErrTransient, c.names.table)
	}
	return f, nil
}

func (c *client) look(ctx context.Context, conn *lent) (f findings, err error) {
	var pid uint32
	err = conn.QueryRow(ctx, c.names.fill(checkSQL), pgx.QueryExecModeExec).Scan(
		&f.standby, &f.readOnly, &f.fsync, &f.fullPages, &f.syncNames, &f.senders, &f.slots, &pid,
		&f.kind, &f.persistence, &f.sequence, &f.cache, &f.grows, &f.age, &f.promoted, &f.triggers, &f.keeps, &f.guarded)
	f.pooler = pid != conn.PgConn().PID()
	if err != nil {
		return f, err
	}
	rows, err := conn.Query(ctx, c.names.fill(reachSQL), pgx.QueryExecModeExec)
	if err == nil {
		f.reach, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return f, err
}

// refuse reports every property that makes elections unsafe or impossible.
func (c *client) refuse(f findings) error {
	var faults []error
	fault := func(when bool, format string, args ...any) {
		if when {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if f.kind == "" {
		return fmt.Errorf("%w: table %s is missing: run the statement that pgstore.Schema returns, or set Options.Create (create=true in a URL)",
			store.ErrPermanent, c.names.table)
	}
	fault(f.kind != "r", "it is not an ordinary table (relkind %s): use the one that pgstore.Schema makes", f.kind)
	fault(f.persistence != "p", "a crash empties it, and standbys lack it: ALTER TABLE %s SET LOGGED", c.names.table)
	fault(f.sequence == "", "its sequence %s is missing: run the statement that pgstore.Schema returns", c.names.sequence)
	fault(f.sequence != "" && f.sequence != "p", "a crash resets its sequence: ALTER SEQUENCE %s SET LOGGED", c.names.sequence)
	fault(f.sequence != "" && f.cache != 1, "its sequence gives each session %d numbers in advance, so that revisions do not grow: ALTER SEQUENCE %s CACHE 1",
		f.cache, c.names.sequence)
	fault(f.sequence != "" && !f.grows, "its sequence does not only grow: ALTER SEQUENCE %s INCREMENT BY 1 NO CYCLE", c.names.sequence)
	fault(f.kind == "r" && f.triggers != 3, "%d of its triggers leader_draw, leader_tell and leader_tell_all are there and enabled, not 3:"+
		" ALTER TABLE %s ENABLE TRIGGER, or drop the table and run the statement that pgstore.Schema returns", f.triggers, c.names.table)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: table %s does not suit elections: %w", store.ErrPermanent, c.names.table, errors.Join(faults...))
}

// upgrade is the advice on how to bring a table of an earlier version up to
// date.
const upgrade = "Let its owner run the statement that pgstore.Schema returns, or set Options.Create (create=true in a URL)."

// judge returns a report of how the settings affect elections.
func (c *client) judge(f findings) (r store.Report) {
	warn := func(when bool, format string, args ...any) {
		if when {
			r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
			r.Forgetful = true
		}
	}
	warn(!f.fsync, "The server runs without fsync: acknowledged writes may be lost when its machine fails. Elections cool down before they promote; fsync=on avoids this wait.")
	warn(!f.fullPages, "The server runs without full_page_writes: a machine that fails can leave a torn page in place of a record."+
		" Elections cool down before they promote; full_page_writes=on needs no such wait.")
	warn(f.senders+f.slots > 0 && !f.syncNames, "The server has standbys (%d connected, %d replication slots), and synchronous_standby_names is empty:"+
		" one that is promoted may lack what was acknowledged. Elections cool down before they promote; a synchronous standby needs no such wait.", f.senders, f.slots)
	if !f.keeps {
		r.Warnings = append(r.Warnings, "An earlier version made the table, or its trigger leader_keep is disabled: a failover that loses writes may give"+
			" a revision, and so the number of a term, a second time. "+upgrade)
	}
	if !f.guarded {
		r.Warnings = append(r.Warnings, "An earlier version made the trigger functions of the table: a role that attached one to its own table can run code as the owner. "+upgrade)
	}
	if len(f.reach) > 0 {
		r.Warnings = append(r.Warnings, "Other roles hold rights that no candidate needs, or own parts of the table: they can act as its owner, write its records or spoil"+
			" the revisions. Let the owner, or a superuser, run: "+strings.Join(f.reach, "; "))
	}
	// A clock that was set back makes the table look younger than it is, or as
	// if it came from the future: that costs a wait, and no leader.
	if f.promoted >= 0 {
		// It may lack writes that another server acknowledged before, and a
		// candidate that starts now cannot find out: treat the table as if it
		// had been made when the server was promoted.
		f.age = min(f.age, f.promoted)
	}
	r.Age = max(time.Duration(f.age)*time.Microsecond, 1)
	return r
}

// deaf reports whether notifications do not arrive.
func (s *Store) deaf(ctx context.Context) bool {
	src := source{reader{s.client}}
	conn, err := src.listen(ctx)
	if err != nil {
		return false // the watch will report it
	}
	defer src.hangUp(conn)
	return errors.Is(src.hears(ctx, conn, nil), errDeaf)
}
