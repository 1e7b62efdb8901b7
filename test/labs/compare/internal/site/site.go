// Package site runs the servers of the comparison: each in a process of its
// own, on the loopback interface, with its files in a temporary directory, and
// with the settings that it has by default unless said otherwise here.
package site

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/peer"
)

// A Site is a store's server in a process of its own.
type Site struct {
	kind    peer.Kind
	dir     string
	at      harness.Servers // one
	process *harness.Child
}

// Start starts an empty server and makes what the libraries need in it.
func Start(ctx context.Context, kind peer.Kind) (_ *Site, err error) {
	s := &Site{kind: kind}
	if s.dir, err = os.MkdirTemp("", "leader-compare-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err := s.Run(ctx); err != nil {
		return nil, err
	}
	if kind == peer.NATS {
		err = s.ensureBucket(ctx)
	}
	return s, err
}

// Address is host:port of the server.
func (s *Site) Address() string {
	_, address, _ := strings.Cut(s.at.URLs[0], "://")
	return address
}

// Run starts the process, on the port and the files that it had before, and
// returns when it serves.
func (s *Site) Run(ctx context.Context) (err error) {
	port := "0" // any
	if len(s.at.URLs) > 0 {
		if _, port, err = net.SplitHostPort(s.Address()); err != nil {
			return err
		}
	}
	if s.process, err = harness.StartChild(ctx, "serve", string(s.kind), s.dir, port); err != nil {
		return err
	}
	if err := s.process.Hear(&s.at); err != nil {
		return fmt.Errorf("the %s server did not start: %w", s.kind, err)
	}
	return nil
}

// Kill ends the process without a warning (SIGKILL). Its files stay.
func (s *Site) Kill() { s.process.Kill() }

// Stop ends the server and removes its files.
func (s *Site) Stop() error {
	if s.process != nil {
		s.process.Kill()
	}
	return os.RemoveAll(s.dir)
}

func (s *Site) ensureBucket(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	return s.onNATS(func(js jetstream.JetStream) error {
		return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: peer.Bucket})
	})
}

func (s *Site) onNATS(f func(jetstream.JetStream) error) error {
	nc, err := nats.Connect(s.at.URLs[0])
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return f(js)
}

func (s *Site) onEtcd(f func(*clientv3.Client) error) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Address()}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	return errors.Join(f(c), c.Close())
}

// Delete removes what a group keeps in the store, as an operator's own tool
// would.
func (s *Site) Delete(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	if s.kind == peer.NATS {
		return s.onNATS(func(js jetstream.JetStream) error {
			kv, err := js.KeyValue(ctx, peer.Bucket)
			if err != nil {
				return err
			}
			return kv.Delete(ctx, group)
		})
	}
	return s.onEtcd(func(c *clientv3.Client) error {
		// The leader's key: the others are those of candidates in line.
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

// Swaps are compare-and-swaps as the store's client does them.
func (s *Site) Swaps(ctx context.Context) (*harness.Swaps, error) {
	if s.kind == peer.NATS {
		return harness.NATS{Servers: s.at}.Swaps(peer.Bucket)
	}
	return s.etcdSwaps(ctx)
}

func (s *Site) etcdSwaps(ctx context.Context) (*harness.Swaps, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Address()}, Logger: zap.NewNop(), Context: ctx})
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

// Messages returns how many messages the server has received from clients and
// sent to them: those of NATS, or those of gRPC.
func (s *Site) Messages(ctx context.Context) (in, out int64, err error) {
	if s.kind == peer.NATS {
		return harness.NATS{Servers: s.at}.Messages(ctx)
	}
	page, err := harness.Get(ctx, s.at.Monitors[0])
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
