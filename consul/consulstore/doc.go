// Package consulstore keeps the records of elections in Consul's key-value
// store, over its client github.com/hashicorp/consul/api.
//
//	client, err := api.NewClient(api.DefaultConfig())
//	st, err := consulstore.New(client, consulstore.Options{})
//	e, err := leader.NewElectionWithStore(st, cfg)
//
// Nothing has to be made in Consul first, and no session is used: the lease is
// this library's own, with its terms. The package is tested on Consul 1.22.7,
// on one server and on three, and by an agent that is a client of these.
// Namespaces and partitions of Consul Enterprise were not tried.
//
// # Writes
//
// A compare-and-swap is one transaction with the verb cas, and so one round
// trip; a revision is Consul's own index, the ModifyIndex, which all keys
// share, so that it grows also across a deletion. The record of the key
// "orders" is the unchanged value of leader/orders, and `consul kv get
// leader/orders` shows it. A segment that is empty or a dot is ~ or ~. there,
// since agents would clean it away. A tombstone is a value whose flags are odd:
// Consul's tools show the key. Writes and deletions by other tools are seen; a
// deleted key leaves nothing.
//
// Consul reports a write that changes nothing as done: it gives it no new
// index, and of two equal writes over the same index both succeed. Each write
// of this package has flags that differ from those it replaces, so that only
// one succeeds.
//
// A write leaves once. net/http does not repeat a PUT of which anything was
// written. With a caller's transport that does, a refusal after a repetition is
// store.ErrUnknown, since it may have been caused by the first attempt's write.
// The package knows whether a write left: a write that got no connection is
// store.ErrTransient and never arrives. A write that left and was not
// explicitly refused is store.ErrUnknown and may land later, "leadership lost
// while committing log" too.
//
// # Watching
//
// Each register that is watched, and each pattern, has a blocking query, which
// is asked again every 3 s, and counts as lost when it is not answered within
// 2 s more. Where more than 48 names are watched, one query for all registers
// takes their place. Where the queries fail, the keys are read by the clock: at
// least twice in a heartbeat.
//
// Reads are consistent ones, and none is older than its call.
//
// # What Consul must be
//
// Check refuses servers without a leader, and a token without the right to read
// or write the key. It warns of an agent in development mode, which keeps its
// data in memory and forgets at a restart, and of an agent whose configuration
// the token may not read, so that it might be: elections then wait for a lease
// before each promotion. It warns of an even number of servers, and of a lease
// that is shorter than three heartbeats of Raft on a cluster, which takes no
// writes while its own leader changes. Consul's default is 5 s for one;
// performance.raft_multiplier = 1, which HashiCorp recommends for production,
// makes it 1 s. Where the agent is a client, its configuration does not
// describe the servers: these are assumed to have a data directory.
//
// # Permissions
//
// A candidate writes the keys of its register and of its control record, an
// observer reads them. To read the agent's configuration, Check needs another
// rule. In a policy for all registers, or for one group alone:
//
//	key_prefix "leader/"   { policy = "write" }
//	agent_prefix ""        { policy = "read" }
//
//	key "leader/orders"      { policy = "write" }
//	key "leader/_ctl.orders" { policy = "write" }
//	agent_prefix ""          { policy = "read" }
//
// With acl.enable_key_list_policy observers of patterns need policy = "list".
//
// # What is left to the caller
//
// The agent's limit on connections. It serves an address 200 at a time by
// default (limits.http_max_conns_per_client). A Store opens up to 64 for its
// calls and 48 for its queries, each of which stays open, and a store of [Open]
// never has more than these 112 together; processes that share an address share
// the limit. A call that it cuts off fails with store.ErrTransient, and cut-off
// queries are replaced by polling.
//
// The client's transport. The transport of api.DefaultConfig keeps two or three
// idle connections to an agent, and opens new ones beyond that: set
// MaxIdleConnsPerHost to 48, and MaxConnsPerHost to 112, as [Open] does. By TLS
// it speaks HTTP/2, where a connection that a firewall silently forgets stays
// in use, however many calls time out, until the system gives it up after a
// quarter of an hour: set SendPingTimeout and PingTimeout in its HTTP2, too. A
// store of [Open] notices after 8 s.
//
// A snapshot that is restored. It takes later writes back. Indexes that the
// servers give afterwards are larger than all before where it is restored into
// the servers that gave these, which is tested. Where it is restored into
// others, indexes and so the terms of elections may be given again. Candidates
// that saw a later state notice it and do not promote for a lease, which is
// tested as well. A candidate that starts afterwards cannot notice it: Consul
// does not report when its servers began (store.Report.Age is 0). Let a lease
// pass between the last write of the old servers and the first of the new.
//
// A record that an operator deletes. Nothing is left of it, so that a candidate
// that starts within the old leader's lease would not know of it: use `leader
// vacate`, or stop the candidates.
//
// Datacenters. Each has a separate key-value store. Candidates of one group
// name the same one: by the client's Datacenter, or by dc in a URL.
package consulstore
