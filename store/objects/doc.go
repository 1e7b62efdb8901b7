// Package objects makes a [store.Store] of the objects of a bucket, where the
// system that keeps them takes writes with a condition, as Amazon S3 and Google
// Cloud Storage do (packages s3store and gcsstore).
//
// An implementation writes a [Bucket]: how one object is read, written under a
// condition and listed. A [Store] on it has everything else: names, revisions,
// tombstones, and watches by looking (package feed).
//
// # Objects
//
// A register is one object. Its first line contains its revision, and the rest
// is the value:
//
//	leader/1 1795413600000000 live 8f0c5a1e9d2b7643
//	{"holder":"host-1", …}
//
// The last word is a sum of the rest, so that two objects of different content
// never pass for one, whatever the system's tags are made of, and an object
// that was edited by hand is noticed. A tombstone has another word in place of
// "live".
//
// # Revisions
//
// A write over a record has the next revision. A new record has the clock in
// microseconds: the machine's, if it is within two seconds of the system's, and
// otherwise the nearest instant that is. Since a record is written less than
// once in a microsecond, its key has a larger revision when it is made again
// after a deletion by other tools. The exceptions: it was made, deleted and
// made again within five seconds by two machines whose clocks differ by as
// much, or the system's own clock was set back.
//
// The data of a foreign tool becomes a record when it is first read by a user
// who may write; other users read it as revision 1.
//
// # Requests
//
// A renewal is one request, since the tag of each object that was read or
// written is remembered. An unknown record is read first, and so is a record
// that is to be made, unless it was seen to be missing in the last ten seconds.
// The store remembers the records that are in use, and also the records of the
// last 10,000 to 20,000 keys, without records that a list no longer shows. Of
// all forgotten records the largest revision is kept, as long as it is not
// ahead of the clock, so that no revision comes again where the clock is set
// back.
//
// A look at up to twelve keys is as many requests, at once. A look at more is a
// list of all objects whose names begin as the keys' do, and one request for
// each that changed; so is a look at a pattern. A user who may not list reads
// each key.
package objects
