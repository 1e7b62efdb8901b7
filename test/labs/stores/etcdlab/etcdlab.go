// Package etcdlab starts real etcd servers for the project's tests, each in its
// own process, without containers: a single server, or a cluster. They can be
// killed, frozen, started again, and restored from a snapshot.
//
// Package servers finds the program, and skips or fails a test without it.
package etcdlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
	"github.com/seed-ff2cb582/leader/test/labs/stores/internal/tethered"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Cluster is one etcd server, or several that form a cluster.
type Cluster struct {
	Nodes []*Node

	tb    testing.TB
	bin   string // the path of etcd; etcdutl is beside it
	flags []string
	token string
}

// A Node is one etcd server in its own process.
type Node struct {
	Name string
	Addr string // where clients reach it, host:port

	tb      testing.TB
	bin     string
	dir     string
	data    string
	peer    string
	scheme  string
	args    []string
	process *tethered.Process // nil while it does not run
}

// etcd's clock: it elects its own leader in half the time that is usual.
const (
	heartbeat = 50 * time.Millisecond
	election  = 500 * time.Millisecond
)

// Start starts n servers, with further flags of etcd's. They are killed when
// the test ends.
func Start(tb testing.TB, n int, flags ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, bin: servers.Need(tb, "etcd"), flags: flags, token: "lab"}
	at := addresses(tb, 2*n)
	for i := range n {
		c.Nodes = append(c.Nodes, &Node{
			Name: fmt.Sprintf("node%d", i), Addr: at[i], tb: tb, bin: c.bin, dir: tb.TempDir(), peer: "http://" + at[n+i], scheme: "http",
		})
	}
	for i, node := range c.Nodes {
		node.data = filepath.Join(node.dir, "data")
		for _, flag := range flags {
			if flag == "--auto-tls" {
				node.scheme = "https"
			}
		}
		node.args = append(c.arguments(i), flags...)
		tb.Cleanup(node.Kill)
	}
	c.Run()
	return c
}

// Learner adds a member that does not vote to a cluster of one, and waits until
// it listens. It is not a node of the Cluster.
func (c *Cluster) Learner() *Node {
	c.tb.Helper()
	at := addresses(c.tb, 2)
	n := &Node{Name: "learner", Addr: at[0], tb: c.tb, bin: c.bin, dir: c.tb.TempDir(), peer: "http://" + at[1], scheme: "http"}
	n.data = filepath.Join(n.dir, "data")
	if _, err := c.Nodes[0].admin().MemberAddAsLearner(natslab.Within(c.tb), []string{n.peer}); err != nil {
		c.tb.Fatalf("etcdlab: %v", err)
	}
	all := &Cluster{tb: c.tb, token: c.token, Nodes: append(slices.Clone(c.Nodes), n)}
	n.args = append(all.arguments(len(all.Nodes)-1), "--initial-cluster-state", "existing")
	c.tb.Cleanup(n.Kill)
	n.Run()
	natslab.Eventually(c.tb, "the learner answers", func(ctx context.Context) error {
		_, err := n.admin().Status(ctx, n.URL())
		return err
	})
	return n
}

// addresses are of the loopback interface, and nobody listens there.
func addresses(tb testing.TB, n int) (all []string) {
	tb.Helper()
	for _, port := range ports.Free(tb, n) {
		all = append(all, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	return all
}

func (c *Cluster) arguments(i int) []string {
	n := c.Nodes[i]
	return []string{
		"--name", n.Name, "--data-dir", n.data, "--listen-client-urls", n.URL(), "--advertise-client-urls", n.URL(),
		"--listen-peer-urls", n.peer, "--initial-advertise-peer-urls", n.peer, "--initial-cluster", c.initial(), "--initial-cluster-token", c.token,
		"--heartbeat-interval", strconv.FormatInt(heartbeat.Milliseconds(), 10), "--election-timeout", strconv.FormatInt(election.Milliseconds(), 10),
		"--log-level", "fatal",
	}
}

func (c *Cluster) initial() string {
	var members []string
	for _, n := range c.Nodes {
		members = append(members, n.Name+"="+n.peer)
	}
	return strings.Join(members, ",")
}

// Run starts all nodes that do not run, and waits until they serve.
func (c *Cluster) Run() {
	c.tb.Helper()
	for _, n := range c.Nodes {
		n.Run()
	}
	c.Await()
}

// Await waits until each node that runs serves reads of its cluster.
func (c *Cluster) Await() {
	c.tb.Helper()
	for _, n := range c.Nodes {
		if n.process != nil {
			n.Await()
		}
	}
}

// URLs are the URLs of all nodes.
func (c *Cluster) URLs() (all []string) {
	for _, n := range c.Nodes {
		all = append(all, n.URL())
	}
	return all
}

// Kill kills all nodes.
func (c *Cluster) Kill() {
	for _, n := range c.Nodes {
		n.Kill()
	}
}

// Leader returns the node that leads the cluster.
func (c *Cluster) Leader() *Node {
	c.tb.Helper()
	var leader *Node
	natslab.Eventually(c.tb, "etcd's leader is known", func(ctx context.Context) error {
		for _, n := range c.Nodes {
			if n.process == nil {
				continue
			}
			status, err := n.admin().Status(ctx, n.URL())
			if err != nil {
				return err
			}
			if status.Leader == status.Header.MemberId {
				leader = n
				return nil
			}
		}
		return errors.New("no node leads")
	})
	return leader
}

// Client returns a client of all nodes, closed when the test ends. configure,
// if any, changes its configuration.
func (c *Cluster) Client(tb testing.TB, configure ...func(*clientv3.Config)) *clientv3.Client {
	tb.Helper()
	return Client(tb, c.URLs(), configure...)
}

// Client returns a client, closed when the test ends.
func Client(tb testing.TB, urls []string, configure ...func(*clientv3.Config)) *clientv3.Client {
	tb.Helper()
	config := clientv3.Config{Endpoints: urls, Logger: zap.NewNop()}
	for _, f := range configure {
		f(&config)
	}
	client, err := clientv3.New(config)
	if err != nil {
		tb.Fatalf("etcdlab: %v", err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// URL is where clients reach the node.
func (n *Node) URL() string { return n.scheme + "://" + n.Addr }

// CA is the file with the certificate by which a node that was started with
// --auto-tls is known.
func (n *Node) CA() string { return filepath.Join(n.data, "fixtures", "client", "cert.pem") }

// Run starts the node if it does not run, on the ports and the files that it
// had before. It does not wait until it serves.
func (n *Node) Run() {
	n.tb.Helper()
	if n.process != nil {
		return
	}
	process, err := tethered.Start(n.bin, n.args...)
	n.must(err)
	n.process = process
}

// Flags adds flags of etcd's, for the next time that the node starts. Of a flag
// that is given twice the last counts.
func (n *Node) Flags(flags ...string) { n.args = append(n.args, flags...) }

// Await waits until the node serves.
func (n *Node) Await() {
	n.tb.Helper()
	if n.scheme == "https" {
		natslab.Eventually(n.tb, n.Name+" listens", func(ctx context.Context) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.Addr)
			if err != nil {
				return err
			}
			return conn.Close()
		})
		return
	}
	natslab.Eventually(n.tb, n.Name+" serves", func(ctx context.Context) error {
		select {
		case <-n.process.Exited:
			n.tb.Fatalf("etcdlab: %s has ended:\n%s", n.Name, n.process.Log())
		default:
		}
		_, err := n.admin().MemberList(ctx)
		if err != nil && strings.Contains(err.Error(), "user name is empty") {
			return nil
		}
		return err
	})
}

// admin returns a client of this node alone, closed when the test ends.
func (n *Node) admin() *clientv3.Client { return Client(n.tb, []string{n.URL()}) }

// Kill ends the node without a warning (SIGKILL), and returns when it is gone.
// Its files stay as they are.
func (n *Node) Kill() {
	if n.process == nil {
		return
	}
	n.process.Kill()
	n.process = nil
}

// Freeze stops the node (SIGSTOP): its connections stay open, and nothing
// answers.
func (n *Node) Freeze() { n.must(n.process.Pause()) }

// Thaw ends Freeze.
func (n *Node) Thaw() { n.must(n.process.Resume()) }

func (n *Node) must(err error) {
	n.tb.Helper()
	if err != nil {
		n.tb.Fatalf("etcdlab: %v", err)
	}
}

// Snapshot stores what `etcdctl snapshot save` does, and returns the file.
func (n *Node) Snapshot() string {
	n.tb.Helper()
	body, err := n.admin().Snapshot(natslab.Within(n.tb))
	if err != nil {
		n.tb.Fatalf("etcdlab: %v", err)
	}
	defer body.Close() //nolint:errcheck // it was read
	path := filepath.Join(n.dir, "snapshot.db")
	data, err := io.ReadAll(body)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		n.tb.Fatalf("etcdlab: %v", err)
	}
	return path
}

// Restore kills all nodes and starts them again with what the snapshot holds
// and nothing else, as an operator does with `etcdutl snapshot restore`, to
// which further flags are passed.
func (c *Cluster) Restore(snapshot string, flags ...string) {
	c.tb.Helper()
	c.Kill()
	c.token += "-restored"
	for i, n := range c.Nodes {
		n.data += "-restored"
		args := append([]string{
			"snapshot", "restore", snapshot, "--name", n.Name, "--data-dir", n.data, "--initial-cluster", c.initial(),
			"--initial-cluster-token", c.token, "--initial-advertise-peer-urls", n.peer,
		}, flags...)
		if out, err := exec.Command(filepath.Join(filepath.Dir(c.bin), "etcdutl"), args...).CombinedOutput(); err != nil {
			c.tb.Fatalf("etcdlab: %v\n%s", err, out)
		}
		n.args = append(c.arguments(i), c.flags...)
	}
	c.Run()
}
