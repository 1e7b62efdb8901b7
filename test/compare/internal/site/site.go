// Package site runs the servers of the comparison: each in a process of its own, on the loopback interface, with its files in a
// temporary directory, and with the settings that it has by default unless said otherwise here.
package site

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/compare/internal/peer"
)

// patience bounds every wait.
const patience = 60 * time.Second

// A Site is a store's server in a process of its own.
type Site struct {
	kind peer.Kind
	dir  string
	at   place
	cmd  *exec.Cmd
	in   io.Closer
}

// A place is where a server is reached.
type place struct {
	Address string `json:"address"` // host:port for clients
	Port    int    `json:"port"`
	Monitor string `json:"monitor"` // URL of its counters
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
func (s *Site) Address() string { return s.at.Address }

// Run starts the process, on the port and the files that it had before, and returns when it serves.
func (s *Site) Run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.cmd = exec.CommandContext(ctx, self, "serve", string(s.kind), s.dir, strconv.Itoa(s.at.Port))
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.in = in
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the %s server did not start: %w", s.kind, err)
	}
	return json.Unmarshal(line, &s.at)
}

// Kill ends the process without a warning (SIGKILL). Its files stay.
func (s *Site) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	_ = s.cmd.Wait()         // says that it was killed
	_ = s.in.Close()
}

// Stop ends the server and removes its files.
func (s *Site) Stop() error {
	if s.cmd != nil && s.cmd.Process != nil {
		s.Kill()
	}
	return os.RemoveAll(s.dir)
}

func (s *Site) ensureBucket(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.onNATS(func(js jetstream.JetStream) error {
		return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: peer.Bucket})
	})
}

func (s *Site) onNATS(f func(jetstream.JetStream) error) error {
	nc, err := nats.Connect("nats://" + s.at.Address)
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
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.at.Address}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	return errors.Join(f(c), c.Close())
}

// Delete removes what a group keeps in the store, as an operator's own tool would.
func (s *Site) Delete(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// Swaps are compare-and-swaps on a key of their own, as the store's client does them, on a connection of their own.
type Swaps struct {
	once  func(context.Context) error
	close func()
}

// Once returns how long the next one takes.
func (s *Swaps) Once(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := time.Now()
	err := s.once(ctx)
	return time.Since(begun), err
}

// Close ends the connection.
func (s *Swaps) Close() { s.close() }

// recordSize is about that of a leader's record.
const recordSize = 150

// Swaps connects.
func (s *Site) Swaps(ctx context.Context) (*Swaps, error) {
	if s.kind == peer.NATS {
		return s.natsSwaps()
	}
	return s.etcdSwaps(ctx)
}

func (s *Site) natsSwaps() (*Swaps, error) {
	nc, err := nats.Connect("nats://" + s.at.Address)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	// A new key, so that its revision is 0.
	msg := nats.NewMsg("$KV." + peer.Bucket + ".swaps-" + nuid.Next())
	msg.Data = make([]byte, recordSize)
	revision := uint64(0)
	return &Swaps{close: nc.Close, once: func(ctx context.Context) error {
		ack, err := js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
		if err == nil {
			revision = ack.Sequence
		}
		return err
	}}, nil
}

func (s *Site) etcdSwaps(ctx context.Context) (*Swaps, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.at.Address}, Logger: zap.NewNop(), Context: ctx})
	if err != nil {
		return nil, err
	}
	key, value, revision := "swaps-"+nuid.Next(), strings.Repeat("x", recordSize), int64(0)
	return &Swaps{close: func() { _ = c.Close() }, once: func(ctx context.Context) error {
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

// Messages returns how many messages the server has received from clients and sent to them: those of NATS, or those of gRPC.
func (s *Site) Messages(ctx context.Context) (in, out int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at.Monitor, http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if s.kind == peer.NATS {
		var v struct {
			In  int64 `json:"in_msgs"`
			Out int64 `json:"out_msgs"`
		}
		err := json.NewDecoder(resp.Body).Decode(&v)
		return v.In, v.Out, err
	}
	return grpcMessages(resp.Body)
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
