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
// A register is one object. Its first line says which revision it has, and the
// rest is the value:
//
//	leader/1 1795413600000000 live 8f0c5a1e9d2b7643
//	{"holder":"host-1", …}
//
// The last word is a sum of the rest, so that two objects of different content
// never pass for one, whatever the system's tags are made of, and one that was
// edited by hand is noticed. A tombstone says so in place of "live".
//
// # Revisions
//
// A write over a record has the next revision. A record that is made has the
// clock in microseconds: that of the machine, if it is within two seconds of
// what the system says, and else the nearest instant that is. Since a record is
// written less than once in a microsecond, its key has a larger revision when
// it is made again after a deletion by other tools. The exceptions: it was
// made, deleted and made again within five seconds by two machines whose clocks
// differ by as much, or the system's own clock was set back.
//
// What a foreign tool wrote becomes a record when it is first read by a user
// who may write; who may not reads it as revision 1.
//
// # Requests
//
// A renewal is one request, since the tag of each object that was read or
// written is remembered. A record that is not known is read first, and so is
// one that is to be made, unless it was seen to be missing in the last ten
// seconds. Remembered are the records that are in use: those of the last 10,000
// to 20,000 keys besides, without those that a list no longer shows. Of all
// that are forgotten the largest revision is kept, as long as it is not ahead
// of the clock, so that none comes again where that is set back.
//
// A look at up to twelve keys is as many requests, at once. One at more is a
// list of all objects whose names begin as those of the keys do, and one
// request for each that changed; so is a look at a pattern. A user who may not
// list reads each key.
package objects
