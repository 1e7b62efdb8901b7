// Package consuldiscovery keeps the leader's entry in Consul: a service with
// the tag leader and a health check, so that Consul's DNS and its health
// queries lead to the leader.
//
//	a, err := consuldiscovery.New(client, consuldiscovery.Options{Service: "reports"})
//	...
//	go discovery.Keep(ctx, election, a, discovery.Options{})
//
//	dig leader.reports.service.consul SRV
//	curl 'http://127.0.0.1:8500/v1/health/service/reports?passing&tag=leader'
//
// ElectionConfig.Address is host:port. The same service may have instances that
// agents registered, with other tags: those are left alone.
//
// # Why the catalog and not the agent
//
// A service is usually registered with the agent of its machine. An agent has
// no compare-and-swap, and it restores its own state: a leader that was frozen
// adds its registration again beside its successor's, on another agent, and
// neither of them knows. So this package writes into the catalog, by
// transactions (/v1/txn) on the index of one key, which hold the key, the
// leader's service, and the removal of the predecessor's. There is one leader's
// service at any time, and a late write of a stale leader is refused as a
// whole.
//
// No agent checks a service in the catalog. The check here is bound to a
// session (type "session"): passing while the leader renews the session,
// critical when it runs out. It belongs to a node of the catalog that
// represents the candidate, named leader-GROUP-HASH, and is removed with it. No
// other node is removed. An instance on another node that names the group in
// its metadata (leader-group) would count as a leader's: it is removed, and its
// node stays.
//
// # What Consul adds to the guarantees
//
// If no candidate is left that could remove a dead leader's entry, its check
// becomes critical, and DNS leaves it out, when the session has run out. Consul
// takes up to twice the session's time for that, and allows none shorter than
// 10 s, unless its servers' session_ttl_min is less ([Options].MinSessionTTL).
//
// The key remains when an entry is withdrawn, and remembers its term, so that
// an earlier term's late write is refused then, too. To forget a group, delete
// it:
//
//	consul kv delete leader-discovery/reports
//
// # Permissions
//
//	key_prefix "leader-discovery/" { policy = "write" }
//	node_prefix "leader-"          { policy = "write" }
//	session_prefix "leader-"       { policy = "write" }
//	service "reports"              { policy = "write" }
//
// Consul hides the services of a node that the token may not read. To have such
// an instance on a node of another program removed, add:
//
//	node_prefix ""                 { policy = "read" }
package consuldiscovery
