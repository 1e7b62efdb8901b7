package harness

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Servers are where a process of servers is reached.
type Servers struct {
	URLs     []string `json:"urls"`     // of each server, for its clients
	Monitors []string `json:"monitors"` // of the counters of each
}

// NATS are nats-servers with JetStream.
type NATS struct{ Servers }

// NATSOptions select which servers a process runs.
type NATSOptions struct {
	// Servers is how many there are; more than one form a cluster.
	Servers int
	// Dir is where one alone keeps its files. Empty: where they are gone at its
	// end.
	Dir string
	// Port is where one alone is reached. 0: any.
	Port int
}

// ServeNATS is the process of nats-servers: see [Serve]. It sends its [Servers]
// to the parent.
func ServeNATS(opts NATSOptions, stdin io.Reader, stdout io.Writer) error {
	var lab natslab.Program
	defer lab.Close()
	return lab.Run(func() error {
		var at Servers
		for _, node := range startNATS(&lab, opts) {
			at.URLs = append(at.URLs, node.URL())
			at.Monitors = append(at.Monitors, "http://"+node.Inner().MonitorAddr().String())
		}
		return Serve(stdin, stdout, at)
	})
}

func startNATS(lab *natslab.Program, opts NATSOptions) []*natslab.Server {
	monitored := func(o *server.Options) { o.HTTPHost, o.HTTPPort = "127.0.0.1", -1 }
	if opts.Servers > 1 {
		return natslab.StartCluster(lab, opts.Servers, monitored).Nodes
	}
	return []*natslab.Server{natslab.Start(lab, monitored, func(o *server.Options) {
		if opts.Dir != "" {
			o.StoreDir = filepath.Join(opts.Dir, "nats")
		}
		if opts.Port > 0 {
			o.Port = opts.Port
		}
	})}
}

// URL is where clients connect to any of the servers.
func (n NATS) URL() string { return strings.Join(n.URLs, ",") }

// Connect returns a connection that never gives up.
func (n NATS) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(n.URL(), append([]nats.Option{nats.MaxReconnects(-1)}, opts...)...)
}

// Messages returns how many messages the servers have received from clients and
// sent to them.
func (n NATS) Messages(ctx context.Context) (in, out int64, err error) {
	for _, monitor := range n.Monitors {
		var v struct {
			In  int64 `json:"in_msgs"`
			Out int64 `json:"out_msgs"`
		}
		if err := getJSON(ctx, monitor+"/varz", &v); err != nil {
			return 0, 0, err
		}
		in, out = in+v.In, out+v.Out
	}
	return in, out, nil
}

// Consumers returns how many there are in all streams.
func (n NATS) Consumers(ctx context.Context) (sum int, err error) {
	for _, monitor := range n.Monitors {
		var v struct{ Consumers int }
		if err := getJSON(ctx, monitor+"/jsz", &v); err != nil {
			return 0, err
		}
		sum += v.Consumers
	}
	return sum, nil
}

func getJSON(ctx context.Context, url string, v any) error {
	page, err := Get(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = page.Close() }()
	return json.NewDecoder(page).Decode(v)
}

// Get returns a page of a server's counters, for the caller to close.
func Get(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// RecordSize is about the size of a leader's record, in bytes.
const RecordSize = 150

// Swaps are compare-and-swaps on a key of their own and nothing else: the floor
// under whatever an election does.
type Swaps struct {
	Swap  func(context.Context) error
	Close func()
}

// Swaps returns those on a bucket, as the client of NATS does them, on a
// connection of their own.
func (n NATS) Swaps(bucket string) (*Swaps, error) {
	nc, err := n.Connect()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	msg := nats.NewMsg("$KV." + bucket + ".swaps-" + rand.Text()) // a new key, whose revision is 0
	msg.Data = make([]byte, RecordSize)
	revision := uint64(0)
	return &Swaps{Close: nc.Close, Swap: func(ctx context.Context) error {
		for {
			ack, err := js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
			if err == nil {
				revision = ack.Sequence
			}
			if !inFlight(err) {
				return err
			}
			// This is the only writer of the key: a cluster may take a while to
			// note the end of the write before.
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}}, nil
}

// inFlight reports whether the server refuses a write since another one on the
// same subject is in flight (JSStreamWrongLastSequenceConstantErr, whose text
// is the same as a conflict's).
func inFlight(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == 10164
}

// Once returns how long the next one takes.
func (s *Swaps) Once(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	begun := time.Now()
	err := s.Swap(ctx)
	return time.Since(begun), err
}
