package devtest

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience bounds every wait. A wait that succeeds is much shorter.
const patience = 2 * time.Minute

// An Option changes the options of a server before it starts.
type Option func(*server.Options)

// Users gives the server users; without any, everybody may do everything.
func Users(users ...*server.User) Option { return func(o *server.Options) { o.Users = users } }

// Admin is the user admin, who may do everything. The password is the name.
func Admin() *server.User { return &server.User{Username: "admin", Password: "admin"} }

// User is a user who may publish to and subscribe to these subjects alone. The
// password is the name, and the prefix of the inbox is _INBOX_ and the name.
func User(name string, publish, subscribe []string) *server.User {
	return &server.User{Username: name, Password: name, Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: append(subscribe, "_INBOX_"+name+".>")},
	}}
}

// WithoutJetStream starts a server that keeps no streams.
func WithoutJetStream(o *server.Options) { o.JetStream = false }

// Domain puts the JetStream of a server into a domain.
func Domain(name string) Option { return func(o *server.Options) { o.JetStreamDomain = name } }

// AcceptLeaves lets leaf nodes connect to a server.
func AcceptLeaves(o *server.Options) {
	o.LeafNode = server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true}
}

// LeafOf makes a server a leaf node of a hub that accepts them.
func LeafOf(hub *Server) Option {
	return func(o *server.Options) {
		port := 0
		await(hub.tb, "a hub that accepts leaf nodes", func() bool {
			info, err := hub.srv.Varz(nil)
			if err == nil {
				port = info.LeafNode.Port
			}
			return port > 0
		})
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		o.ServerName = "leaf" + strconv.Itoa(o.Port) // a hub accepts each name once
		o.LeafNode.ReconnectInterval = 50 * time.Millisecond
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: address}}}}
	}
}

// A Server is a nats-server with JetStream in the test's process.
type Server struct {
	tb   testing.TB
	opts *server.Options
	srv  *server.Server // nil while it is stopped
}

// Start starts a server on the loopback interface, and stops it when the test
// ends.
func Start(tb testing.TB, options ...Option) *Server {
	tb.Helper()
	s := &Server{tb: tb, opts: defaults(tb)}
	for _, change := range options {
		change(s.opts)
	}
	s.Run()
	tb.Cleanup(s.Stop)
	if len(s.opts.LeafNode.Remotes) > 0 {
		await(tb, "the leaf node's connection to its hub", func() bool { return s.srv.NumLeafNodes() > 0 })
	}
	return s
}

func defaults(tb testing.TB) *server.Options {
	tb.Helper()
	dir := tb.TempDir()
	// A server removes an empty directory of streams a moment after the last of
	// them is deleted, and the creation of a stream fails then (nats-server
	// 2.15.2).
	if err := os.MkdirAll(filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams", "kept"), 0o700); err != nil {
		tb.Fatal(err)
	}
	return &server.Options{
		Host: "127.0.0.1", Port: free(tb, 1)[0], JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
		AuthTimeout: patience.Seconds(), // by default 2 s, which a machine that stalls exceeds
	}
}

// Run starts the server, if it does not run, with its files on its port.
func (s *Server) Run() {
	s.tb.Helper()
	if s.srv != nil {
		return
	}
	srv, err := server.NewServer(s.opts.Clone()) // it writes into its options
	if err != nil {
		s.tb.Fatal(err)
	}
	srv.Start()
	s.srv = srv
	if !srv.ReadyForConnections(patience) {
		s.tb.Fatal("the server does not accept connections")
	}
}

// Stop stops the server as a signal does, if it runs. Its files stay.
func (s *Server) Stop() {
	if s.srv == nil {
		return
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
}

// Restart stops the server and starts it again.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.Run()
}

// Limit sets the limits of JetStream for those who log in as nobody.
func (s *Server) Limit(limits server.JetStreamAccountLimits) {
	s.tb.Helper()
	account, err := s.srv.LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	if err == nil {
		err = account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits})
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Addr is HOST:PORT, also while the server is stopped.
func (s *Server) Addr() string { return net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port)) }

// URL is where clients connect.
func (s *Server) URL() string { return "nats://" + s.Addr() }

// await waits until a condition holds.
func await(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); !holds(); <-look.C {
		if time.Now().After(end) {
			tb.Fatalf("never: %s", what)
		}
	}
}
