// Package k8sstore keeps the records of elections in Leases of Kubernetes
// (coordination.k8s.io/v1), over client-go.
//
//	st, err := k8sstore.New(clientset.CoordinationV1().RESTClient(), k8sstore.Options{Namespace: "default"})
//	e, err := leader.NewElectionWithStore(st, cfg)
//
// Nothing has to be made in Kubernetes but the namespace and a Role. It is
// tested on a kube-apiserver 1.36.3 with RBAC, on one etcd.
//
// # The Lease
//
// The record of the group "orders" is the Lease orders. Its spec is an ordinary
// Lease's: kubectl, dashboards and client-go see holderIdentity,
// leaseDurationSeconds, acquireTime, renewTime and leaseTransitions. The record
// itself is the annotation leader/record, and `kubectl get lease orders -o
// yaml` shows it. A group without a leader keeps its Lease, without a holder.
//
// acquireTime and renewTime correspond to acquired and renewed of the record:
// they come from the writer's wall clock, and are for people. In a group
// without a leader both contain the time of the release, as with client-go, and
// acquired the beginning of the term. A client-go holder is seen with the times
// of the spec.
//
// A key with bytes that RFC 1123 does not allow is encoded, each of these bytes
// as "x--" and two hexadecimal digits: the control record of the group is the
// Lease x--5fctl.orders, and [Store.LeaseName] returns all names. Control
// records are Leases, too, and not ConfigMaps: so a Role needs one resource,
// which configures nothing, and one watch delivers both.
//
// A write is one POST or PUT, and so one round trip. It names the uid of the
// Lease as well as its resourceVersion: with the latter alone, Kubernetes
// recreates a deleted Lease. A revision is the resourceVersion, which is a
// number that grows for all objects of a kind, across deletion, too. It used to
// be opaque by the letter of the API, and is not since 1.35 (KEP-5504,
// Comparable Resource Version). A resourceVersion that is not a number is
// refused.
//
// A write leaves once. client-go would repeat a write that was answered with
// 429 or 5xx and a Retry-After, and the answer to the repetition is a false
// conflict with the first. Its retries and its rate limiter are off here. The
// API server refuses explicitly; every other write that may have left is
// store.ErrUnknown, also if a load balancer answers in its place. A write that
// found no connection is store.ErrTransient, and never arrives. After a
// conflict the Lease is read: if it holds this very write, something on the way
// has sent it twice, and it is acknowledged.
//
// # Beside client-go
//
// Unmodified candidates of client-go may use the same Lease. The spec decides
// whose it is, since client-go keeps the annotations when it takes over:
//
//   - They wait out leaseDurationSeconds from when they saw the latest renewal,
//     without a margin. So a record writes its TTL × (1 + ClockDrift) there, in
//     whole seconds, rounded up, and never less than one.
//   - Ours see a foreign holder as a record with leaseDurationSeconds for its
//     TTL, and leave it alone for that and their margin, from when they saw its
//     latest renewal. Without leaseDurationSeconds they believe
//     leader.ElectionConfig.ForeignTTL. No lease is believed for longer than an
//     hour. Neither side looks at clocks of others, nor at the server's.
//   - A release by ours is taken by theirs at their next try (RetryPeriod), and
//     one by theirs (ReleaseOnCancel) by ours at once. Only what client-go
//     writes then counts as a release. Where an operator clears a holder, ours
//     wait for a lease.
//   - The term of a foreign holder is the revision at which it was seen first,
//     which may differ from observer to observer. This library's terms are the
//     revision of the claim, as everywhere, and grow also across foreign terms.
//     Never take leaseTransitions for a term: a recreated Lease starts again.
//
// In 100 changes to client-go and back, this library never led beside
// client-go. client-go's own overlaps remain: it counts its RenewDeadline from
// the answer to a renewal, and all others count the lease from the renewal. So
// a late answer lets it lead on for up to two RenewDeadlines and a RetryPeriod
// after its last renewal, 22 s for a lease of 15 s by default. With a lease of
// 1 s, a RenewDeadline of 700 ms and an answer that came 600 ms late it led for
// 278 ms beside its successor. It also leads on while its process is frozen,
// and it releases a Lease before it has called OnStoppedLeading. Fence the
// resources that it guards.
//
// # Watching
//
// Up to 16 keys have a watch each, with a field selector on the Lease's name,
// for which a user needs no right to other Leases. More keys, and patterns,
// share a watch of the whole namespace. Each begins with the current state.
// Where a watch breaks off, and now and then, the Leases are read, by quorum.
// Where the user may not watch, they are read by the clock, at least twice in a
// heartbeat.
//
// # Permissions
//
// Check asks the API server for these rights, and refuses a user without those
// to get, create and update; to create is only needed while there is no Lease.
// A candidate of the group orders needs:
//
//	rules:
//	- apiGroups: [coordination.k8s.io]
//	  resources: [leases]
//	  resourceNames: [orders, x--5fctl.orders]
//	  verbs: [get, update, watch]
//	- apiGroups: [coordination.k8s.io]
//	  resources: [leases]
//	  verbs: [create] # a request to create names no object
//
// An observer of all groups needs get, list and watch of leases. The Role of a
// client-go candidate (get, create, update) suffices, without watching.
//
// # What is left to the caller
//
// The connection, if the client belongs to the program. client-go notices after
// up to 45 s that a server is silently gone, unless
// HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS are shorter; a
// store of [Open] and [NewForConfig] notices after 8 s, and also reads the
// files of certificates at each handshake. While no Lease is watched, a short
// interruption is reported only if a request meets it: there is no stream then,
// since a candidate's rights are to its own Leases alone.
//
// The load. A renewal is one write to etcd, which the API server serves in its
// priority and fairness: the rules for leader elections that a cluster begins
// with hold for its own components in kube-system. Keep the TTL at some
// seconds, and see that etcd has a disk that syncs.
//
// Other programs' writes to a Lease. Each label or annotation that is added to
// it during a term costs the leader its term, since the next renewal expects
// another resourceVersion; it leads again immediately. Make labels before.
//
// A Lease that an operator deletes. Nothing is left of it, so that a candidate
// that starts within the old leader's lease would not know of it, and a leading
// client-go makes it again: use `leader vacate`, or stop the candidates. The
// same goes for a namespace.
//
// The store does not report its age (store.Report.Age). A namespace has a time
// of creation, and a candidate no right to read it. But a Lease is deleted more
// easily than a namespace, and nothing reports that.
//
// A backup of etcd that is restored. It takes back what was written since, and
// gives resource versions again, unless it is restored with raised revisions
// (etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted), which
// Kubernetes needs for its own watches as well. Let a lease pass before
// candidates start.
package k8sstore
