package site

import (
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/peer"
)

// Serve is the process of a server: see [harness.Serve]. It tells the parent
// where it is reached.
func Serve(kind peer.Kind, dir string, port int, stdin io.Reader, stdout io.Writer) error {
	if kind == peer.NATS {
		return harness.ServeNATS(harness.NATSOptions{Servers: 1, Dir: dir, Port: port}, stdin, stdout)
	}
	return serveEtcd(dir, port, stdin, stdout)
}

// Etcd's clock. By default it ticks each 100 ms and elects its own leader in 1
// s, and therefore grants no lease below 2 s; twice as fast it grants leases of
// 1 s, which the comparison uses.
const (
	tick     = 50 * time.Millisecond
	election = 500 * time.Millisecond
)

func serveEtcd(dir string, port int, stdin io.Reader, stdout io.Writer) (err error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.LogLevel, cfg.LogOutputs = "fatal", []string{"/dev/null"}
	cfg.TickMs, cfg.ElectionMs = uint(tick.Milliseconds()), uint(election.Milliseconds())
	clients := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	peers := url.URL{Scheme: "http", Host: "127.0.0.1:0"} // there are none
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return err
	case <-time.After(harness.Patience):
		return errors.New("etcd is not ready")
	}
	at := "http://" + e.Clients[0].Addr().String()
	return harness.Serve(stdin, stdout, harness.Servers{URLs: []string{at}, Monitors: []string{at + "/metrics"}})
}
