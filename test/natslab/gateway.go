package natslab

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
)

// A SuperCluster is two clusters that gateways join. The streams of both have
// one JetStream, and each stream is in one cluster.
type SuperCluster struct {
	East, West *Cluster

	gateways []*Relay // one before each server's gateway
}

// StartSuperCluster starts a cluster of each size and joins them, waits until
// all servers have one JetStream, and stops them when the test ends. The
// connections from one cluster to the other pass relays.
func StartSuperCluster(tb testing.TB, east, west int) *SuperCluster {
	tb.Helper()
	takeSlot(tb, east+west)
	s := &SuperCluster{
		East: &Cluster{tb: tb, routes: ports.Free(tb, east)},
		West: &Cluster{tb: tb, routes: ports.Free(tb, west)},
	}
	listen := ports.Free(tb, east+west)
	remotes := []*server.RemoteGatewayOpts{{Name: "east"}, {Name: "west"}}
	for i, port := range listen {
		r := NewRelay(tb, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		s.gateways = append(s.gateways, r)
		to := remotes[0]
		if i >= east {
			to = remotes[1]
		}
		to.URLs = append(to.URLs, &url.URL{Scheme: "nats", Host: r.Addr()})
	}
	for i, port := range listen {
		c, name := s.East, "east"
		if i >= east {
			c, name = s.West, "west"
		}
		c.add([]Option{func(o *server.Options) {
			o.ServerName = fmt.Sprint(name, len(c.Nodes))
			o.Cluster.Name = name
			o.Gateway = server.GatewayOpts{
				Name: name, Host: "127.0.0.1", Port: port, Gateways: remotes,
				Advertise: s.gateways[i].Addr(), // otherwise servers learn of a way round the relay
			}
		}})
	}
	for _, node := range s.nodes().Nodes {
		node.Run()
	}
	s.AwaitReady()
	return s
}

// nodes returns the servers of both clusters.
func (s *SuperCluster) nodes() *Cluster {
	return &Cluster{tb: s.East.tb, Nodes: append(append([]*Server(nil), s.East.Nodes...), s.West.Nodes...)}
}

// AwaitReady waits until each server is connected to the other cluster, and all
// have one JetStream.
func (s *SuperCluster) AwaitReady() {
	s.East.tb.Helper()
	for _, node := range s.nodes().Nodes {
		Eventually(s.East.tb, "gateway of "+node.opts.ServerName, func(context.Context) error {
			if n := node.srv.NumOutboundGateways(); n != 1 {
				return fmt.Errorf("connected to %d other clusters", n)
			}
			return nil
		})
	}
	s.nodes().AwaitReady()
}

// CutGateways ends all connections between the clusters, and refuses new ones
// until [SuperCluster.ResumeGateways].
func (s *SuperCluster) CutGateways() {
	for _, r := range s.gateways {
		r.Cut()
	}
}

// ResumeGateways ends CutGateways, and waits until the clusters are one
// JetStream again.
func (s *SuperCluster) ResumeGateways() {
	s.East.tb.Helper()
	for _, r := range s.gateways {
		r.Resume()
	}
	s.AwaitReady()
}
