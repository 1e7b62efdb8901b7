package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// variablesSQL reads the settings that matter, of those that the server has:
// MySQL and MariaDB differ.
const variablesSQL = `SHOW VARIABLES WHERE Variable_name IN ('autocommit', 'read_only', 'innodb_flush_log_at_trx_commit', 'innodb_doublewrite',
	'log_bin', 'sync_binlog', 'wsrep_on', 'tx_isolation', 'transaction_isolation', 'gtid_slave_pos')
	OR Variable_name LIKE 'rpl_semi_sync_%'`

// statusSQL reads how many replicas are connected, where the server reports it
// (MariaDB does), and whether writes wait for them now.
const statusSQL = `SHOW STATUS WHERE Variable_name IN ('Slaves_connected', 'Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')`

// tableSQL reads the server's description of the table and its triggers. The
// triggers are shown to a user who has the right TRIGGER.
//
// The age is a difference of two times of the session's zone. Where an hour
// comes twice, one of the two instants may be taken for the instant an hour
// before or after; where an hour is left out, the difference of the times is an
// hour too large. Neither function makes both mistakes.
const tableSQL = `SELECT coalesce(engine, ''), coalesce(table_type, ''),
	coalesce(LEAST(CAST((UNIX_TIMESTAMP(NOW(6)) - UNIX_TIMESTAMP(create_time)) * 1000000 AS SIGNED),
		TIMESTAMPDIFF(MICROSECOND, create_time, NOW(6))), 0),
	(SELECT count(*) FROM information_schema.triggers AS t WHERE t.event_object_schema = i.table_schema AND t.event_object_table = i.table_name),
	coalesce((SELECT engine FROM information_schema.tables AS f WHERE f.table_schema = i.table_schema AND f.table_name = concat(i.table_name, '_floor')), '')
FROM information_schema.tables AS i WHERE i.table_schema = %s AND i.table_name = '%s'`

// completeSQL reads whether all statements of the schema were executed.
const completeSQL = `SELECT count(*) FROM FLOOR_NAME`

// findings are what Check looks at.
type findings struct {
	settings map[string]string
	status   map[string]string
	engine   string // empty: there is no table
	kind     string
	age      int64 // in microseconds, since the beginning of the second
	triggers int
	below    string // the engine of the floor, which a view has none of
	floor    int    // rows
}

// Check implements [store.Checker]. It refuses a table that is missing, not of
// InnoDB or not as [Schema] makes it, a session that does not commit by itself
// or reads what is not committed, a Galera cluster, and a user who may not read
// and write; Options.Create makes a missing table first. A server that is
// read-only is refused for the moment (store.ErrTransient).
//
// It warns, and reports that the store may forget, where a server may lose
// acknowledged writes, or writes that a read has shown: unless there is a
// binlog, and innodb_flush_log_at_trx_commit and sync_binlog are 1, and where a
// replica is connected, or the server was one itself, without semi-synchronous
// replication that waits, for as long as it takes, before a write is shown.
//
// The report's Age is the age of the table, less somewhat more than a second:
// the server reports only the second in which the table was made.
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
	if cerr := conn.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("%w: %w", store.ErrTransient, cerr)
	}
	if err != nil {
		return store.Report{}, err
	}
	if err := s.refuse(f); err != nil {
		return store.Report{}, err
	}
	return s.judge(f), s.mayUse(ctx, req)
}

// find looks at the server, and makes the table if it is missing and that was
// asked for.
func (c *client) find(ctx context.Context, conn *sql.Conn) (findings, error) {
	f, err := c.look(ctx, conn)
	if err == nil && c.create && on(f.settings["read_only"]) == "" && (f.engine == "" || f.floor < 2) {
		if err = c.make(ctx, conn); err == nil {
			f, err = c.look(ctx, conn)
		}
	}
	if err != nil {
		if isReadOnly(err) { // since just now
			discard(conn)
		}
		return f, c.explain(classifyRead(err), err)
	}
	if on(f.settings["read_only"]) != "" {
		discard(conn)
		return f, fmt.Errorf("%w: table %s: %w", store.ErrTransient, c.names.bare, errReadOnly)
	}
	return f, nil
}

// make executes the statements of the schema.
func (c *client) make(ctx context.Context, conn *sql.Conn) error {
	for _, text := range schema {
		if _, err := conn.ExecContext(ctx, c.names.fill.Replace(text)); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) look(ctx context.Context, conn *sql.Conn) (f findings, err error) {
	if f.settings, err = pairs(ctx, conn, variablesSQL); err != nil {
		return f, err
	}
	if f.status, err = pairs(ctx, conn, statusSQL); err != nil {
		return f, err
	}
	database := "DATABASE()"
	if c.names.database != "" {
		database = "'" + c.names.database + "'"
	}
	err = conn.QueryRowContext(ctx, fmt.Sprintf(tableSQL, database, c.names.bare)).Scan(&f.engine, &f.kind, &f.age, &f.triggers, &f.below)
	if errors.Is(err, sql.ErrNoRows) {
		return f, nil
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, c.names.fill.Replace(completeSQL)).Scan(&f.floor)
	}
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == erNoSuchTable {
		return f, nil // the floor is missing
	}
	return f, err
}

// pairs reads the rows of a SHOW statement, which have a name and a value.
func pairs(ctx context.Context, conn *sql.Conn, text string) (all map[string]string, err error) {
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, rows.Err()
}

// on returns a setting's value unless it is one that means no, or is absent.
func on(value string) string {
	switch strings.ToUpper(value) {
	case "", "0", "OFF", "NO":
		return ""
	default:
		return value
	}
}

// refuse reports every property that makes elections unsafe or impossible.
func (c *client) refuse(f findings) error {
	if f.engine == "" && f.kind == "" {
		return fmt.Errorf("%w: table %s is missing, or the user has no right to it: run the statements that mysqlstore.Schema returns, or set Options.Create"+
			" (create=true in a URL)", store.ErrPermanent, c.names.bare)
	}
	var faults []error
	fault := func(when bool, format string, args ...any) {
		if when {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	isolation := f.settings["tx_isolation"] + f.settings["transaction_isolation"]
	fault(f.engine != "InnoDB", "its engine is %q, which has no transactions: ALTER TABLE %s ENGINE = InnoDB", f.engine, c.names.bare)
	fault(f.floor < 2, "its triggers and functions are incomplete: run the statements that mysqlstore.Schema returns")
	fault(f.floor >= 2 && f.below != "InnoDB", "%[1]s_floor is not an InnoDB table (engine %[2]q), so that nothing locks its rows: ALTER TABLE %[1]s_floor ENGINE = InnoDB."+
		" If it is a view, drop it and run the statements that mysqlstore.Schema returns", c.names.bare, f.below)
	// A user without the right TRIGGER is shown none.
	fault(f.triggers != 0 && f.triggers != 3, "it has %d triggers, and not the 3 of mysqlstore.Schema", f.triggers)
	fault(on(f.settings["autocommit"]) == "", "the session does not commit by itself: connect without autocommit=0")
	fault(strings.Contains(isolation, "READ-UNCOMMITTED"), "the session reads what is not committed: connect with another isolation level")
	fault(on(f.settings["wsrep_on"]) != "", "the server is one of a Galera cluster, on which this store was not examined: use one server, or another store")
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: table %s does not suit elections: %w", store.ErrPermanent, c.names.bare, errors.Join(faults...))
}

// inexact is by how much the reported creation time of a table may be too
// early: it is cut to whole seconds, and MariaDB takes it from a file, whose
// clock is behind by a tick of the kernel's.
const inexact = time.Second + 100*time.Millisecond

// judge returns a report of how the settings affect elections.
func (c *client) judge(f findings) (r store.Report) {
	warn := func(when bool, format string, args ...any) {
		if when {
			r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)+" Elections cool down before they promote.")
			r.Forgetful = true
		}
	}
	flush, sync := f.settings["innodb_flush_log_at_trx_commit"], f.settings["sync_binlog"]
	binlog := on(f.settings["log_bin"]) != ""
	warn(flush != "1", "The server runs with innodb_flush_log_at_trx_commit=%s: acknowledged writes may be lost when it fails. Set it to 1.", flush)
	warn(!binlog, "The server keeps no binlog (log_bin): InnoDB then shows a write before it is on the disk, and takes back what was read when it fails."+
		" Set log_bin, and sync_binlog=1.")
	warn(binlog && sync != "1", "The server runs with sync_binlog=%s: when it fails, its binlog, and with it a replica, may lack what was acknowledged. Set it to 1.", sync)
	warn(on(f.settings["innodb_doublewrite"]) == "" && f.settings["innodb_doublewrite"] != "",
		"The server runs without innodb_doublewrite: a machine that fails can leave a torn page in place of a record. Set it on.")
	f.judgeReplication(warn)
	// A clock that was set back makes the table look younger than it is, or as
	// if it came from the future: that costs a wait, and no leader.
	r.Age = max(time.Duration(f.age)*time.Microsecond-inexact, 1)
	return r
}

// forever is the least rpl_semi_sync_master_timeout, in milliseconds, that is
// taken for a promise to wait: a replica that is gone for a day is missed.
const forever = 24 * 60 * 60 * 1000

// judgeReplication examines what a failover keeps, and whether there was one: a
// server that was promoted may have lost the record of who leads.
//
// A semi-synchronous primary has each write wait until a replica has it. By
// default it goes on alone after ten seconds, and MariaDB's shows what it
// writes before it waits.
func (f *findings) judgeReplication(warn func(bool, string, ...any)) {
	const use = " Use semi-synchronous replication, with rpl_semi_sync_master_wait_point=AFTER_SYNC and a long rpl_semi_sync_master_timeout."
	if on(f.semi("enabled")) == "" {
		former := f.settings["gtid_slave_pos"]
		connected := on(f.status["Slaves_connected"]) != ""
		warn(connected, "The server has replicas (%s connected), and replication is asynchronous:"+
			" one that is promoted may lack what was acknowledged."+use, f.status["Slaves_connected"])
		warn(!connected && former != "", "The server was a replica (gtid_slave_pos=%s), and may have taken another's place without all that was acknowledged there."+use+
			" Or set gtid_slave_pos to '' when a lease has passed since, if it will not be a replica again.", former)
		return
	}
	status := f.status["Rpl_semi_sync_master_status"] + f.status["Rpl_semi_sync_source_status"]
	warn(status == "OFF", "The server waits for no replica now (Rpl_semi_sync_master_status is OFF): one that is promoted may lack what was acknowledged.")
	timeout := f.semi("timeout")
	ms, err := strconv.ParseUint(timeout, 10, 64)
	warn(err != nil || ms < forever, "The server runs with rpl_semi_sync_master_timeout=%s: after so many milliseconds without a replica it acknowledges by itself,"+
		" and one that is promoted lacks that. Set it to a day (%d) or more.", timeout, forever)
	point := f.semi("wait_point")
	warn(point != "AFTER_SYNC", "The server runs with rpl_semi_sync_master_wait_point=%s: it shows writes before a replica has them,"+
		" and a failover takes back what was read. Set it to AFTER_SYNC.", point)
	warn(on(f.semi("wait_no_slave")+f.semi("wait_no_replica")) == "",
		"The server runs with rpl_semi_sync_master_wait_no_slave=OFF: where no replica is connected it acknowledges by itself. Set it on.")
}

// semi returns a setting of semi-synchronous replication, by either of the
// names that a server may have for it.
func (f *findings) semi(name string) string {
	return cmp.Or(f.settings["rpl_semi_sync_master_"+name], f.settings["rpl_semi_sync_source_"+name])
}

// mayUse finds out whether the user may read the keys, write theirs and make a
// record.
func (s *Store) mayUse(ctx context.Context, req store.CheckRequest) error {
	if err := base.Usable(ctx, s.Store, req); err != nil || req.Key == "" {
		return err
	}
	return s.mayCreate(ctx)
}

// createSQL inserts nothing, and demands the rights of an insertion.
const createSQL = `INSERT INTO TABLE_NAME (name, revision, tombstone, value)
SELECT '', revision, FALSE, '' FROM FLOOR_NAME WHERE id = 0 LOCK IN SHARE MODE`

// mayCreate finds out whether the user may make a record.
func (c *client) mayCreate(ctx context.Context) error {
	conn, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	_, err = conn.ExecContext(ctx, c.names.fill.Replace(createSQL))
	if isReadOnly(err) { // since just now
		discard(conn)
	}
	if err != nil && errors.Is(classifyWrite(err), store.ErrPermanent) {
		return c.explain(store.ErrPermanent, err)
	}
	return nil // the rest shows, or passes, by itself
}
