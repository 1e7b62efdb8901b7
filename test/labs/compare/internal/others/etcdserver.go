package others

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// etcdServer is one server of etcd, without a cluster.
type etcdServer struct{}

// Name implements [peer.Store].
func (etcdServer) Name() string { return "etcd " + peer.Version("go.etcd.io/etcd/server/v3") }

// Prepare does nothing: candidates make their keys.
func (etcdServer) Prepare(context.Context, harness.Servers) error { return nil }

// Etcd's clock. By default it ticks each 100 ms and elects its own leader in 1
// s, and therefore grants no lease below 2 s; twice as fast it grants leases of
// 1 s, which the comparison uses.
const (
	tick     = 50 * time.Millisecond
	election = 500 * time.Millisecond
)

// Serve implements [peer.Store].
func (etcdServer) Serve(_ int, dir string, port int, stdin io.Reader, stdout io.Writer) (err error) {
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

func address(at harness.Servers) string {
	_, address, _ := strings.Cut(at.URLs[0], "://")
	return address
}

func onEtcd(at harness.Servers, f func(*clientv3.Client) error) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address(at)}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	return errors.Join(f(c), c.Close())
}

// Delete implements [peer.Store].
func (etcdServer) Delete(ctx context.Context, at harness.Servers, group string) error {
	return onEtcd(at, func(c *clientv3.Client) error {
		// The leader's key: the other keys belong to queued candidates.
		resp, err := c.Get(ctx, "/"+group+"/", clientv3.WithFirstCreate()...)
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			if _, err := c.Delete(ctx, string(kv.Key)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Swaps implements [peer.Store].
func (etcdServer) Swaps(ctx context.Context, at harness.Servers) (*harness.Swaps, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address(at)}, Logger: zap.NewNop(), Context: ctx})
	if err != nil {
		return nil, err
	}
	key, value, revision := "swaps-"+nuid.Next(), strings.Repeat("x", harness.RecordSize), int64(0)
	return &harness.Swaps{Close: func() { _ = c.Close() }, Swap: func(ctx context.Context) error {
		resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, value)).Commit()
		if err != nil {
			return err
		}
		if !resp.Succeeded {
			return errors.New("a key of our own was changed")
		}
		revision = resp.Header.Revision
		return nil
	}}, nil
}

// Messages returns the number of gRPC messages.
func (etcdServer) Messages(ctx context.Context, at harness.Servers) (in, out int64, err error) {
	page, err := harness.Get(ctx, at.Monitors[0])
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = page.Close() }()
	return grpcMessages(page)
}

// grpcMessages adds up two families of a Prometheus page.
func grpcMessages(page io.Reader) (in, out int64, err error) {
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		_, number, _ := strings.Cut(rest, "} ")
		sum := map[string]*int64{"grpc_server_msg_received_total": &in, "grpc_server_msg_sent_total": &out}[name]
		if sum == nil {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return 0, 0, err
		}
		*sum += int64(n)
	}
	return in, out, lines.Err()
}
