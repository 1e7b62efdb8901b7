package app

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startServer runs a NATS server with JetStream at the address of a URL. Its
// files are temporary.
func startServer(at string) (stop func(), err error) {
	host, port, err := addressOf(at)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "leader-example-")
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(&server.Options{Host: host, Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	srv.Start()
	stop = func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir) // the system clears what is left
	}
	if !srv.ReadyForConnections(10 * time.Second) {
		stop()
		return nil, fmt.Errorf("no NATS server could be started at %s: if there is one, leave -dev out", at)
	}
	return stop, nil
}

func addressOf(at string) (host string, port int, err error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(u.Port())
	if err != nil {
		return "", 0, fmt.Errorf("%s: a port is needed", at)
	}
	return u.Hostname(), port, nil
}
