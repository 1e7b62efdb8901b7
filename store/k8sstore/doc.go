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
// The record of the group "orders" is the Lease orders. Its spec is that of any
// Lease: kubectl, dashboards and client-go see holderIdentity,
// leaseDurationSeconds, acquireTime, renewTime and leaseTransitions. The record
// itself is the annotation leader/record, and `kubectl get lease orders -o
// yaml` shows it. A group without a leader keeps its Lease, without a holder.
//
// acquireTime and renewTime are what acquired and renewed of the record are: of
// the wall clock of who wrote them, and for people. Of a group without a leader
// both say when it was released, as with client-go, and acquired when the term
// began. A holder that is client-go's is seen with the times of the spec.
//
// A key with other bytes than those of RFC 1123 is encoded, each of them as
// "x--" and two hexadecimal digits: the control record of the group is the
// Lease x--5fctl.orders, and [Store.LeaseName] tells all names. Control records
// are Leases, too, and no ConfigMaps: so a Role needs one resource, with which
// nobody configures anything, and one watch brings both.
//
// A write is one POST or PUT, and so one round trip. It names the uid of the
// Lease besides its resourceVersion: with the latter alone, Kubernetes makes a
// Lease anew that was deleted. A revision is the resourceVersion, which is a
// number that grows for all objects of a kind, across deletion, too. It used to
// be opaque by the letter of the API, and is not since 1.35 (KEP-5504,
// Comparable Resource Version). A resourceVersion that is no number is refused.
//
// A write leaves once. client-go would repeat one that was answered with 429 or
// 5xx and a Retry-After, and the answer to the repetition is a false conflict
// with the first. Its retries and its rate limiter are off here. The API server
// refuses in so many words; everything else that may have left is
// store.ErrUnknown, also what a load balancer answers in its place. What found
// no connection is store.ErrTransient, and never arrives. A conflict is read
// after: where the Lease holds this very write, something on the way has sent
// it twice, and it is acknowledged.
//
// # Beside client-go
//
// Unmodified candidates of client-go may use the same Lease. The spec decides
// whose it is, since client-go keeps the annotations when it takes over:
//
//   - They wait out leaseDurationSeconds from when they saw the latest renewal,
//     without a margin. So a record says its TTL × (1 + ClockDrift) there, in
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
//     which may differ from observer to observer. Terms of ours are the
//     revision of the claim, as everywhere, and grow also across terms of
//     theirs. Never take leaseTransitions for a term: a Lease that is made
//     again begins anew.
//
// In 100 changes to client-go and back, ours never led beside theirs. What
// client-go overlaps by itself stays: it counts its RenewDeadline from the
// answer to a renewal, and all others count the lease from the renewal. So a
// late answer has it lead on for up to two RenewDeadlines and a RetryPeriod
// after its last renewal, 22 s for a lease of 15 s by default. With a lease of
// 1 s, a RenewDeadline of 700 ms and an answer that came 600 ms late it led for
// 278 ms beside its successor. It also leads on while its process is frozen,
// and it releases a Lease before it has called OnStoppedLeading. Fence what it
// guards.
//
// # Watching
//
// Up to 16 keys have a watch each, with a field selector on the Lease's name,
// for which a user needs no right to other Leases. More of them, and patterns,
// have one of the whole namespace. Each begins with the present state. Where a
// watch breaks off, and now and then, the Leases are read, by quorum. Where the
// user may not watch, they are read by the clock, at least twice in a
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
// The connection, if the client is the program's own. client-go notices after
// up to 45 s that a server is gone without a word, unless
// HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS say less; a
// store of [Open] and [NewForConfig] after 8 s, which also reads the files of
// certificates at each handshake. While no Lease is
// watched, a short interruption is reported only if a request meets it: there
// is no stream then, since a candidate's rights are to its own Leases alone.
//
// The load. A renewal is one write to etcd, which the API server serves in its
// priority and fairness: the rules for leader elections that a cluster begins
// with hold for its own components in kube-system. Keep the TTL at some
// seconds, and see that etcd has a disk that syncs.
//
// What others write to a Lease. Each label or annotation that is added to it
// while somebody leads costs the leader its term, since the next renewal
// expects another resourceVersion; it leads again at once. Make labels before.
//
// A Lease that an operator deletes. Nothing is left of it, so that a candidate
// that starts within the old leader's lease would not know of it, and a leading
// client-go makes it again: use `leader vacate`, or stop the candidates. The
// same goes for a namespace.
//
// Its age is not among what the store tells (store.Report.Age). A namespace has
// a time of creation, and a candidate no right to read it. But a Lease is
// deleted more easily than a namespace, and of that nothing tells.
//
// A backup of etcd that is restored. It takes back what was written since, and
// gives resource versions again, unless it is restored with raised revisions
// (etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted), which
// Kubernetes needs for its own watches as well. Let a lease pass before
// candidates start.
package k8sstore
