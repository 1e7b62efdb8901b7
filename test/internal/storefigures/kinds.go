package storefigures

import (
	"fmt"
	"slices"
	"strings"
)

// A Kind is what a user has to know of a store before choosing it: a column of
// docs/reference/stores.md.
type Kind struct {
	Name    string // with what a reader has to know before the rest
	Package string // its directory
	Client  string
	URL     string
	Needs   string
	Renewal string // what a renewal is
	Heard   string // how changes are heard of

	Refused  []Claim // by Check
	CoolDown []Claim // warned of, with a cool-down
	Warned   []Claim // warned of, and nothing else

	Anew     string // the effect of recreating a store
	Leaders  string // two at one instant, that were seen
	Survives string
	Choose   string // where
}

// A Claim is a clause about a message of Check.
type Claim struct {
	Text string
	// Code has parts of the message in the store's code, each within one string
	// or one line of it. It is empty if the store's client gives the message.
	Code []string
}

//go:generate go test -count=1 -run ^TestThePageShowsTheKindsAsTheyAre$ -update .

// Kinds are all kinds, in groups that fit side by side on a page.
func Kinds() [][]Kind {
	return [][]Kind{
		{natsKind(), redisKind(), postgresKind(), mysqlKind(), etcdKind()},
		{consulKind(), mongoKind(), kubernetesKind()},
		{s3Kind(), gcsKind()},
	}
}

// KindsMarkdown is a table for each group of kinds. A row in which none of a
// group has anything is left out.
func KindsMarkdown(groups [][]Kind) string {
	var b strings.Builder
	for i, kinds := range groups {
		if i > 0 {
			b.WriteString("\n")
		}
		head := []string{""}
		for k := range kinds {
			head = append(head, kinds[k].Name)
		}
		writeRow(&b, head)
		fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(head)))
		for _, property := range properties() {
			row := []string{property.name}
			for k := range kinds {
				row = append(row, property.of(&kinds[k]))
			}
			if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != nothing }) {
				writeRow(&b, row)
			}
		}
	}
	return b.String()
}

func writeRow(b *strings.Builder, cells []string) {
	b.WriteString("|")
	for _, cell := range cells {
		b.WriteString(strings.TrimSuffix(" "+cell, " ") + " |")
	}
	b.WriteString("\n")
}

// A property is a row.
type property struct {
	name string
	of   func(*Kind) string
}

// nothing is the content of an empty cell.
const nothing = "–"

func properties() []property {
	return []property{
		{"package", func(k *Kind) string { return fmt.Sprintf("[`%[1]s`](../../%[1]s)", k.Package) }},
		{"client", func(k *Kind) string { return k.Client }},
		{"URL", func(k *Kind) string { return "`" + k.URL + "`" }},
		{"you need", func(k *Kind) string { return k.Needs }},
		{"a renewal", func(k *Kind) string { return k.Renewal }},
		{"changes are heard by", func(k *Kind) string { return k.Heard }},
		{"refused", func(k *Kind) string { return join(k.Refused) }},
		{"warned of, with a cool-down", func(k *Kind) string { return join(k.CoolDown) }},
		{"warned of", func(k *Kind) string { return join(k.Warned) }},
		{"when it is recreated under the same name", func(k *Kind) string { return k.Anew }},
		{"two leaders at one instant", func(k *Kind) string { return k.Leaders }},
		{"survives", func(k *Kind) string { return k.Survives }},
		{"choose it where", func(k *Kind) string { return k.Choose }},
	}
}

func join(claims []Claim) string {
	texts := make([]string, len(claims))
	for i := range claims {
		texts[i] = claims[i].Text
	}
	if len(texts) == 0 {
		return nothing
	}
	return strings.Join(texts, "; ")
}

// The effects of recreating a store.
const (
	isReported = "the store reports it: no leader for a lease"
	unreported = "the store does not report it"
)

func natsKind() Kind {
	return Kind{
		Name:    "NATS",
		Package: "store/natsstore",
		Client:  "nats.go",
		URL:     "nats://HOST/BUCKET",
		Needs:   "JetStream; a bucket (made on request)",
		Renewal: "one publish",
		Heard:   "messages",
		Refused: []Claim{
			{"a bucket that expires records within a lease, that refuses to replace one, or that the user may not use", []string{
				"it expires records after %v, before a lease of %v ends", "it refuses to replace a record (discard_new_per_subject)", "the user may not publish to",
			}},
			{"one that is not itself what was written (a mirror, sources, transforms, a counter)", []string{
				"it mirrors another stream", "it has sources", "it transforms subjects", "it counts instead of storing",
			}},
			{"one that takes no records or does not keep them (sealed, without acknowledgements, too small, another retention than limits)", []string{
				"it is sealed and takes no writes", "it acknowledges no writes", "it takes messages of at most", "it holds at most %d bytes", "removes records that were read",
			}},
		},
		CoolDown: []Claim{
			{"memory storage", []string{"is kept in memory"}},
			{"asynchronous persistence (`persist_mode`)", []string{"acknowledges writes before they are in a file"}},
			{"records that expire, or are dropped for room", []string{"expires records %v after their last write", "drops its oldest records when it is full"}},
			{"a configuration that may not be read", []string{"The configuration of bucket %q could not be read"}},
		},
		Warned: []Claim{
			{"mirrors that answer its reads, whose answers do not count", []string{"mirrors bucket %q and answers reads of it"}},
			{"one replica, or two, in a cluster", []string{"has one replica in a cluster", "has two replicas in a cluster"}},
			{"rollups", []string{"allows rollups"}},
			{"deletion of messages", []string{"allows the deletion of single messages"}},
			{"no direct gets", []string{"refuses direct gets"}},
			{"a size limit", []string{"has a size limit"}},
			{"another number of replicas than was asked for", []string{"has %d replicas and not %d, as was asked for"}},
			{"records that expire without a marker", []string{"leaves no markers when a record expires"}},
			{"a connection that gives up by itself", []string{"The NATS connection gives up"}},
		},
		Anew:     isReported,
		Leaders:  "0 in the [fire lab](../evidence/chaos.md#results)",
		Survives: "loss of a minority of the servers",
		Choose:   "you have NATS, or have nothing yet: handovers are quickest, candidates can be asked, history is kept",
	}
}

func redisKind() Kind {
	return Kind{
		Name:    "Redis",
		Package: "store/redisstore",
		Client:  "go-redis v9",
		URL:     "redis://HOST",
		Needs:   "nothing",
		Renewal: "one script",
		Heard:   "pub/sub, and a look now and then",
		Refused: []Claim{
			{"a replica", []string{"the Redis server is a %s, which takes no writes and may lag"}},
			{"replicas, of which one may be promoted beside its master: without `Wait`, `min-replicas-to-write` or `Fenced`", []string{"of which one may be promoted while the server goes on"}},
			{"a user without the rights", []string{"the user may not run %s on the key"}},
		},
		CoolDown: []Claim{
			{"no append-only file or not `appendfsync always`", []string{"keeps no append-only file", "has the setting %s %s", `{"appendfsync", "always"`}},
			{"replicas without `Wait`", []string{
				"has %d replicas, and a failover to one of them loses writes", "has %d replicas, and writes wait for %d of them", "is found by Sentinel", "has taken another's place",
			}},
			{"settings that may not be read", []string{"does not let the user run INFO", "does not let the user run CONFIG GET", "does not report its setting"}},
			{"eviction of any key (`allkeys-*`)", []string{"evicts any key when its %s bytes are full"}},
		},
		Warned: []Claim{
			{"a limit of memory at which writes are refused", []string{"refuses writes when its %s bytes are full"}},
			{"fewer replicas than `Wait`", []string{"has %d connected replicas, and writes wait for"}},
			{"no right to publish or subscribe, then changes are found by looking", []string{"The user may not publish on the channel", "The user may not subscribe to the channel"}},
		},
		Anew:     unreported,
		Leaders:  "0 in 130 faults",
		Survives: "with `Wait`, a failover to a replica that is up to date",
		Choose:   "Redis is what you run, and a lease without a leader at a failover is acceptable",
	}
}

func postgresKind() Kind {
	return Kind{
		Name:    "PostgreSQL",
		Package: "store/pgstore",
		Client:  "pgx v5, or its driver for `database/sql`",
		URL:     "postgres://HOST/DATABASE",
		Needs:   "a table (made on request, or by `pgstore.Schema`)",
		Renewal: "one call of a function",
		Heard:   "`LISTEN`, and a look now and then",
		Refused: []Claim{
			{"a standby", []string{"the server is a standby (pg_is_in_recovery)", "the server takes no writes (default_transaction_read_only)"}},
			{"an unlogged table", []string{"a crash empties it, and standbys lack it", "a crash resets its sequence"}},
			{"missing triggers", []string{"of its triggers leader_draw, leader_tell and leader_tell_all are there and enabled"}},
			{"a table that is missing, or not as `pgstore.Schema` makes it", []string{
				"is missing: run the statement that pgstore.Schema returns", "it is not an ordinary table", "its sequence %s is missing",
				"its sequence gives each session %d numbers in advance", "its sequence does not only grow",
			}},
			{"a user without the rights", []string{": grant the user SELECT ON"}},
		},
		CoolDown: []Claim{
			{"no `fsync` or `full_page_writes`", []string{"runs without fsync", "runs without full_page_writes"}},
			{"a standby without `synchronous_standby_names`", []string{"synchronous_standby_names is empty"}},
		},
		Warned: []Claim{
			{"a pooler in transaction mode, behind which changes are found by looking", []string{"Changes are not notified", "is there a pooler in transaction mode between?"}},
			{"a table that an earlier version made", []string{"An earlier version made the table", "An earlier version made the trigger functions"}},
			{"rights by which another role acts as the table's owner or spoils revisions, with the statement that revokes them", []string{"Other roles hold rights that no candidate needs"}},
		},
		Anew:     isReported,
		Leaders:  "0 in 85 faults",
		Survives: "with synchronous standbys, a failover",
		Choose:   "the work is in that database: the term fences it in the same transaction ([`fence/sqlfence`](../../fence/sqlfence))",
	}
}

func mysqlKind() Kind {
	return Kind{
		Name:    "MariaDB, MySQL",
		Package: "store/mysqlstore",
		Client:  "go-sql-driver/mysql",
		URL:     "mysql://HOST/DATABASE",
		Needs:   "two tables (made on request, or by `mysqlstore.Schema`)",
		Renewal: "one UPDATE",
		Heard:   "looks, at least twice in a heartbeat",
		Refused: []Claim{
			{"a table that is not of InnoDB", []string{"its engine is %q, which has no transactions", "_floor is not an InnoDB table"}},
			{"a session that does not commit by itself", []string{"the session does not commit by itself"}},
			{"one that reads what is not committed", []string{"the session reads what is not committed"}},
			{"Galera", []string{"the server is one of a Galera cluster"}},
			{"tables that are missing or not complete", []string{"is missing, or the user has no right to it", "its triggers and functions are incomplete"}},
			{"other triggers than `mysqlstore.Schema` makes, where the user may see them", []string{"it has %d triggers, and not the 3 of mysqlstore.Schema"}},
			{"a user without the rights", []string{": grant the user SELECT on"}},
		},
		CoolDown: []Claim{
			{"no binlog (MariaDB's default: a crash then takes back what reads have shown)", []string{"The server keeps no binlog"}},
			{"`innodb_flush_log_at_trx_commit` or `sync_binlog` other than 1", []string{"The server runs with innodb_flush_log_at_trx_commit=", "The server runs with sync_binlog="}},
			{"no doublewrite", []string{"The server runs without innodb_doublewrite"}},
			{"a replica, connected or promoted, without semi-synchronous replication", []string{"and replication is asynchronous", "The server was a replica"}},
			{"that by its defaults (it goes on alone after ten seconds, and shows what no replica has)", []string{
				"The server runs with rpl_semi_sync_master_timeout=", "The server runs with rpl_semi_sync_master_wait_point=",
				"The server runs with rpl_semi_sync_master_wait_no_slave=OFF", "The server waits for no replica now",
			}},
		},
		Anew:     isReported,
		Leaders:  "0 in 85 faults",
		Survives: "a crash; with a semi-synchronous replica that is waited for, a failover",
		Choose:   "as PostgreSQL, where half a heartbeat more at a handover is acceptable",
	}
}

func etcdKind() Kind {
	return Kind{
		Name:    "etcd",
		Package: "etcd/etcdstore",
		Client:  "client v3",
		URL:     "etcd://HOST,HOST/PREFIX/",
		Needs:   "nothing",
		Renewal: "one transaction",
		Heard:   "watches, and a look now and then",
		Refused: []Claim{
			{"NOSPACE, CORRUPT", []string{"%s has the alarm NOSPACE", "%s has the alarm CORRUPT"}},
			{"endpoints of different clusters", []string{"are of different clusters"}},
			{"a user without the rights", []string{": grant a role of the user readwrite on the keys"}},
		},
		Warned: []Claim{
			{"members that do not answer, learners, an even number of members, a lease below 3 s on a cluster", []string{
				"The endpoint %s did not answer", "The endpoint %s is a learner", "The cluster has %d voting members",
				"may end while etcd changes its own leader", "const failover = 3 * time.Second",
			}},
			{"a member that is cut off from its leader", []string{"is cut off from its cluster's leader"}},
			{"a database that is almost full", []string{"The database of %s has %d of %d bytes"}},
		},
		Anew:     unreported,
		Leaders:  "0 in 65 faults",
		Survives: "loss of a minority of the servers",
		Choose:   "you have etcd",
	}
}

func consulKind() Kind {
	return Kind{
		Name:    "Consul",
		Package: "consul/consulstore",
		Client:  "hashicorp/consul/api",
		URL:     "consul://HOST/PREFIX/",
		Needs:   "nothing",
		Renewal: "one transaction",
		Heard:   "blocking queries, and a look now and then",
		Refused: []Claim{
			{"servers without a leader", []string{"no cluster leader"}},
			{"a token without the rights", []string{": give the token a policy with key", "permission denied: the token may not read it"}},
		},
		CoolDown: []Claim{
			{"development mode", []string{"The agent is in development mode"}},
			{"an agent whose configuration may not be read", []string{"The token may not read the agent's configuration"}},
		},
		Warned: []Claim{
			{"an even number of servers", []string{"Consul has %d servers, and stops when"}},
			{"a lease below three heartbeats of Raft on a cluster (15 s by default, 3 s with `raft_multiplier = 1`)", []string{
				"may end while Consul changes its own leader", "const heartbeat = 5 * time.Second", "failover := 3 * a.heartbeat",
			}},
		},
		Anew:     unreported,
		Leaders:  "0 in 125 faults",
		Survives: "loss of a minority of the servers",
		Choose:   "you have Consul; leases are the library's own, not sessions",
	}
}

func mongoKind() Kind {
	return Kind{
		Name:    "MongoDB: not verified on a server",
		Package: "store/mongostore",
		Client:  "mongo-driver v2",
		URL:     "mongodb://HOST/DATABASE",
		Needs:   "a replica set of version 6 or later",
		Renewal: "one `findAndModify`",
		Heard:   "change streams, and a look now and then",
		Refused: []Claim{
			{"what only speaks the protocol", []string{"the server is not MongoDB (buildInfo has the field %s)"}},
			{"as its manual says, and not seen: a standalone server, a user without the rights", []string{"the server is not a member of a replica set"}},
		},
		Warned: []Claim{
			{"that it was not verified", []string{"The store for MongoDB was not verified on a server"}},
			{"a lease below 12 s", []string{"may end while the replica set changes its primary", "const failover = 12 * time.Second"}},
		},
		Anew:     unreported,
		Leaders:  "not verified",
		Survives: "unknown",
		Choose:   "you have verified it on yours: `LEADER_MONGODB_URI=… go test ./mongostore` in `test/labs/stores`",
	}
}

func kubernetesKind() Kind {
	return Kind{
		Name:    "Kubernetes",
		Package: "kubernetes/k8sstore",
		Client:  "client-go",
		URL:     "k8s://NAMESPACE/PREFIX",
		Needs:   "a namespace, and a Role for Leases",
		Renewal: "one PUT of a Lease",
		Heard:   "watches, and a look now and then",
		Refused: []Claim{
			{"a user without the rights", []string{"the user may not %s in namespace %q"}},
			{"resource versions that are not numbers", []string{"and only numbers have an order"}},
		},
		Warned: []Claim{
			{"no right to watch, then changes are found by looking", []string{"The user may not watch the Lease %s"}},
			{"coordinated leader election on the same Lease", []string{"The Lease %s has the strategy %q"}},
		},
		Anew:     unreported,
		Leaders:  "0 in 55 faults",
		Survives: "a crash of the API server or of etcd; with several API servers, the loss of one: the candidates on another go on",
		Choose:   "the program runs in Kubernetes and knows no other store, or has to share a Lease with candidates of client-go",
	}
}

func s3Kind() Kind {
	return Kind{
		Name:    "S3",
		Package: "store/s3store",
		Client:  "aws-sdk-go-v2",
		URL:     "s3://BUCKET/PREFIX",
		Needs:   "a bucket (made on request); rights to get, list and put",
		Renewal: "one conditional PUT",
		Heard:   "looks, at least twice in a heartbeat",
		Refused: []Claim{
			{"a provider that ignores the conditions of writes, which is tried", []string{"elections need a system that obeys the conditions of writes"}},
			{"a missing bucket", []string{": make the bucket, or set Options.Create"}},
			{"a user without the rights", []string{": the user needs s3:GetObject and s3:ListBucket, and to write s3:PutObject"}},
		},
		Warned: []Claim{
			{"versions that pile up", []string{"Bucket %s keeps versions, and so each renewal"}},
			{"a scratch object that could not be removed", []string{"An object on which conditions were tried is left"}},
		},
		Anew:     unreported,
		Leaders:  "0 in 40 faults",
		Survives: "what the provider promises of its objects",
		Choose:   "there is nothing but a bucket, and half a heartbeat more at a handover is acceptable",
	}
}

func gcsKind() Kind {
	return Kind{
		Name:    "Google Cloud Storage: seen on an emulator alone",
		Package: "store/gcsstore",
		Client:  "google.golang.org/api/storage/v1",
		URL:     "gs://BUCKET/PREFIX",
		Needs:   "a bucket (made on request, in a project); the role objectUser, and `storage.buckets.get`",
		Renewal: "one conditional upload",
		Heard:   "looks, at least twice in a heartbeat",
		Refused: []Claim{
			{"a missing bucket", []string{": make the bucket, or set Options.Create"}},
			{"as its manual says, and not seen, since the emulator knows no rights: a user without the rights", []string{": the user needs storage.objects.get and storage.objects.list"}},
		},
		Warned: []Claim{
			{"a heartbeat below 2 s, since an object takes about one write a second", []string{"Cloud Storage takes about one write a second to one object", "const floor = 2 * time.Second"}},
			{"a user who may not look at the bucket, who thus cannot notice that it was recreated", []string{"The user may not look at bucket %s"}},
			{"versions", []string{"Bucket %s keeps versions, and so each renewal"}},
			{"soft deletion", []string{"Bucket %s keeps what is replaced for"}},
		},
		Anew:     isReported,
		Leaders:  "0 in 40 faults",
		Survives: "the same",
		Choose:   "the same",
	}
}
