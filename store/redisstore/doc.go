// Package redisstore keeps the records of elections in Redis.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "redis.example:6379"})
//	st, err := redisstore.New(rdb, redisstore.Options{})
//	…
//	election, err := leader.NewElectionWithStore(st, cfg)
//
// It was tested with Redis 7.0, alone, as a pair, and as a cluster, and with
// go-redis 9.23.
//
// # Records
//
// A register is a string under its own name after a prefix: `redis-cli get
// leader:reports` shows the revision, whether the record is live or a
// tombstone, and the value. A revision is the server's clock in microseconds,
// or one more than the revision before it if that is larger. It grows across
// deletion, since the clock does: who sets the server's clock back, and deletes
// a record before the clock has caught up, has revisions and terms come again.
//
// A foreign SET becomes a record when it is first read by a user who may write,
// and keeps its text and its expiry; who may not reads it as revision 1. A
// list, hash, set or stream under the prefix is left alone: calls for its key
// fail with store.ErrPermanent, and a watch of a pattern passes over it.
//
// # Writes
//
// A compare-and-swap is one script and one round trip, and in it one SET, which
// happens or does not. The client's MaxRetries does not apply to it: a
// repetition of a write whose answer was lost would conflict with that write.
// Such a write ends with store.ErrUnknown. It ends with store.ErrTransient only
// if it was never written to a connection, and never will be, or if the
// server's answer has a code by which it refuses what it did not look at.
//
// A call returns when its context is done. The rest of its work ends with the
// client's own timeouts, which therefore should not be switched off.
//
// # What is demanded of the server, and what is warned of
//
// [Store.Check] refuses a replica, a user without the rights below, and servers
// of which two may acknowledge writes after a failover: a replica may be
// promoted while the old master lives on, cut off from Sentinel or the operator
// that promotes, and the candidates that still reach it have a second leader,
// for as long as it answers (a test shows the two leaders). So a master with
// replicas, or a master that Sentinel finds, needs one of three things:
//
//   - [Options.Wait], so that the old master acknowledges nothing any more: all
//     of its replicas, or half of them at least;
//   - min-replicas-to-write on all servers, of half of the replicas at least.
//     An old master that is cut off from a replica without a word notices after
//     min-replicas-max-lag, 10 s by default, and two may lead until then;
//   - [Options.Fenced], by which you state that a guard turns the stale one of
//     two leaders away.
//
// It warns of the following, and elections then cool down before they promote (the
// store is reported as forgetful):
//
//   - no append-only file, or another setting than appendfsync always, or
//     no-appendfsync-on-rewrite: a crash loses what was acknowledged last;
//   - replicas, Sentinel, or a server that was once a replica: a failover loses
//     what had not reached the replica that is promoted. So does Sentinel when
//     it mistakes a live master for a dead one;
//   - settings that the user may not read.
//
// The check runs when an election starts: after a server gets its first
// replica, restart it with its candidates, or set AcquireGrace.
//
// Where the server evicts any key for room (maxmemory with a policy of
// allkeys-) records may vanish, but nothing older takes their place: the store
// is reported as one that expires records, and a handover needs no cool-down.
// Policies of volatile- do not meet records, which have no expiry.
//
// With [Options.Wait] a write counts only when so many replicas have it, and a
// read, too: otherwise a candidate that checks whether a write of unknown
// outcome was applied would find it on the master, and lose it with the master
// all the same. If Wait is the number of replicas, a failover to one of them
// loses no acknowledged write, and no cool-down is needed. While one of them is
// missing, no candidate can be elected, or stay leader for longer than a lease.
// There remains one risk: a replica that was away, is back with old data, and
// is promoted before it has caught up. Give it replica-priority 0, or leave
// Wait at zero and cool down.
//
// # Watching
//
// Each write is published on a channel of the same name as its key (with @ and
// the number of the database after it, if that is not 0). A watch is a
// subscription; all watches of one Store share a connection. Changes that the
// channels do not report, such as a DEL by hand, are found by reads, which are
// ten times as rare as without channels, and at most one a second. Without the
// right to subscribe all changes are found by reads. A watch of a pattern hears
// all channels of the prefix, and reads by SCAN, which goes through all keys of
// the database: use a separate database for records if there are millions of
// keys.
//
// A user that may publish on a channel can show a false record to those who
// watch, for as long as it takes to look, though not change the real one.
//
// # Clusters
//
// Each script has one key, so any slot will do, and a prefix in braces keeps
// all of them on one master. Channels reach all nodes of a cluster, if now and
// then late. A *redis.Ring is refused: it takes a key to another server while
// its own is down, where nothing is known of a leader. So is a client that
// reads from replicas.
//
// # Permissions
//
// A candidate needs these rights, here for the default prefix, and an observer
// no more than to read:
//
//	ACL SETUSER candidate on >… ~leader:* resetchannels &leader:* -@all
//	    +get +set +time +pttl +evalsha +eval +publish +subscribe +unsubscribe +ping +info +config|get
//	ACL SETUSER observer on >… %R~leader:* resetchannels &leader:* -@all
//	    +get +scan +subscribe +unsubscribe +psubscribe +punsubscribe +ping
//
// A candidate for one group alone gets, in place of the patterns, the keys
// ~leader:reports %R~leader:_ctl.reports and the channels &leader: (on which
// nothing is published) &leader:reports &leader:_ctl.reports. Redis encrypts
// nothing by default: use rediss://, with parameters for an authority of your
// own and a client's certificate ([Driver]).
//
// # What is left to the caller
//
// That one server alone is master, where neither Wait nor min-replicas-to-write
// keeps an old one from acknowledging writes.
//
// Switch the client's maintenance notifications off, as [Open] does
// (MaintNotificationsConfig with ModeDisabled): in their automatic mode two
// connections that are made at once write to one setting under two locks
// (go-redis 9.23). Both write the same, but the race detector reports it.
//
// The client writes failed dials and the like to the standard error, by one
// logger of the whole process. This package leaves the logger to the program:
// logging.Disable of go-redis turns it off.
//
// A FLUSHALL, or a DEL of a leader's record, leaves no trace: a candidate that
// starts before the leader has renewed, or has heard of it, leads beside it for
// that long. Hand the term to what must refuse a stale leader (package fence).
package redisstore
