package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A shape says on what a round is held.
type shape struct {
	name   string
	nodes  int
	memory bool // the bucket is kept in memory
	// coolDown: new leaders cool down before they lead. The guarantees hold
	// without it as long as the store keeps what it acknowledged, so that
	// faults by which it does not are for shapes with it. In memory it is on by
	// itself.
	coolDown bool
}

// shapes in the order in which rounds take them.
var shapes = []shape{
	{name: "one server, file", nodes: 1},
	{name: "three servers, file", nodes: 3},
	{name: "one server, file, cool-down", nodes: 1, coolDown: true},
	{name: "three servers, memory", nodes: 3, memory: true},
	{name: "three servers, file, cool-down", nodes: 3, coolDown: true},
	{name: "one server, memory", nodes: 1, memory: true},
}

// coolsDown reports whether new leaders wait before they lead.
func (s shape) coolsDown() bool { return s.coolDown || s.memory }

const (
	bucket   = "leaders"
	stream   = "KV_" + bucket
	group    = "fire"
	stored   = "$KV." + bucket + "."
	probeKey = stored + "_probe"
	republic = "leader." + bucket + "."

	user, password = "candidate", "fire"
	system         = "system" // the user who may ask the servers how they are, and their password
)

// An arena is the servers of a round.
type arena struct {
	*bench
	shape   shape
	servers *natslab.Processes
	disks   []*disk // by node, if there are any
	noDisk  error   // why there are none
	admin   *nats.Conn
	js      jetstream.JetStream

	mu     sync.Mutex
	stored []history.Stored
}

func newArena(b *bench, s shape) *arena {
	a := &arena{bench: b, shape: s}
	if !s.memory && s.nodes == 1 {
		b.furnish = a.mountDisk
	}
	a.servers = natslab.StartPartitionable(b, s.nodes, credentials(true))
	b.furnish = nil
	a.admin = a.servers.Connect(b, nats.ReconnectBufSize(-1), nats.Timeout(2*time.Second))
	a.js = natslab.JetStream(b, a.admin)
	_, err := a.admin.Subscribe(republic+group, a.witness)
	b.check(err)
	natslab.Eventually(b, "bucket", a.makeBucket)
	return a
}

// credentials is the servers' configuration of users. Who says nothing is the
// lab.
func credentials(valid bool) string {
	users := `{user: lab, password: lab}`
	if valid {
		users += fmt.Sprintf(`, {user: %s, password: %s}`, user, password)
	}
	return "authorization { users: [" + users + "] }\nno_auth_user: lab\n" +
		fmt.Sprintf("accounts { $SYS { users: [{user: %s, password: %s}] } }", system, system)
}

// mountDisk puts a disk where the server in dir will keep its files.
func (a *arena) mountDisk(dir string) {
	d, err := newDisk(filepath.Join(dir, "backing"), filepath.Join(dir, "js"))
	if err != nil {
		a.noDisk = err
		return
	}
	a.Cleanup(d.close)
	a.disks = append(a.disks, d)
}

func (a *arena) makeBucket(ctx context.Context) error {
	storage := jetstream.FileStorage
	if a.shape.memory {
		storage = jetstream.MemoryStorage
	}
	err := natsstore.EnsureBucket(ctx, a.js, natsstore.BucketConfig{Bucket: bucket, Replicas: a.shape.nodes, Storage: storage})
	if err != nil {
		return err
	}
	return a.probe(ctx)
}

// probe writes to the bucket: it takes writes if the error is nil.
func (a *arena) probe(ctx context.Context) error { return write(ctx, a.js) }

// write writes to the bucket, and to nothing that a candidate reads.
func write(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := js.Publish(ctx, probeKey, nil, jetstream.WithRetryAttempts(0))
	return err
}

// witness notes what the store stored.
func (a *arena) witness(m *nats.Msg) {
	revision, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	var r struct {
		ID    string `json:"id"`
		Token string `json:"token"`
		Term  uint64 `json:"term"`
	}
	if err != nil || json.Unmarshal(m.Data, &r) != nil {
		return // garbage of the lab's own
	}
	token := leader.Term{Token: r.Token}.Correlation()
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.stored); r.ID != "" && r.Term != 0 && n > 0 && a.stored[n-1].Term == r.Term && a.stored[n-1].Token == token {
		return // a renewal like the one before
	}
	a.stored = append(a.stored, history.Stored{Revision: revision, ID: r.ID, Token: token, Term: r.Term})
}

// seen returns what the store stored, as far as the lab saw it.
func (a *arena) seen() []history.Stored {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored
}

// streamLeader returns the node that leads the bucket's stream, as the servers
// tell.
func (a *arena) streamLeader(ctx context.Context) (*natslab.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := a.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	if c := s.CachedInfo().Cluster; c != nil {
		for _, p := range a.servers.Nodes {
			if p.Name == c.Leader {
				return p, nil
			}
		}
	}
	return nil, errors.New("the stream has no leader")
}

// heal makes the servers as they were.
func (a *arena) heal() {
	for _, p := range a.servers.Nodes {
		p.Run()
	}
}

// proxies are new ones, one to each server.
func (a *arena) proxies() (ps []*natslab.Proxy) {
	for _, node := range a.servers.Nodes {
		ps = append(ps, natslab.NewProxy(a, node.Addr()))
	}
	return ps
}

func urls(ps []*natslab.Proxy) (all []string) {
	for _, p := range ps {
		all = append(all, p.URL())
	}
	return all
}

// foreign publishes to the record as other tools do, which know nothing of what
// stands there.
func (a *arena) foreign(m *nats.Msg) {
	_ = a.admin.PublishMsg(m) // the servers may be down
}

// foreignDelete is what `nats kv del` sends.
func foreignDelete() *nats.Msg {
	return &nats.Msg{Subject: stored + group, Header: nats.Header{"KV-Operation": {"DEL"}}}
}

func foreignPut(value string) *nats.Msg {
	return &nats.Msg{Subject: stored + group, Data: []byte(value)}
}

// garbage is what other tools may write over the record: nothing of it is a
// record or a vacancy.
var garbage = []string{"", "{}", "hello", `{"id":7}`, `[1,2,3]`, "\x00\xff\xfe", `{"id":""}`, strings.Repeat("x", 4096)}
