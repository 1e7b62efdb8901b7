package demo

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serverPatience is how long the server may take to start.
const serverPatience = 20 * time.Second

// An embedded is a nats-server in this process, which can be restarted.
type embedded struct {
	opts *server.Options
	srv  *server.Server
}

// startEmbedded starts a server with JetStream on a port of the loopback interface, 0 for any
// that is free. Its files are in a temporary directory until close.
func startEmbedded(port int) (*embedded, error) {
	dir, err := os.MkdirTemp("", "leader-demo-")
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	e := &embedded{opts: &server.Options{
		ServerName: "leader-demo", Host: "127.0.0.1", Port: port,
		JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	}}
	if err := e.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return e, nil
}

func (e *embedded) start() error {
	srv, err := server.NewServer(e.opts.Clone()) // it writes into its options
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(serverPatience) {
		srv.Shutdown()
		return fmt.Errorf("nats-server: does not accept connections on %s:%d", e.opts.Host, e.opts.Port)
	}
	if addr, ok := srv.Addr().(*net.TCPAddr); ok {
		e.opts.Port = addr.Port
	}
	e.srv = srv
	return nil
}

func (e *embedded) url() string { return fmt.Sprintf("nats://%s:%d", e.opts.Host, e.opts.Port) }

func (e *embedded) stop() {
	if e.srv != nil {
		e.srv.Shutdown()
		e.srv.WaitForShutdown()
		e.srv = nil
	}
}

// restart stops the server as a signal would and starts it again after down, with its files, on its port.
func (e *embedded) restart(down time.Duration) error {
	e.stop()
	t := time.NewTimer(down)
	defer t.Stop()
	<-t.C
	return e.start()
}

// close stops the server and removes its files.
func (e *embedded) close() error {
	e.stop()
	return os.RemoveAll(e.opts.StoreDir)
}
