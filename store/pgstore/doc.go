// Package pgstore keeps the records of elections in a PostgreSQL table, over
// pgx.
//
//	pool, err := pgxpool.New(ctx, "postgres://…")
//	st, err := pgstore.New(pool, pgstore.Options{Create: true})
//	e, err := leader.NewElectionWithStore(st, cfg)
//
// [NewSQL] does so over a pool of database/sql, of pgx's driver. It is tested
// on PostgreSQL 15 and 18.
//
// # Writes
//
// A compare-and-swap is one call of a function of the database, in a separate
// transaction: one round trip. The function updates the row that has the
// expected revision, or inserts a row that does not exist. A revision is the
// server's clock in microseconds, or more: it exceeds the record's and a
// sequence, which goes on where a record was deleted. A trigger draws it while
// it holds the row's lock, so revisions grow with every writer. Changes to the
// table by other tools are seen: an UPDATE by hand has a new revision, and
// after a DELETE or a TRUNCATE the key goes on with a larger one. A record
// cannot be renamed.
//
// The function has each commit flushed before it is acknowledged, here and at
// the synchronous standbys, whatever the setting of synchronous_commit in the
// session, the role or the server. A stronger remote_apply is kept.
//
// A write is sent once; neither pgx nor this package repeats one. An error that
// the server reports for the statement, of a code that is known to undo it, has
// rolled it back. Any other error, which may come from a pooler that lost the
// server, an error that ends the session, and a connection that breaks or
// answers too late, leave the outcome unknown (store.ErrUnknown): the write may
// land later. A write that was never sent is store.ErrTransient: there was no
// connection, or the context was done. So is a write that a standby or a
// read-only server refuses, since both states may end without a person; the
// connection is closed then, and the pool makes another. Tests lose the answer,
// put a pooler's error in its place, freeze and kill the server, and break the
// connection between the row and the commit.
//
// Every statement on the pool's connections is sent without a prepared name
// (pgx.QueryExecModeExec), whatever the pool's default is.
//
// Where a candidate reads by the clock, its session performs the steps of a
// write once, and rolls them back: a session's first write takes several times
// as long as the next, and a follower's first write is the claim for which its
// group waits. The rolled back write is neither visible nor notified. It takes
// two numbers of the sequence, and leaves dead rows for the vacuum, once for
// each connection.
//
// # Watching
//
// While something is watched, one more connection listens to the channel that
// has the table's name. A notification names a key, which is then read on that
// connection; it contains nothing else, since every user of the database may
// listen, and notify. The connection is taken out of the pool and not counted
// by it. After 2 s of silence the store checks that it still answers. In
// addition, everything watched is read now and then.
//
// A pooler in transaction mode accepts LISTEN and delivers nothing. That is
// found out by a notification that does not arrive, Check warns of it, and the
// table is read by the clock: at least twice in a heartbeat. Writes and reads
// are sound behind such a pooler, and the store counts as connected while reads
// succeed. It tries again to listen, more and more seldom up to each 5 min. In
// session mode all works.
//
// Reads come from the primary alone: a standby is refused.
//
// A pool of database/sql lends no connection to listen on: [NewSQL] reads what
// is watched by the clock, at least twice in a heartbeat.
//
// # What the server must be
//
// Check refuses a table that is missing or unlogged, a relation that is not a
// table, a sequence with a cache, and triggers that are gone or disabled. It
// warns, and elections cool down before they promote, where acknowledged writes
// may be lost: without fsync or full_page_writes, and where a standby or a
// replication slot exists while synchronous_standby_names is empty. A failover
// to an asynchronous standby loses the writes that the standby had not
// received. A candidate that starts afterwards sees no standby: until a lease
// has passed since a server was promoted, as far as its last checkpoint shows,
// candidates that start on it are not promoted. The standby may not have
// received the latest revisions either. They go on from its own clock, and so
// exceed the lost ones unless that clock is behind the lost server's by more
// than the failover took; otherwise the number of a term may be given a second
// time.
//
// # Permissions
//
// The role that runs the statement of [Schema] owns what it makes. A candidate
// needs no more than to read the table and to call the function, so that it
// cannot write without stating a revision; an observer does without the second:
//
//	GRANT USAGE ON SCHEMA public TO candidate, observer;
//	GRANT SELECT ON leader_records TO candidate, observer;
//	GRANT EXECUTE ON FUNCTION leader_records_swap TO candidate;
//
// The functions run as the owner, so three rights belong to the owner alone: to
// execute the trigger functions, to attach a trigger to the table (TRIGGER,
// which GRANT ALL includes), and to use or update the sequence. The statement
// of [Schema] revokes them, also where ALTER DEFAULT PRIVILEGES granted them.
// The trigger functions refuse every other table. Check reports roles that hold
// such a right, and the statements that revoke it. As for all functions of this
// kind, the owner should be a role that owns nothing else, and no superuser.
//
// Statements use only the operators and functions of pg_catalog, even if others
// may create in a schema of the search_path, unless the search_path names that
// schema before pg_catalog.
//
// A candidate may write every key of its table: give applications that do not
// trust each other tables of their own.
//
// # What is left to the caller
//
// Make sure that one server alone is primary. An old primary that runs on after
// a failover, and to which some candidates are still connected, has a second
// leader unless a synchronous standby that is gone keeps it from acknowledging
// anything: that is the purpose of synchronous_standby_names. A backup that is
// restored brings back its state: stop the candidates for a lease. An operator
// who cancels a session that waits for a standby (pg_cancel_backend) has its
// write acknowledged without that standby, and shown to others. pgx does the
// same when a call's deadline passes, except on connections made with
// [NoCancel], like the connections of [Open]: use it for a pool that you make
// yourself if there is a synchronous standby. A commit that waits while the
// server crashes counts as done once it runs again (PostgreSQL's manual,
// "Planning for High Availability"). A DROP of the table lets revisions fall if
// the clock is set back before the table is made again.
//
// A pool of pgxpool asks a connection that was idle for a second whether it is
// still there, which is a second round trip for a renewal. [Open] raises that
// to half a minute; for a pool of your own set pgxpool.Config.ShouldPing. Let
// the pool connect with target_session_attrs=read-write, as [Open] does, if it
// has several hosts.
package pgstore
