// Package natsstore keeps the records of elections in a NATS JetStream
// key-value bucket.
//
// # Writes
//
// A compare-and-swap is one publish to $KV.<bucket>.<key> with the expected
// last sequence of that subject; a revision is a stream sequence. A tombstone
// is the bucket's delete marker with the value as its body: `nats kv get` finds
// no key where Get and Watch still deliver what was written.
//
// The caller's connection is used as it is. If the connection is down at the
// moment of a write, the write is not sent. If it breaks a moment later, the
// connection may keep the write in its reconnect buffer and deliver it long
// after the call gave up. Such a call has ended with store.ErrUnknown.
//
// # Reads
//
// Any replica answers a direct get, and so does each mirror of the stream: the
// server sets mirror_direct, without being asked, on the mirrors of a stream
// with allow_direct. Either may lag for long. An answer from another stream
// than the bucket's is discarded, and the read is repeated. An answer "not
// found" does not name the stream that gave it. The first such answer for a
// key, and each after an interruption, counts if the stream's leader holds no
// record of the key (STREAM.INFO), or, where the leader does not answer, if
// several reads in a row find nothing. The refusal of a write contains the
// revision at which the stream's leader has the key. A read that returns less
// is not believed until the leader's state agrees. [Store.Check] tries two
// writes that no server accepts, so that a candidate knows the revisions of
// both its keys before it watches them. It refuses a bucket for which mirrors
// answer each time.
//
// # Watching
//
// A bucket that [EnsureBucket] made republishes each stored record on a core
// subject, leader.<bucket>.<key>. A watch is then a plain subscription, with
// one direct get at its start and after each interruption to read the state:
// the server keeps nothing for the watch. A route between servers, or the link
// of a leaf node, loses messages when it breaks, and the connection does not
// report this loss. So a key without news for 30 s is read, at most 100 keys in
// a second. The keys that match a watched pattern are read as often, and at
// that pace if there are more than 3,000 of them.
//
// A user that may publish on the republished subjects can show a false record
// to those who watch, though not change the real one; deny that like a write to
// the key.
//
// In other buckets the server keeps consumers. Each of the first four keys of a
// Store has a consumer for itself: the server checks a candidate's permission
// on the subject of the request that makes the consumer, and this subject
// contains the key only if there is just one. All further keys share consumers,
// of up to 512 keys. As keys come and go, the store updates the consumer within
// a tenth of a second, and a key is read once more when its consumer includes
// it. A user who may not make a shared consumer gets one for each key. With
// [Options.WatchWholeBucket] one consumer serves all keys.
//
// A consumer that delivers nothing for 2 s sends a heartbeat. After 5 s of
// silence the store sends a request to the server. If the consumer is still
// silent when the server answers, it counts as lost and is made again. A
// consumer also counts as lost if a read or a refused write showed a write that
// it has not delivered within a second. Until the next consumer is ready the
// keys are read, 500 a second at most.
//
// All watches of one Store share one goroutine, which ends with the last of
// them.
//
// A watch of a pattern has one subscription or one consumer, however many keys
// there are, and costs a second goroutine. In a bucket that republishes, it
// reads the current state by one direct get of all keys. Where there are more
// than 1,024 keys, the most that the server returns, it reads by a consumer
// made for the purpose. The replica or mirror that answers may lag behind. So
// the store asks the stream's leader which keys there are, if the user may ask.
// The current state is complete when all of them have come.
//
// # Permissions
//
// A candidate writes one key and reads two. It listens to two subjects. An
// observer of a bucket that republishes needs to publish nothing.
// docs/operate/permissions.md lists the subjects for each role, with what happens
// without each of them, and a test takes each away in turn. There, too, is what
// permissions cannot do: the users of one NATS account must trust each other.
//
// The server reports a missing permission only on the connection, not in the
// reply: a call that waits looks for it at [nats.Conn.LastError], which shows
// the latest error alone. Where that is another one, the store asks the server
// for one right after the other, without an effect, and awaits each answer: a
// violation that comes meanwhile belongs to the right that was asked for. A
// server that loads other permissions takes subscriptions away. Whatever reads
// a key (a refused claim, 30 s of silence) subscribes again first, if the
// connection has reported any error since.
//
// Where neither the bucket's configuration may be read nor a consumer be made,
// the bucket is assumed to republish as [EnsureBucket] makes it;
// [Options.Republished] overrides that. Without any right to publish, an
// observer learns the state of each key with the first write that follows.
//
// # Parts
//
// A client sends each call that asks once, and explains its outcome (client.go,
// read.go, write.go, check.go, rights.go). All that goes on by itself belongs
// to a hub (hub.go), which joins parts that do not depend on each other. Each
// is a package below internal/:
//
//	wire      the subjects of a bucket, and how a record reads in each message
//	loop      the one goroutine, its queue and the lock that guards the others
//	sources   who brings the writes to a key, and whether it still does
//	registry  the keys that are watched: what is known, and who hears it
//	pattern   the same for all keys that match a pattern
//	watch     what each watch still waits for, and how long before a retry
//	writes    writes of which nobody waits for the answer
//	attend    whether the answer to a call can still come
package natsstore
