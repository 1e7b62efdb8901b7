// Package natsstore keeps the records of elections in a NATS JetStream
// key-value bucket.
//
// # Writes
//
// A compare-and-swap is one publish to $KV.<bucket>.<key> with the expected last
// sequence of that subject; a revision is a stream sequence. A tombstone is the
// bucket's delete marker with the value as its body, so that `nats kv get` finds
// no key where Get and Watch still deliver what was written.
//
// The caller's connection is used as it is. A connection that is down at the
// moment of a write is noticed, and the write is not sent. One that breaks a
// moment later may keep the write in its reconnect buffer and deliver it long
// after the call gave up: such a call has ended with store.ErrUnknown.
//
// # Watching
//
// A bucket that [EnsureBucket] made republishes each stored record on a core
// subject, leader.<bucket>.<key>. A watch is then a plain subscription plus one
// direct get for the state at its beginning and after each interruption: the
// server keeps nothing for it. Whoever may publish on the republished subjects
// can show a false record to those who watch, though not change the real one;
// deny that like a write to the key.
//
// In other buckets each watched key (or the whole bucket, see
// [Options.WatchWholeBucket]) has one ordered push consumer with a heartbeat of
// 300 ms: it is made anew when its heartbeats stop, and until it stands the keys
// are read twice a second. A consumer holds one key, rather than all keys of a
// watch, because the server checks a candidate's permission on the subject of
// the request that makes it, and that names a filter only if there is just one.
//
// All watches of one Store share one goroutine, which ends with the last of them.
//
// # Permissions
//
// A candidate of group g in bucket b publishes to
//
//	$KV.b.g                                 its record
//	$JS.API.DIRECT.GET.KV_b.$KV.b.g         reads
//	$JS.API.STREAM.INFO.KV_b                how the bucket is configured
//	$JS.API.CONSUMER.CREATE.KV_b.*.$KV.b.g  only where the bucket does not republish
//	$JS.API.STREAM.CREATE.KV_b              only if it is to make the bucket
//
// and subscribes to leader.b.g (where the bucket republishes) and to its own
// inboxes. Of the control key _ctl.g it needs the same, but for the right to write, which is
// for operators: $KV.b._ctl.g.
//
// The server tells of a missing permission only on the connection, not in the reply: a call
// that waits looks for it at [nats.Conn.LastError]. With [Options.Republished] set, an
// observer needs no right to publish at all; it then learns the state with the first
// write that follows.
package natsstore
