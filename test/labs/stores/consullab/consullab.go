// Package consullab starts real Consul servers for the project's tests, each in
// its own process, without containers: a single server, or a cluster. They can
// be killed, frozen and started again.
//
// Package servers finds the program, and skips or fails a test without it.
package consullab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
	"github.com/seed-ff2cb582/leader/test/labs/stores/internal/tethered"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Cluster is one Consul server, or several that form a cluster.
type Cluster struct {
	Nodes []*Node

	tb   testing.TB
	bin  string   // the path of consul
	join []string // the flags by which an agent finds the servers
}

// A Node is one Consul server in its own process.
type Node struct {
	Name string
	Addr string // of its HTTP interface, host:port

	tb      testing.TB
	bin     string
	args    []string
	process *tethered.Process // nil while it does not run
}

// config is for all servers: Raft's clock is the one that is recommended for
// production, not the five times slower default. Nothing is asked of the web,
// and no other port is served. All clients of a test have one address, of which
// an agent serves 200 connections by default: four stores may have more.
const config = `performance { raft_multiplier = 1 }
disable_update_check = true
ports { dns = -1, grpc = -1, grpc_tls = -1, serf_wan = -1 }
connect { enabled = false }
retry_interval = "200ms"
limits { http_max_conns_per_client = 1000 }
log_level = "ERROR"`

// Root is the token that may do everything where [ACL] is in force.
const Root = "11111111-2222-3333-4444-555555555555"

// ACL is configuration by which nothing is allowed without a token.
const ACL = `acl { enabled = true, default_policy = "deny", tokens { initial_management = "` + Root + `" } }`

// Start starts n servers, with further configuration in HCL. They are killed
// when the test ends.
func Start(tb testing.TB, n int, more ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, bin: servers.Need(tb, "consul")}
	free := ports.Free(tb, 3*n)
	for i := range n {
		c.join = append(c.join, "-retry-join", at(free[3*i+2]))
	}
	for i := range n {
		web, server, serf := free[3*i], free[3*i+1], free[3*i+2]
		node := &Node{Name: fmt.Sprintf("node%d", i), Addr: at(web), tb: tb, bin: c.bin}
		node.args = append([]string{
			"agent", "-server", "-bootstrap-expect", strconv.Itoa(n), "-node", node.Name, "-data-dir", tb.TempDir(), "-bind", "127.0.0.1",
			"-http-port", strconv.Itoa(web), "-server-port", strconv.Itoa(server), "-serf-lan-port", strconv.Itoa(serf), "-hcl", config,
		}, c.join...)
		for _, m := range more {
			node.args = append(node.args, "-hcl", m)
		}
		c.add(node)
	}
	c.Run()
	return c
}

// Agent starts an agent that is not a server, as each machine of a larger
// installation has one: it passes requests on to one of the servers. It is not
// a node of the Cluster.
func (c *Cluster) Agent() *Node {
	c.tb.Helper()
	free := ports.Free(c.tb, 2)
	n := &Node{Name: "agent", Addr: at(free[0]), tb: c.tb, bin: c.bin}
	n.args = append([]string{
		"agent", "-node", n.Name, "-data-dir", c.tb.TempDir(), "-bind", "127.0.0.1",
		"-http-port", strconv.Itoa(free[0]), "-serf-lan-port", strconv.Itoa(free[1]), "-hcl", config,
	}, c.join...)
	c.tb.Cleanup(n.Kill)
	n.Run()
	n.Await()
	return n
}

// StartDev starts a server in development mode, with its data in memory.
func StartDev(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, bin: servers.Need(tb, "consul")}
	free := ports.Free(tb, 3)
	c.add(&Node{Name: "dev", Addr: at(free[0]), tb: tb, bin: c.bin, args: []string{
		"agent", "-dev", "-bind", "127.0.0.1", "-http-port", strconv.Itoa(free[0]), "-server-port", strconv.Itoa(free[1]),
		"-serf-lan-port", strconv.Itoa(free[2]), "-hcl", config,
	}})
	c.Run()
	return c
}

func (c *Cluster) add(n *Node) {
	c.Nodes = append(c.Nodes, n)
	c.tb.Cleanup(n.Kill)
}

func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Run starts all nodes that do not run, and waits until they serve.
func (c *Cluster) Run() {
	c.tb.Helper()
	for _, n := range c.Nodes {
		n.Run()
	}
	for _, n := range c.Nodes {
		n.Await()
	}
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
	natslab.Eventually(c.tb, "Consul's leader is known", func(ctx context.Context) error {
		for _, n := range c.Nodes {
			if n.process == nil {
				continue
			}
			var self map[string]map[string]any
			if _, err := n.Client(c.tb).Raw().Query("/v1/agent/self", &self, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
				return err
			}
			stats, _ := self["Stats"]["consul"].(map[string]any)
			if stats["leader"] == "true" {
				leader = n
				return nil
			}
		}
		return errors.New("no node leads")
	})
	return leader
}

// Client returns a client of the node with the management token, closed when
// the test ends.
func (n *Node) Client(tb testing.TB) *api.Client {
	tb.Helper()
	return Client(tb, n.Addr, Root)
}

// Client returns a client, closed when the test ends.
func Client(tb testing.TB, addr, token string) *api.Client {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	client, err := api.NewClient(&api.Config{Address: addr, Scheme: "http", Token: token, Transport: transport})
	if err != nil {
		tb.Fatalf("consullab: %v", err)
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return client
}

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

// Await waits until the node serves writes of its cluster.
func (n *Node) Await() {
	n.tb.Helper()
	natslab.Eventually(n.tb, n.Name+" serves", func(ctx context.Context) error {
		select {
		case <-n.process.Exited:
			n.tb.Fatalf("consullab: %s has ended:\n%s", n.Name, n.process.Log())
		default:
		}
		_, err := n.Client(n.tb).KV().Put(&api.KVPair{Key: "lab"}, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
}

// Save returns a snapshot of what the node holds, read to its end: the server
// may be killed before somebody restores it.
func (n *Node) Save() []byte {
	n.tb.Helper()
	archive, _, err := n.Client(n.tb).Snapshot().Save(nil)
	if err != nil {
		n.tb.Fatalf("consullab: %v", err)
	}
	defer archive.Close() //nolint:errcheck // it was read
	all, err := io.ReadAll(archive)
	if err != nil {
		n.tb.Fatalf("consullab: %v", err)
	}
	return all
}

// Restore puts a snapshot in the place of what the node holds. Consul gives a
// restore no deadline, and a server that had just been started once did not
// answer one for seventeen minutes. So a server that does not answer in time is
// killed, started again, and asked once more.
func (n *Node) Restore(snapshot []byte) {
	n.tb.Helper()
	restore := func() error {
		ctx, cancel := context.WithTimeout(n.tb.Context(), natslab.Patience)
		defer cancel()
		return n.Client(n.tb).Snapshot().Restore((&api.WriteOptions{}).WithContext(ctx), bytes.NewReader(snapshot))
	}
	err := restore()
	if errors.Is(err, context.DeadlineExceeded) {
		n.tb.Logf("consullab: %s does not answer a restore: %s", n.Name, n.process.Log())
		n.Kill()
		n.Run()
		n.Await()
		err = restore()
	}
	if err != nil {
		n.tb.Fatalf("consullab: restore: %v", err)
	}
}

// Kill ends the node without a warning (SIGKILL), and returns when it is gone.
// Its files stay as they are.
func (n *Node) Kill() {
	if n.process == nil {
		return
	}
	n.process.Kill()
	n.process = nil
}

// Renew puts another node in the place of this one, at its address and without
// its data, and waits until it serves.
func (n *Node) Renew() {
	n.tb.Helper()
	n.Kill()
	n.args[slices.Index(n.args, "-data-dir")+1] = n.tb.TempDir()
	n.Run()
	n.Await()
}

// Freeze stops the node (SIGSTOP): its connections stay open, and nothing
// answers.
func (n *Node) Freeze() { n.must(n.process.Pause()) }

// Thaw ends Freeze.
func (n *Node) Thaw() { n.must(n.process.Resume()) }

func (n *Node) must(err error) {
	n.tb.Helper()
	if err != nil {
		n.tb.Fatalf("consullab: %v", err)
	}
}
