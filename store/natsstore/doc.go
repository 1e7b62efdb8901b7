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
// The caller's connection is used as it is. A connection that is down at the
// moment of a write is noticed, and the write is not sent. One that breaks a
// moment later may keep the write in its reconnect buffer and deliver it long
// after the call gave up: such a call has ended with store.ErrUnknown.
//
// # Reads
//
// Any replica answers a direct get, and so does each mirror of the stream: the
// server gives mirrors of a stream with allow_direct the setting mirror_direct,
// unasked. Either may lag for long. The answer of another stream than the
// bucket's counts as none, and the read is made again. Who finds nothing the
// server does not tell: the first such answer for a key, and each after an
// interruption, counts if the stream's leader holds no record of the key
// (STREAM.INFO), or, where it does not say, if several in a row find nothing.
// The refusal of a write names the revision at which the stream's leader has
// the key. A read that shows less is not believed until the leader's state
// agrees. [Store.Check] tries two writes that no server accepts, so that a
// candidate knows the revisions of both its keys before it watches them. It
// refuses a bucket for which mirrors answer each time.
//
// # Watching
//
// A bucket that [EnsureBucket] made republishes each stored record on a core
// subject, leader.<bucket>.<key>. A watch is then a plain subscription plus one
// direct get for the state at its beginning and after each interruption: the
// server keeps nothing for it. A route between servers or the link of a leaf
// node that breaks takes messages along, and the connection shows nothing of
// that. So a key of which nothing was heard for 30 s is read, at most 100 keys
// in a second. What matches a watched pattern is read as often, and where there
// are more than 3,000 keys, at that pace.
//
// A user that may publish on the republished subjects can show a false record
// to those who watch, though not change the real one; deny that like a write to
// the key.
//
// In other buckets the server keeps consumers. The first four keys of a Store
// have one each: the server checks a candidate's permission on the subject of
// the request that makes it, and that names a key only if there is just one.
// All further keys share consumers, of up to 512 keys. As keys come and go, the
// server is told of it within a tenth of a second, and a key is read once more
// when its consumer names it. A user who may not make such a consumer gets one
// for each key. With [Options.WatchWholeBucket] there is one for all.
//
// A consumer that delivers nothing for 2 s sends a heartbeat. One that is
// silent for 5 s is asked for: it counts as lost, and is made anew, if it stays
// silent until the server has answered once more. So does one that has not
// delivered, within a second, a write that a read or a refused write showed.
// Until it stands the keys are read, 500 a second at most.
//
// All watches of one Store share one goroutine, which ends with the last of
// them.
//
// A watch of a pattern has one subscription or one consumer, however many keys
// there are, and costs a second goroutine. In a bucket that republishes, it
// reads the present state by one direct get of all keys. Where there are more
// than 1,024 of them, the most that the server answers with, it reads by a
// consumer made for it. The replica or mirror that answers may lag behind.
// So the store asks the stream's leader which keys there are, if the user may
// ask. The present state is complete when all of them have come.
//
// # Permissions
//
// A candidate writes one key and reads two. It listens to two subjects. An
// observer of a bucket that republishes needs to publish nothing.
// docs/operations.md lists the subjects for each role, with what happens
// without each of them, and a test takes each away in turn. There, too, is what
// permissions cannot do: the users of one NATS account must trust each other.
//
// The server reports a missing permission only on the connection, not in the
// reply: a call that waits looks for it at [nats.Conn.LastError]. Where neither
// the bucket's configuration may be read nor a consumer be made, the bucket is
// assumed to republish as [EnsureBucket] makes it; [Options.Republished] says
// otherwise. Without any right to publish, an observer learns the state of each
// key with the first write that follows.
//
// # Parts
//
// A call that asks once is sent and explained by a client (client.go, read.go,
// write.go, check.go). Whatever goes on by itself belongs to a hub (hub.go),
// which joins parts that know nothing of each other. Each stands in a package
// of its own below internal/:
//
//	wire          the subjects of a bucket, and how a record reads in each message
//	loop          the one goroutine, its queue and the lock that guards the others
//	request       requests of that goroutine, until they are answered
//	feed          who brings the writes to a key, and whether it still does
//	registry      the keys that are watched: what is known, and who hears it
//	pattern       the same for all keys that match a pattern
//	watch         what each watch still waits for
//	writes        writes of which nobody waits for the answer
//	attend        whether the answer to a call can still come
//	singleflight  one answer for all who ask the same at once
//	retry         how long to wait before something is repeated
package natsstore
