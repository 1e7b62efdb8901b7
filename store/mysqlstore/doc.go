// Package mysqlstore keeps the records of elections in a table of MariaDB or
// MySQL, over go-sql-driver/mysql.
//
//	db, err := sql.Open("mysql", "user:password@tcp(host)/database")
//	st, err := mysqlstore.New(db, mysqlstore.Options{Create: true})
//	e, err := leader.NewElectionWithStore(st, cfg)
//
// It is tested on MariaDB 10.11. On MySQL it was not: its triggers need 8.0.29
// or later.
//
// # Writes
//
// A compare-and-swap over a record is one UPDATE of the row that has the
// expected revision: one round trip. A record that is made costs two. Revisions
// follow one rule: the server's clock in microseconds, or one more than the
// revision before if that is further. A new record also exceeds every record
// that was deleted, whose largest revision a trigger keeps in a second table.
// An UPDATE states its revision by the server's clock as the latest answer
// showed it. The server refuses a revision that is ahead of its clock, and the
// store then sends another, which costs two more round trips.
//
// Changes to the table by other tools are seen: an UPDATE by hand has a new
// revision, and after a DELETE the key goes on with a larger one. A record
// cannot be renamed. TRUNCATE and DROP run no triggers: after them revisions go
// on from the server's clock. No revision was ahead of it, unless it was set
// back or another tool set the revision itself. Candidates of earlier versions
// set revisions by their own clock: upgrade all of them before you rely on
// that.
//
// A write is sent once, by a sql.Conn, since a sql.DB repeats some. Errors of
// the server that are known to undo the statement are refusals; all others,
// among them the errors of a commit and of a session that is killed, and a
// connection that breaks or answers too late, leave the outcome unknown
// (store.ErrUnknown): the write may land later. A write that was never sent is
// store.ErrTransient: there was no connection, or the context was done, or the
// driver reports it. So is a write that a read-only server refuses, or would
// refuse to a user of fewer rights, since a failover may end that; the
// connection is closed then, and the pool makes another. Tests lose the answer,
// and freeze and kill the server.
//
// Statements are text without arguments, since the driver would prepare
// arguments by an extra round trip. No flag of the driver changes an outcome,
// and a session with autocommit=0 writes nothing.
//
// # Watching
//
// Watches read by the clock, all of them in one statement: at least twice in a
// heartbeat, and each second where no heartbeat is known. A vacancy is found
// within half a heartbeat. Each read takes a connection of the pool for a
// moment. Reads come from the primary alone, as far as read_only shows.
//
// # What the server must be
//
// Check refuses a table that is missing, not of InnoDB or not complete, a
// session that does not commit by itself or reads uncommitted data, and a
// Galera cluster, on which this store was not examined. It warns, and elections
// cool down before they promote, where acknowledged writes may be lost: unless
// innodb_flush_log_at_trx_commit and sync_binlog are 1, without
// innodb_doublewrite, and where the server reports a connected replica, or that
// it was one itself (MariaDB does), and no semi-synchronous replication.
//
// That has each write wait until a replica has received it. By its defaults it
// does not do so always, and Check warns of them, too: of a
// rpl_semi_sync_master_timeout below a day, after which the primary
// acknowledges alone (the default is ten seconds); of a
// rpl_semi_sync_master_wait_point other than AFTER_SYNC, by which the primary
// shows what no replica has; and of rpl_semi_sync_master_wait_no_slave off.
// Where a replica is missing, a primary without these weaknesses acknowledges
// nothing: nobody leads until there is one. Tests kill a primary and promote
// its replica, which applies first all that it has received.
//
// It does so too where log_bin is off, as it is on MariaDB by default. InnoDB
// then shows a transaction to others when it is complete in memory, and only
// then writes its log: a server that is killed at that moment takes back what
// was read, and gives its revision again. A candidate whose write got no answer
// believes such a read. With a binlog a transaction is shown after that was
// synced. A test kills servers while others read.
//
// # Permissions
//
// A candidate reads and writes rows of the table, and reads the second one; an
// observer reads both:
//
//	GRANT SELECT, INSERT, UPDATE ON leader_records TO candidate;
//	GRANT SELECT ON leader_records_floor TO candidate, observer;
//	GRANT SELECT ON leader_records TO observer;
//
// The triggers run with the rights of the user who made them. A user who may
// drop the second table, and create views and functions in the database, can
// run code with these rights. Make the tables as a user who has no more than
//
//	GRANT CREATE, SELECT, INSERT, UPDATE, TRIGGER ON leader_records TO maker;
//	GRANT CREATE, SELECT, INSERT, UPDATE ON leader_records_floor TO maker;
//
// or keep them in a database in which nobody else may drop and create. With a
// binlog that user needs log_bin_trust_function_creators=1 in place of SUPER.
//
// A candidate may write every key of its table, also without a condition: give
// applications that do not trust each other tables of their own. A user without
// the right TRIGGER cannot see whether somebody dropped the triggers later.
//
// # What is left to the caller
//
// Make sure that one server alone is primary, and that its replicas are
// read-only: an asynchronous replica that is promoted lacks the writes that it
// had not received, and a replica that is not connected is not noticed.
// Revisions, and so the numbers of terms, still exceed the lost ones, unless
// the new primary's clock is behind the lost one's by more than the failover
// took. MySQL does not show its replicas to a user of these rights, nor that a
// server was one. A URL names one server: use a proxy or DNS so that candidates
// reach the new primary by it. A backup that is restored brings back its state:
// stop the candidates for a lease. A program must not start a transaction by a
// plain statement and give the connection back to the pool while the
// transaction is open.
package mysqlstore
