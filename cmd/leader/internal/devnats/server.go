// Package devnats is a NATS server in this process, for the demo and for trying
// the other commands out. Main alone imports it: see app.Kit.
package devnats

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/tempdir"
)

// prefix begins the names of the servers' directories.
const prefix = "leader-dev-"

// patience is how long the server may take to start. It takes a fraction of a
// second, and longer on a machine that builds something.
const patience = 20 * time.Second

// A Server is a nats-server with JetStream, which can be restarted. Its methods
// are not for concurrent use.
type Server struct {
	opts *server.Options
	srv  *server.Server
	dir  *tempdir.Dir
}

// Start starts a server with JetStream on a port of the loopback interface, 0
// for any that is free. Its files are in a temporary directory until Close. It
// handles no signals: they are the command's, which ends its work first. It
// logs nothing, since the terminal is the command's, too.
func Start(port int) (*Server, error) {
	dir, err := tempdir.New(prefix)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s := &Server{dir: dir, opts: &server.Options{
		ServerName: "leader-dev", Host: "127.0.0.1", Port: port,
		JetStream: true, StoreDir: dir.Path, NoLog: true, NoSigs: true,
	}}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	return s, nil
}

// Start starts a server with the options. The port that it was given is kept in
// them, so that clients find it there after a restart.
func (s *Server) Start() error {
	srv, err := server.NewServer(s.opts.Clone()) // it writes into its options
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(patience) {
		srv.Shutdown()
		return fmt.Errorf("nats-server: does not accept connections on %s:%d", s.opts.Host, s.opts.Port)
	}
	if addr, ok := srv.Addr().(*net.TCPAddr); ok {
		s.opts.Port = addr.Port
	}
	s.srv = srv
	return nil
}

// URL is where clients connect.
func (s *Server) URL() string { return fmt.Sprintf("nats://%s:%d", s.opts.Host, s.opts.Port) }

// Stop stops the server as a signal would, and returns when its files are
// closed. It may be called again.
func (s *Server) Stop() {
	if s.srv != nil {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		s.srv = nil
	}
}

// Close stops the server and removes its files.
func (s *Server) Close() error {
	s.Stop()
	return s.dir.Remove()
}
