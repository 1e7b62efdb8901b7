// Package etcdstore keeps the records of elections in etcd, over its client v3.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, …})
//	st, err := etcdstore.New(client, etcdstore.Options{})
//	e, err := leader.NewElectionWithStore(st, cfg)
//
// Nothing has to be made in etcd first. It is tested on etcd 3.7.3, on one
// server and on three.
//
// # Writes
//
// A compare-and-swap is one transaction, and so one round trip; a revision is
// etcd's own, which all keys share, so that it grows also across a deletion.
// The record of the key "orders" is the unchanged value of leader/orders, and
// `etcdctl get leader/orders` shows it. A tombstone is kept in the sibling
// leader/orders+deleted, and removes leader/orders, so that etcdctl finds no
// such key where Get and Watch still deliver the tombstone. Writes and
// deletions of leader/orders by other tools are seen. A deletion leaves nothing
// behind: the register is then unknown, as if it had never been written. Only a
// key that was written by hand over a tombstone, and is deleted again, shows
// that tombstone once more.
//
// A write leaves once. The client's own interceptor would repeat a write whose
// answer reports that its context has ended while the caller's has not, as a
// server does that is being shut down or sees the deadline pass first. The
// repetition would then be refused because of the first attempt's write, as a
// false conflict. This package disables this repetition, and gRPC's retries
// too. It also knows whether a write left: a write that got no connection is
// store.ErrTransient and never arrives. A write that left and was not
// explicitly refused is store.ErrUnknown, and may land later. Each write asks
// for a server that knows its cluster's leader, so that a server that was cut
// off refuses immediately.
//
// A full etcd answers "database space exceeded" also to transactions that it
// has applied. The register is read once more then: if it is as the write
// expected, the write was refused (store.ErrPermanent, since people have to
// make room and to disarm the alarm), otherwise its outcome is unknown.
//
// # Watching
//
// All watches share one stream, with a watcher for each key and each pattern. A
// watcher never asks for a start revision (StartRevision) or resumes at one: it
// begins with the next write, and the current state is read once the server has
// confirmed the watcher, so that nothing is lost between the two. When the
// stream was interrupted all of this is done again. So no revision has to be
// kept, and compaction does not affect watches. Answers are read while requests
// are still being sent, so that the number of watchers stops no stream: 6,000
// keys are tested.
//
// The stream asks for a leader, too, and ends when the cluster has lost it. A
// stream that delivered nothing for 2 s is asked for its progress (a progress
// request): that only probes whether it lives, and the revision of the answer
// is not used. It counts as lost when it stays silent for as long again. Where
// watching fails, the keys are read by the clock: at least twice in a
// heartbeat.
//
// Reads are linearizable, and none is older than its call.
//
// # What etcd must be
//
// Check refuses endpoints of different clusters, the alarms NOSPACE and
// CORRUPT, and a user without the right to read or write the key. It warns of
// endpoints that do not answer or are cut off, of learners, of an even number
// of voting members, of a database that has nine tenths of its quota, and of a
// lease of less than 3 s on a cluster, which takes no writes for up to two of
// its election timeouts (1 s by default) when its own leader is lost.
// Defragmentation and automatic compaction do no harm.
//
// # Permissions
//
// A candidate reads and writes the keys of its register and of its control
// record, an observer reads them. In a role for all registers, or for one group
// alone (the comma ends the range behind the sibling):
//
//	etcdctl role grant-permission elections --prefix=true readwrite leader/
//
//	etcdctl role grant-permission orders readwrite leader/orders leader/orders,
//	etcdctl role grant-permission orders readwrite leader/_ctl.orders leader/_ctl.orders,
//
// Check asks for the list of members and for each endpoint's status, for which
// a user needs no right.
//
// # What is left to the caller
//
// A client that notices dead connections. Where a server or a network is gone
// without a word, a client without keepalive goes on waiting for minutes: set
// clientv3.Config.DialKeepAliveTime (10 s; gRPC pings no more often) and
// DialKeepAliveTimeout, as [Open] does. When its etcd is away for long, gRPC
// attempts to connect at intervals that grow to two minutes; this package has
// it try with each call that finds no connection, and about once a second while
// something is watched.
//
// The disk. A server with --unsafe-no-fsync loses acknowledged writes when its
// machine loses power, and etcd does not report that setting. Use
// leader.GraceOn on one.
//
// A snapshot that is restored. It takes back what was written since, and with
// `etcdutl snapshot restore` alone revisions, and so the terms of elections,
// are given again. Candidates that saw a later state notice and promote nobody
// for a lease; one that starts afterwards has nothing to notice by. Restore
// with --bump-revision 1000000000 --mark-compacted, which keeps terms growing,
// and let a lease pass between the last write of the old servers and the first
// of the new.
//
// An etcd that is recreated, empty, at the address of another. etcd does not
// report when its cluster began (store.Report.Age is 0), and the cluster's ID
// is the same again where its members and its token are. So let a lease pass
// here, too, or start the first candidates with leader.GraceOn.
//
// A record that an operator deletes. Nothing is left of it, so that a candidate
// that starts within the old leader's lease would not know of it: use `leader
// vacate`, or stop the candidates.
package etcdstore
