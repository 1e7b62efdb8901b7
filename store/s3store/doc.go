// Package s3store keeps the records of elections in a bucket of Amazon S3, or
// of a system that speaks its protocol, over the AWS SDK for Go v2.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	st, err := s3store.New(s3.NewFromConfig(cfg), s3store.Options{Bucket: "my-bucket"})
//	e, err := leader.NewElectionWithStore(st, election)
//
// It is tested on versitygw 1.8.0, with its objects as files, and not on Amazon
// S3 itself: statements about Amazon S3 are from its documentation.
//
// # Writes
//
// A record is one object, whose first line has its revision; package objects
// describes its format and how revisions grow. A compare-and-swap is one
// PutObject with If-Match, or If-None-Match where the record does not exist,
// and is sent once, whatever retries the client has: a repetition of a write
// whose answer was lost would be refused because of the object that the first
// one wrote. A renewal is one request. A write over a record that this Store
// has not seen costs two, and so does one that makes a record, unless it was
// seen to be missing in the last ten seconds.
//
// An explicit refusal is a conflict (412, and 404 where the record was
// deleted), store.ErrTransient (409, 429, SlowDown, a clock that is off), or
// store.ErrPermanent (all other 4xx). A request that was never sent is
// store.ErrTransient: the SDK failed before it called its HTTP client, or that
// client reports (package httptrace) that it asked for a connection and got
// none. All else is store.ErrUnknown, and may land later.
//
// # Watching
//
// Watches read by the clock: every two fifths of a heartbeat, and at least each
// second ([Options.Every]). So a vacancy is found within half a heartbeat. On
// S3 each read and list has shown the latest write since December 2020. On a
// provider that shows writes later, elections take longer, but there is no
// second leader.
//
// Each request is billed. An election looks at two objects each time, its
// record and its control record. With a heartbeat of 2.5 s or more a candidate
// sends 5.2 million GetObject in 30 days, and with one of 3 s the leader
// another 0.9 million PutObject. Raise Options.Every to send fewer. A Store
// that watches more than a dozen keys lists the common prefix of all of them
// instead of reading each, and an observer of a pattern lists the pattern's
// prefix: keep other objects under other prefixes.
//
// # What the bucket must be
//
// Check tries the conditions, once in a Store's life, on a separate object,
// which it then removes: of writes that race only one may win, and a write over
// a tag that was replaced, or over an object that is gone, must be refused. A
// provider that ignores a condition is refused (store.ErrPermanent), and so are
// a bucket that is missing and a user without the rights. It warns of a bucket
// that keeps versions, of which each renewal leaves one.
//
// With versions, versitygw 1.8.0 writes over objects that are gone, and is
// refused for it. Its metadata belongs in extended attributes, as in the tests,
// and not in files beside the objects (--sidecar). Directory buckets (S3
// Express One Zone) were not tried.
//
// # Permissions
//
// A candidate reads and writes the objects of a prefix, an observer reads them.
// Without s3:ListBucket S3 denies an object that is missing, in place of saying
// that it is. The last statement is for the objects of Check:
//
//	{"Effect": "Allow", "Principal": {"AWS": ["CANDIDATE", "OBSERVER"]}, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::BUCKET"},
//	{"Effect": "Allow", "Principal": {"AWS": ["CANDIDATE", "OBSERVER"]}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::BUCKET/leader/*"},
//	{"Effect": "Allow", "Principal": {"AWS": ["CANDIDATE"]}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::BUCKET/leader/*"},
//	{"Effect": "Allow", "Principal": {"AWS": ["CANDIDATE"]}, "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::BUCKET/leader/'check/*"}
//
// A user who may put objects may do so without a condition: give applications
// that do not trust each other separate buckets or prefixes. S3 can demand the
// conditions of everybody, by a policy with s3:if-match and s3:if-none-match.
//
// # What is left to the caller
//
// Deletions. A record that is deleted leaves no trace, so that a candidate that
// starts within the old leader's lease does not know of it; a lifecycle rule
// that expires objects must not reach the prefix. A record that is made,
// deleted, and made by another machine within five seconds has a smaller
// revision if their clocks differ by as much, and so may have one whose making
// was held up on its way while others made and deleted it.
//
// Copies. An older version that is restored, and a bucket that takes over from
// one that is replicated to it, bring back an old state: stop the candidates
// for a lease.
//
// The client. Its timeouts end what is left of a call that was given up, and
// its HTTP client must not repeat a PUT by itself; Go's does not.
//
// The client's connections. Over HTTP/2 one that a firewall forgets without a
// word is used on, however many calls time out, until the system gives it up
// after a quarter of an hour, unless there are pings, which the SDK's own
// client does not send. Set SendPingTimeout and PingTimeout in the HTTP2 of its
// http.Transport; a store of [Open] has them, and notices after 8 s.
package s3store
