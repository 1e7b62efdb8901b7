// Package mongostore keeps the records of elections in MongoDB, over its driver
// v2.
//
// NOT VERIFIED ON A SERVER: MongoDB was not available where this package was
// written. Its guarantees are the guarantees of MongoDB's manual, as its
// authors read it, and each election over it logs that. `LEADER_MONGODB_URI=…
// go test ./mongostore` in the directory test/labs/stores of the repository
// judges it on yours; prefer another store until you have done so.
//
// A server that the tests could install was looked for on 2026-11-25, from a
// machine that reaches package registries alone. Debian has had none since
// MongoDB's licence changed: mongodb-server has no candidate in Debian 12.
// npm's mongodb-memory-server holds none, and fetches one from
// fastdl.mongodb.org. FerretDB, which can be built, is refused for the reason
// below.
//
//	client, err := mongo.Connect(options.Client().ApplyURI(uri))
//	st, err := mongostore.New(client.Database("app"), mongostore.Options{})
//	e, err := leader.NewElectionWithStore(st, cfg)
//
// # Writes
//
// A register is a document {_id: key, rev, val, dead}, and a compare-and-swap
// one findAndModify with the expected revision in its query, or an upsert for a
// register that is to be unknown, with the write concern {w: "majority", j:
// true}. A revision is one more than the last and at least the cluster's
// logical time (seconds × 2^20 and a count), so that it grows also across a
// deletion, and is below 2^53. A document beyond that is refused, with an error
// that matches store.ErrPermanent: delete it. The driver sends such
// a command once. Where no server was found it is store.ErrTransient and never
// arrives; a matching refusal is store.ErrConflict, a lack of rights
// store.ErrPermanent, and whatever else store.ErrUnknown.
//
// Other tools may delete registers. Their other changes are noticed only if
// they change rev to a larger number.
//
// # Watching
//
// A change stream on the collection names the keys that changed; these are
// read. Where it fails, or the user may not open it, the keys are read by the
// clock, at least twice in a heartbeat. Reads are at the primary with read
// concern linearizable.
//
// # What MongoDB must be
//
// A replica set, or a sharded cluster, of version 6 or later; a collection that
// is sharded must be sharded by _id. Check refuses a standalone server, a user
// without the rights, and servers that only speak the protocol: FerretDB 1
// compares, and then writes, so both of two rivals may win (this refusal is
// tested on FerretDB 1.24). It warns of a lease that is shorter than 12 s,
// which a failover may take. The storage engine inMemory forgets at a restart,
// and Check cannot see it: use leader.GraceOn there.
//
// # Permissions
//
// A candidate needs the actions find, insert, update and changeStream on the
// collection, as the built-in role readWrite on its database has them, and an
// observer find and changeStream. A user without insert is refused at the first
// claim and not by Check, which makes no write that could be applied.
package mongostore
