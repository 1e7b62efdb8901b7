package devtest

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// A Cluster is three servers that keep streams together.
type Cluster struct {
	tb    testing.TB
	nodes []*Server
}

// StartCluster starts a cluster, waits until it can make streams of three
// replicas, and stops it when the test ends.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	ports := free(tb, 3)
	for i, port := range ports {
		o := defaults(tb)
		o.ServerName = "node" + strconv.Itoa(i)
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}
		for _, p := range ports {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p))})
		}
		c.nodes = append(c.nodes, &Server{tb: tb, opts: o})
	}
	for _, node := range c.nodes {
		node.Run()
		tb.Cleanup(node.Stop)
	}
	await(tb, "a cluster that can make streams", c.ready)
	return c
}

// ready reports whether the servers have a leader that counts all of them as
// current.
func (c *Cluster) ready() bool {
	current, peers := 0, 0
	for _, node := range c.nodes {
		if node.srv.JetStreamIsCurrent() {
			current++
		}
		if node.srv.JetStreamIsLeader() {
			peers = len(node.srv.JetStreamClusterPeers())
		}
	}
	return current == len(c.nodes) && peers == len(c.nodes)
}

// URL is the URLs of all servers, with commas between them.
func (c *Cluster) URL() string {
	var all []string
	for _, node := range c.nodes {
		all = append(all, node.URL())
	}
	return strings.Join(all, ",")
}

// StreamLeader waits until a stream has a leader, and returns its server.
func (c *Cluster) StreamLeader(stream string) (leader *Server) {
	c.tb.Helper()
	await(c.tb, "a leader of the stream "+stream, func() bool {
		for _, node := range c.nodes {
			if node.srv != nil && node.srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leader = node
			}
		}
		return leader != nil
	})
	return leader
}
