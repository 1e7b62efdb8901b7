package natslab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
)

// A Cluster is a number of servers that keep streams together.
type Cluster struct {
	tb     testing.TB
	routes []int // the ports of the nodes, for each other
	Nodes  []*Server
}

// StartCluster starts a cluster of n servers, waits until it can make streams
// of n replicas, and stops it when the test ends. Where tests run in parallel
// it waits until few other clusters run.
func StartCluster(tb testing.TB, n int, opts ...Option) *Cluster {
	tb.Helper()
	takeSlot(tb, n)
	c := &Cluster{tb: tb, routes: ports.Free(tb, n)}
	for range n {
		c.add(opts)
	}
	for _, node := range c.Nodes {
		node.Run()
	}
	c.AwaitReady()
	return c
}

// Join starts one more server, and returns at once.
func (c *Cluster) Join(opts ...Option) {
	c.tb.Helper()
	c.routes = append(c.routes, ports.Free(c.tb, 1)...)
	c.add(opts).Run()
}

func (c *Cluster) add(opts []Option) *Server {
	o := options(c.tb)
	o.ServerName = fmt.Sprintf("node%d", len(c.Nodes))
	o.Cluster = server.ClusterOpts{Name: "lab", Host: "127.0.0.1", Port: c.routes[len(c.Nodes)]}
	for _, p := range c.routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", p)})
	}
	for _, opt := range opts {
		opt(o)
	}
	node := &Server{tb: c.tb, opts: o}
	c.tb.Cleanup(node.Stop)
	c.Nodes = append(c.Nodes, node)
	return node
}

// AwaitReady waits until the servers that run have found each other and have a
// JetStream leader that counts all of them as current.
func (c *Cluster) AwaitReady() {
	c.tb.Helper()
	Eventually(c.tb, "cluster ready", func(context.Context) error {
		running, leader := 0, (*server.Server)(nil)
		for _, node := range c.Nodes {
			if node.srv == nil {
				continue
			}
			running++
			if node.srv.JetStreamIsLeader() {
				leader = node.srv
			}
		}
		if leader == nil {
			return errors.New("no JetStream leader")
		}
		current := 0
		for _, node := range c.Nodes {
			if node.srv != nil && node.srv.JetStreamIsCurrent() {
				current++
			}
		}
		if current < running || len(leader.JetStreamClusterPeers()) < running {
			return fmt.Errorf("%d of %d servers are current", current, running)
		}
		return nil
	})
}

// URL returns the URLs of all nodes, separated by commas.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		urls[i] = node.URL()
	}
	return strings.Join(urls, ",")
}

// Connect returns a connection to any of the nodes.
func (c *Cluster) Connect(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return Connect(tb, c.URL(), opts...)
}

// StreamLeader waits until the stream has a leader, and returns its node.
func (c *Cluster) StreamLeader(stream string) *Server {
	c.tb.Helper()
	var leader *Server
	Eventually(c.tb, "leader of stream "+stream, func(context.Context) error {
		for _, node := range c.Nodes {
			if node.srv != nil && node.srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leader = node
				return nil
			}
		}
		return errors.New("none")
	})
	return leader
}

// NotStreamLeader returns a running node that does not lead the stream.
func (c *Cluster) NotStreamLeader(stream string) *Server {
	c.tb.Helper()
	leader := c.StreamLeader(stream)
	for _, node := range c.Nodes {
		if node != leader && node.srv != nil {
			return node
		}
	}
	c.tb.Fatal("natslab: one node left")
	return nil
}

// StepDownStreamLeader has the stream's leader hand over, and waits until
// another node leads.
func (c *Cluster) StepDownStreamLeader(nc *nats.Conn, stream string) {
	c.tb.Helper()
	before := c.StreamLeader(stream)
	Eventually(c.tb, "another leader of stream "+stream, func(ctx context.Context) error {
		if c.StreamLeader(stream) != before {
			return nil
		}
		_, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
		return errors.Join(errors.New("not yet"), err)
	})
}
