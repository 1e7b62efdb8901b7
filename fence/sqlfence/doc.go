// Package sqlfence keeps stale leaders out of SQL databases: PostgreSQL, MySQL
// and MariaDB (InnoDB), and SQLite, through database/sql and the driver of the
// caller's choice.
//
// One small table holds each group's mark. A leader's transaction first calls
// [Fence.Admit], which applies the rule of package fence and locks the group's
// row until the transaction ends; the rest of the transaction is then committed
// with the mark or not at all:
//
//	f, err := sqlfence.New(sqlfence.PostgreSQL, "leader_fence") // once; f.Schema() makes the table
//	…
//	err = f.Do(ctx, db, "reports", term, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE report SET sent = now() WHERE id = $1", id)
//		return err
//	})
//	if errors.Is(err, fence.ErrStale) { … } // another leads: stop
//
// # Why that is enough
//
// The row lock puts the transactions of one group in an order. A transaction
// that was admitted delays the first one of a newer term until it is committed
// or rolled back; after that, its own term is refused.
//
//   - PostgreSQL, READ COMMITTED (the default): the upsert waits for the row
//     and looks at its newest version. From REPEATABLE READ on, a transaction
//     that began before a takeover fails with SQLSTATE 40001 instead, and its
//     repetition is refused.
//   - MySQL and MariaDB, REPEATABLE READ (the default): the statements of Admit
//     are locking ones, which look at the newest version, and open no snapshot.
//     The snapshot of the transaction's plain reads is taken by the first of
//     them.
//   - SQLite: the first statement takes the one write lock of the database. Set
//     busy_timeout, or a transaction that finds it taken fails at once with
//     SQLITE_BUSY.
//
// Call Admit before anything else in the transaction. On MySQL a plain read
// before it fixes a snapshot that may be older than the predecessor's last
// commit, and what is computed from it and written is a lost update; on SQLite
// such a transaction fails with SQLITE_BUSY.
//
// Admitted transactions of a group run one after the other. Where that is too
// slow, use [Fence.AdmitShared], or a table (and group) for each part of the
// data that may change independently.
//
// # Other languages
//
// [Fence.Statements] returns the SQL. For PostgreSQL and a table named
// leader_fence:
//
//	CREATE TABLE IF NOT EXISTS leader_fence (
//	  group_name text PRIMARY KEY, term bigint NOT NULL, digest text NOT NULL);
//
//	BEGIN;
//	INSERT INTO leader_fence AS f (group_name, term, digest)
//	VALUES ($1, $2, pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to($3, 'UTF8')), 'hex'))  -- group, number, token
//	ON CONFLICT (group_name) DO UPDATE SET term = EXCLUDED.term, digest = EXCLUDED.digest
//	WHERE f.term < EXCLUDED.term OR f.term = EXCLUDED.term AND f.digest = EXCLUDED.digest;
//	-- 0 rows: stale, ROLLBACK. 1 row: admitted
//	…
//	COMMIT;
//
// Bind no number above 9007199254740992 (fence.MaxTerm): the row would refuse
// every leader from then on.
//
// The digest is the SHA-256 of the token in lower-case hexadecimal, so that a
// reader of the table cannot pass for the leader.
//
// # What is left to the caller
//
// The table is as durable as the database: one that loses commits at a failover
// (asynchronous replicas, restored backups) loses the mark with the data. A
// user that may write to the table, or attach a trigger to it, can reset the
// fence: grant the leader SELECT, INSERT and UPDATE, and others nothing. A
// commit whose answer was lost may have happened, as ever.
package sqlfence
