// Package gcsstore keeps the records of elections in a bucket of Google Cloud
// Storage, over its JSON API (google.golang.org/api/storage/v1).
//
//	service, err := storage.NewService(ctx)
//	st, err := gcsstore.New(service, gcsstore.Options{Bucket: "my-bucket"})
//	e, err := leader.NewElectionWithStore(st, election)
//
// It was tested on an emulator alone, fake-gcs-server 1.56.1. Statements about
// Cloud Storage itself are from its documentation.
//
// The package cloud.google.com/go/storage is the more usual client. A program
// that only calls it is 48 MB (v1.65.0), and one with this client 22 MB
// (v0.293.0; go build, linux/amd64, Go 1.26.8). This client also sends each
// request once by default.
//
// # Writes
//
// A record is one object, whose first line has its revision; package objects
// describes its format and how revisions grow. Generations are not revisions:
// they are compared for equality alone here. A compare-and-swap is one upload
// with ifGenerationMatch, which is 0 where the record does not exist, and is
// sent once. A renewal is one request. A write over a record that this Store
// has not seen costs two, and so does one that makes a record, unless it was
// seen to be missing in the last ten seconds.
//
// An explicit refusal is a conflict (412), store.ErrTransient (409, 429), or
// store.ErrPermanent (all other 4xx). A request that was never sent is
// store.ErrTransient: the HTTP client reports (package httptrace) that it asked
// for a connection and got none. All else is store.ErrUnknown, and may land
// later.
//
// Cloud Storage takes about one write a second to one object, and puts others
// off. So Check warns of a heartbeat of less than 2 s. Choose one of 3 s or
// more where elections are also steered.
//
// # Watching
//
// Watches read by the clock: every two fifths of a heartbeat, and at least each
// second ([Options.Every]). So a vacancy is found within half a heartbeat.
// Reads and lists show the latest write. Each is billed, as each write is. With
// a heartbeat of 2.5 s or more a candidate sends 5.2 million reads in 30 days,
// of a record and a control record, and with one of 3 s the leader another 0.9
// million writes. Raise Options.Every to send fewer. A Store that watches more
// than a dozen keys lists the common prefix of all of them instead of reading
// each: keep other objects under other prefixes.
//
// # What the bucket must be
//
// Check refuses a bucket that is missing and a user without the rights. Where
// the user may look at the bucket (storage.buckets.get) it warns if the bucket
// keeps versions, or deleted objects, since each renewal leaves one, and
// reports the bucket's age: in a bucket that was just made there is no leader
// before a lease has passed. Where the user may not look at the bucket, it
// warns of that: it cannot be known then whether the bucket was deleted and
// made again.
//
// A bucket with a retention policy does not suit elections: it refuses to
// replace an object. Nor does a bucket with objects that are publicly readable,
// unless these reads are not cached; records have the header no-store.
//
// # Permissions
//
// A candidate needs storage.objects.get, list, create and delete in the bucket,
// for which roles/storage.objectUser will do (without delete an object cannot
// be replaced), an observer get and list (roles/storage.objectViewer). A
// candidate should also have storage.buckets.get, which neither role has, so
// that the bucket's age is known. The emulator has no rights, so that this was
// not tried. A user who may write may also write without a condition: give
// applications that do not trust each other separate buckets.
//
// # What is left to the caller
//
// Deletions. A record that is deleted leaves no trace, so that a candidate that
// starts within the old leader's lease does not know of it; a lifecycle rule
// that deletes objects must not reach the prefix. A record that is made,
// deleted, and made by another machine within five seconds has a smaller
// revision if their clocks differ by as much, and so may have one whose making
// was held up on its way while others made and deleted it. An older version
// that is restored brings back an old state: stop the candidates for a lease.
//
// The client. Its timeouts end what is left of a call that was given up, and
// its HTTP client must not repeat a POST by itself; Go's does not.
//
// The client's connections. Over HTTP/2 one that a firewall forgets without a
// word is used on, however many calls time out, until the system gives it up
// after a quarter of an hour, unless there are pings. Those that
// storage.NewService makes by itself notice after 46 s, and a store of [Open]
// after 8 s. On an http.Transport of your own, set SendPingTimeout and
// PingTimeout in its HTTP2.
package gcsstore
