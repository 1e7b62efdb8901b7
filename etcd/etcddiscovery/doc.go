// Package etcddiscovery keeps the leader's entry in etcd: a key under a lease,
// in the form in which etcd's own naming package writes endpoints. So gRPC
// clients find the leader by etcd's resolver
// (go.etcd.io/etcd/client/v3/naming), and others by a read or a watch of one
// key.
//
//	a, err := etcddiscovery.New(client, etcddiscovery.Options{})
//	...
//	go discovery.Keep(ctx, election, a, discovery.Options{})
//
// The entry of the group "reports" is the key leader-discovery/reports/leader:
//
//	{"Op":0,"Addr":"10.0.0.7:8080","Metadata":{"group":"reports","instance":"a","term":42,...}}
//
// A gRPC client dials etcd:///leader-discovery/reports; for it,
// ElectionConfig.Address is host:port. A slash in a group's name is written as
// an exclamation mark: "eu/orders" has the key
// leader-discovery/eu!orders/leader. The resolver takes all keys below its
// target for one service, and would otherwise return the leader of "eu/orders"
// for "eu".
//
// # What etcd adds to the guarantees
//
// Every write is a transaction on the key's ModRevision, so that what a stale
// leader sends late is refused if anything was written since, and refused as
// well when its lease in etcd has run out.
//
// If no candidate is left that could remove a dead leader's entry, it goes with
// its lease in etcd: half a trust window after its last refresh, rounded up to
// whole seconds, and no less than etcd's own minimum, which is one and a half
// of its election timeouts (2 s by default). That is within the leader's lease
// if that is of 5 s or more, and may be up to 2 s beyond a shorter one. A
// change of etcd's leader prolongs its leases by up to their whole length.
//
// # Permissions
//
// Where etcd's authentication is on, the user needs readwrite on the key of its
// group, or on the prefix, and no more.
package etcddiscovery
