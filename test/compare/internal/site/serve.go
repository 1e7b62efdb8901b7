package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/seed-ff2cb582/leader/test/compare/internal/peer"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Serve is the process of a server: it prints where it is reached when it serves, and ends with its standard input.
func Serve(kind peer.Kind, dir string, port int, stdin io.Reader, stdout io.Writer) error {
	if kind == peer.NATS {
		return serveNATS(dir, port, stdin, stdout)
	}
	return serveEtcd(dir, port, stdin, stdout)
}

func tell(w io.Writer, address, monitor string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(place{Address: address, Port: n, Monitor: monitor})
}

func serveNATS(dir string, port int, stdin io.Reader, stdout io.Writer) error {
	var lab natslab.Program
	defer lab.Close()
	return lab.Run(func() error {
		srv := natslab.Start(&lab, func(o *server.Options) {
			o.StoreDir, o.HTTPHost, o.HTTPPort = filepath.Join(dir, "nats"), "127.0.0.1", -1
			if port > 0 {
				o.Port = port
			}
		})
		if err := tell(stdout, srv.Addr(), "http://"+srv.Inner().MonitorAddr().String()+"/varz"); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, stdin)
		return err
	})
}

// Etcd's clock. By default it ticks each 100 ms and elects its own leader in 1 s, and therefore grants
// no lease below 2 s; twice as fast it grants leases of 1 s, which the comparison uses.
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
	case <-time.After(patience):
		return errors.New("etcd is not ready")
	}
	address := e.Clients[0].Addr().String()
	if err := tell(stdout, address, fmt.Sprintf("http://%s/metrics", address)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stdin)
	return err
}
