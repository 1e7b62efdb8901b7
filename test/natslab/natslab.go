// Package natslab starts NATS servers for the project's tests: real ones, in
// the test's own process, on random ports of the loopback interface, with their
// files in the test's temporary directory.
//
// Every wait of this package is bounded by [Patience] and ends the test when it
// runs out.
package natslab

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
)

// Patience bounds every wait. It is generous, since a passing test never waits
// that long.
const Patience = 3 * time.Minute

// An Option changes the configuration of a server before it starts.
type Option func(*server.Options)

// Domain puts the server's JetStream into a domain.
func Domain(name string) Option {
	return func(o *server.Options) { o.JetStreamDomain = name }
}

// WithoutJetStream starts a server that keeps no streams.
func WithoutJetStream() Option { return func(o *server.Options) { o.JetStream = false } }

// Users gives the server users; without any, everyone may do everything.
func Users(users ...*server.User) Option {
	return func(o *server.Options) { o.Users = users }
}

// User returns a user who may publish and subscribe only to the subjects given.
func User(name string, publish, subscribe []string) *server.User {
	return &server.User{Username: name, Password: name, Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
	}}
}

// Admin is a user named admin who may do everything.
func Admin() *server.User { return &server.User{Username: "admin", Password: "admin"} }

// InProcess keeps the server from listening; only [InProcess] connections of
// [Server.Connect] reach it.
func InProcess() Option {
	return func(o *server.Options) { o.DontListen = true }
}

// A Server is one nats-server with JetStream.
type Server struct {
	tb   testing.TB
	opts *server.Options
	srv  *server.Server
}

// Start starts a single server, and stops it when the test ends.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	o := options(tb)
	for _, opt := range opts {
		opt(o)
	}
	s := &Server{tb: tb, opts: o}
	s.Run()
	tb.Cleanup(s.Stop)
	return s
}

func options(tb testing.TB) *server.Options {
	tb.Helper()
	dir := tb.TempDir()
	keepStreams(tb, dir)
	return &server.Options{
		Host:      "127.0.0.1",
		Port:      ports.Free(tb, 1)[0], // one that is still free when the server comes back
		JetStream: true,
		StoreDir:  dir,
		NoLog:     true,
		NoSigs:    true,
		// Its default, 2 s, is over where the machine stalls while somebody
		// connects, who then writes to a connection that is closed.
		AuthTimeout: Patience.Seconds(),
	}
}

// keepStreams puts something beside the streams of the account that tests use.
// A server removes an empty directory of streams a moment after the last of
// them has gone, and a stream that is made just then fails with "error creating
// store for stream" (nats-server 2.15.2, stream.go).
func keepStreams(tb testing.TB, dir string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams", "kept"), 0o700); err != nil {
		tb.Fatal(err)
	}
}

// Run starts the server if it does not run, on the port that it had before.
func (s *Server) Run() {
	s.tb.Helper()
	if s.srv != nil {
		return
	}
	// The server writes into its options.
	srv, err := server.NewServer(s.opts.Clone())
	if err != nil {
		s.tb.Fatalf("natslab: %v", err)
	}
	srv.Start()
	s.srv = srv
	if !srv.ReadyForConnections(Patience) {
		s.tb.Fatal("natslab: the server is not ready for connections")
	}
	if addr, ok := srv.Addr().(*net.TCPAddr); ok {
		s.opts.Port = addr.Port
	}
}

// Stop shuts the server down as a signal would, and waits for the end. Its
// files stay.
func (s *Server) Stop() {
	if s.srv == nil {
		return
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
}

// Wipe removes the streams of a server that is stopped.
func (s *Server) Wipe() {
	s.tb.Helper()
	if err := os.RemoveAll(s.opts.StoreDir); err != nil {
		s.tb.Fatal(err)
	}
	keepStreams(s.tb, s.opts.StoreDir)
}

// Restart stops the server and starts it again on the same port and files.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.Run()
}

// Inner returns the running server itself, or nil.
func (s *Server) Inner() *server.Server { return s.srv }

// Addr returns host:port of the server, also while it is stopped.
func (s *Server) Addr() string {
	return net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port))
}

// URL returns the server's URL.
func (s *Server) URL() string { return (&url.URL{Scheme: "nats", Host: s.Addr()}).String() }

// DropClients closes the connections of all clients.
func (s *Server) DropClients() {
	s.tb.Helper()
	conns, err := s.srv.Connz(&server.ConnzOptions{Limit: 1 << 16})
	if err != nil {
		s.tb.Fatalf("natslab: %v", err)
	}
	for _, c := range conns.Conns {
		_ = s.srv.DisconnectClientByID(c.Cid) // it may have left by itself
	}
}

// Consumers returns how many consumers a stream of the default account has.
func (s *Server) Consumers(stream string) int {
	s.tb.Helper()
	acc, err := s.srv.LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	if err != nil {
		s.tb.Fatalf("natslab: %v", err)
	}
	info, err := s.srv.JszAccount(&server.JSzOptions{Account: acc.Name, Streams: true, Consumer: true})
	if err != nil {
		s.tb.Fatalf("natslab: %v", err)
	}
	for _, st := range info.Streams {
		if st.Name == stream {
			return len(st.Consumer)
		}
	}
	return 0
}

// Connect returns a connection that reconnects quickly and for ever, and is
// closed when the test ends.
func (s *Server) Connect(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	if s.opts.DontListen {
		opts = append(opts, nats.InProcessServer(s.srv))
	}
	return Connect(tb, s.URL(), opts...)
}

// Connect returns a connection to the URLs, as [Server.Connect] does.
func Connect(tb testing.TB, urls string, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	base := []nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(20 * time.Millisecond),
		nats.ReconnectJitter(0, 0),
		nats.Timeout(Patience),
		// The default prints to stderr what tests provoke on purpose.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	nc, err := nats.Connect(urls, append(base, opts...)...)
	if err != nil {
		tb.Fatalf("natslab: %v", err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

// KV makes a bucket as other people's tools do, and returns it.
func KV(tb testing.TB, nc *nats.Conn, cfg jetstream.KeyValueConfig) jetstream.KeyValue {
	tb.Helper()
	js := JetStream(tb, nc)
	var kv jetstream.KeyValue
	Eventually(tb, "bucket "+cfg.Bucket+" made", func(ctx context.Context) (err error) {
		kv, err = js.CreateKeyValue(ctx, cfg)
		return err
	})
	return kv
}

// JetStream returns the connection's JetStream.
func JetStream(tb testing.TB, nc *nats.Conn) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatalf("natslab: %v", err)
	}
	return js
}

// Within returns a context that ends with the test, or after Patience.
func Within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	tb.Cleanup(cancel)
	return ctx
}

// Await waits until cond holds. If ctx ends before, it fails the test, naming
// what it waited for and with the report of what is known. It looks whenever
// something moved and also every 20 ms, since nothing reports that a lease has
// run out.
func Await(ctx context.Context, tb testing.TB, what string, moved <-chan struct{}, cond func() bool, report func() string) {
	tb.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !cond() {
		select {
		case <-moved:
		case <-look.C:
		case <-ctx.Done():
			tb.Fatalf("never: %s\n%s", what, report())
		}
	}
}

// Eventually tries f, with pauses, until it returns nil, and fails the test
// naming what it waited for if that never happens. A try that takes long is
// followed by a longer pause: it may hold up what it waits for. Each has 2 s,
// and twice as long as the one before if that was not enough.
func Eventually(tb testing.TB, what string, f func(context.Context) error) {
	tb.Helper()
	//nolint:usetesting // it serves in cleanups, too, where the test's context has ended
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for span := 2 * time.Second; ; {
		begun := time.Now()
		attempt, done := context.WithTimeout(ctx, span)
		err := f(attempt)
		if attempt.Err() != nil {
			span *= 2
		}
		done()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("natslab: never: %s: %v", what, err)
		case <-time.After(max(10*time.Millisecond, min(4*time.Since(begun), time.Second))):
		}
	}
}
