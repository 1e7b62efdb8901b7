package natslab

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// AcceptLeaves lets leaf nodes connect to the server.
func AcceptLeaves() Option {
	return func(o *server.Options) {
		// They do not learn the server's own address, by which they would go
		// round a proxy.
		o.LeafNode = server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true}
	}
}

// LeafAddr returns host:port at which the running server accepts leaf nodes
// (see [AcceptLeaves]). A [Relay] can be before it.
func (s *Server) LeafAddr() string {
	s.tb.Helper()
	port := 0
	Eventually(s.tb, "the server accepts leaf nodes", func(context.Context) error {
		info, err := s.srv.Varz(nil)
		if err == nil && info.LeafNode.Port <= 0 {
			err = errors.New("not yet")
		}
		if err == nil {
			port = info.LeafNode.Port
		}
		return err
	})
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// StartLeaf starts a server that is a leaf node of the one at host:port, waits
// for their connection, and stops it when the test ends. Give it a JetStream
// [Domain] other than the hub's.
func StartLeaf(tb testing.TB, hub string, opts ...Option) *Server {
	tb.Helper()
	leaf := Start(tb, append([]Option{func(o *server.Options) {
		o.ServerName = "leaf"
		o.LeafNode.ReconnectInterval = 50 * time.Millisecond
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: hub}}}}
	}}, opts...)...)
	leaf.AwaitHub()
	return leaf
}

// AwaitHub waits until a leaf node is connected to its hub.
func (s *Server) AwaitHub() {
	s.tb.Helper()
	Eventually(s.tb, "leaf node connected", func(context.Context) error {
		if s.srv.NumLeafNodes() == 0 {
			return errors.New("not connected")
		}
		return nil
	})
}
