package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// servers are one or three nats-servers in another process.
type servers struct {
	URL      string   `json:"url"`
	Monitors []string `json:"monitors"`

	replicas int
	cmd      *exec.Cmd
	stdin    io.Closer
}

// startServers runs this very program as a process of n servers.
func startServers(ctx context.Context, n int) (*servers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &servers{replicas: n, cmd: exec.CommandContext(ctx, self, "-serve", strconv.Itoa(n))}
	s.cmd.Stderr = os.Stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the process of %d servers did not start: %w", n, err)
	}
	return s, json.Unmarshal(line, s)
}

func (s *servers) stop() error {
	_ = s.stdin.Close() // tells the process to end
	return s.cmd.Wait()
}

// serveServers is the other process.
func serveServers(n int, stdin io.Reader, stdout, stderr io.Writer) int {
	var tb natslab.Program
	defer tb.Close()
	if err := tb.Run(func() error { return serve(&tb, n, stdin, stdout) }); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func serve(tb *natslab.Program, n int, stdin io.Reader, stdout io.Writer) error {
	monitor := func(o *server.Options) { o.HTTPHost, o.HTTPPort = "127.0.0.1", -1 }
	var s servers
	var nodes []*natslab.Server
	if n == 1 {
		nodes = []*natslab.Server{natslab.Start(tb, monitor)}
	} else {
		nodes = natslab.StartCluster(tb, n, monitor).Nodes
	}
	for i, node := range nodes {
		if i > 0 {
			s.URL += ","
		}
		s.URL += node.URL()
		s.Monitors = append(s.Monitors, "http://"+node.Inner().MonitorAddr().String())
	}
	if err := json.NewEncoder(stdout).Encode(s); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, stdin) // until the parent closes it, or ends
	return nil
}

// connect returns a connection of a candidate.
func (s *servers) connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(s.URL, append([]nats.Option{nats.MaxReconnects(-1)}, opts...)...)
}

// bucket makes a bucket of ours, and returns its name.
func (l *lab) bucket(s *servers) (string, error) {
	nc, err := s.connect()
	if err != nil {
		return "", err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", err
	}
	l.buckets++
	name := fmt.Sprintf("b%d", l.buckets)
	cfg := natsstore.BucketConfig{Bucket: name, Replicas: s.replicas}
	return name, l.eventually("bucket "+name, func(ctx context.Context) error {
		if err := natsstore.EnsureBucket(ctx, js, cfg); err != nil {
			return err
		}
		_, err := js.KeyValue(ctx, name)
		return err
	})
}

// traffic is what the servers' clients sent and received.
type traffic struct {
	In, Out int64
}

func (t traffic) sub(b traffic) traffic { return traffic{t.In - b.In, t.Out - b.Out} }

func (s *servers) traffic() (t traffic, err error) {
	for _, m := range s.Monitors {
		var v struct {
			InMsgs  int64 `json:"in_msgs"`
			OutMsgs int64 `json:"out_msgs"`
		}
		if err := get(m+"/varz", &v); err != nil {
			return traffic{}, err
		}
		t.In, t.Out = t.In+v.InMsgs, t.Out+v.OutMsgs
	}
	return t, nil
}

// consumers is how many there are in all streams.
func (s *servers) consumers() (n int, err error) {
	for _, m := range s.Monitors {
		var v struct{ Consumers int }
		if err := get(m+"/jsz", &v); err != nil {
			return 0, err
		}
		n += v.Consumers
	}
	return n, nil
}

func get(url string, v any) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return json.NewDecoder(resp.Body).Decode(v)
}
