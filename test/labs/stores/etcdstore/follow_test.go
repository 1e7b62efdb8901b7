package etcdstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// metric is the server's figure of this name, and with this label if there are
// several.
func metric(t *testing.T, node *etcdlab.Node, name, label string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(trial.Within(t), http.MethodGet, node.URL()+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		value := line[strings.LastIndexByte(line, ' ')+1:]
		if strings.HasPrefix(line, name) && strings.Contains(line, label) {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("the server does not count %s", name)
	return 0
}

// transactions is how many the server was asked for. Reads for watches are
// transactions, too.
func transactions(t *testing.T, node *etcdlab.Node) int {
	t.Helper()
	return metric(t, node, "grpc_server_started_total{", `"Txn"`)
}

// A poll would find each of the changes by a separate read.
func TestChangesAreHeardOfWithoutReads(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	watching := open(t, cluster.Client(t), etcdstore.Options{})
	writing := open(t, cluster.Client(t), etcdstore.Options{})
	one, all := trial.Listen(t, watching, "g"), trial.ListenPattern(t, watching, "g.>")
	before := transactions(t, cluster.Nodes[0])
	var rev, below uint64
	const rounds = 50
	for i := range rounds {
		rev = trial.Must(t, writing, store.Write{Key: "g", Expected: rev, Value: fmt.Appendf(nil, "one %d", i), Tombstone: i%2 == 1})
		one.Value(fmt.Sprintf("one %d", i))
		below = trial.Must(t, writing, store.Write{Key: "g.x", Expected: below, Value: fmt.Appendf(nil, "all %d", i), Tombstone: i%2 == 1})
		all.Value(fmt.Sprintf("all %d", i))
	}
	reads := transactions(t, cluster.Nodes[0]) - before - 2*rounds
	t.Logf("%d writes were heard of with %d reads", 2*rounds, reads)
	if reads > rounds/2 {
		t.Errorf("%d writes took %d reads", 2*rounds, reads)
	}
}

// A server that is asked for so many watchers does not read on before its
// answers are read. The window is gRPC's first one, which it would widen at its
// own discretion; long keys fill the server's.
func TestThousandsOfKeysAreWatched(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	client := cluster.Client(t, func(config *clientv3.Config) {
		config.DialOptions = append(config.DialOptions, grpc.WithStaticStreamWindowSize(1<<16))
	})
	s := open(t, client, etcdstore.Options{Timeout: time.Hour})
	keys := make([]string, 6000)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%d", strings.Repeat("k", store.MaxKey-4), i)
	}
	h := trial.Listen(t, s, keys...)
	// The reads alone would hear of writes, too.
	natslab.Eventually(t, "a watcher for each key", func(context.Context) error {
		if n := metric(t, cluster.Nodes[0], "etcd_debugging_mvcc_watcher_total ", ""); n < len(keys) {
			return fmt.Errorf("%d watchers", n)
		}
		return nil
	})
	natslab.Eventually(t, "connected", func(context.Context) error {
		if c := s.ConnState(); c != store.Connected {
			return errors.New(c.String())
		}
		return nil
	})
	trial.Must(t, s, store.Write{Key: keys[len(keys)-1], Value: []byte("1")})
	h.Value("1")
}

// A frozen server keeps its connections, so only the silence reveals it. Reads
// do not help here, for they wait as well.
func TestASilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	s := open(t, cluster.Client(t), etcdstore.Options{Timeout: time.Hour})
	h := trial.Listen(t, s, "g")
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h.Value("1")
	trial.ComesTo(t, s, store.Connected)
	cluster.Nodes[0].Freeze()
	trial.ComesTo(t, s, store.Disconnected)
	cluster.Nodes[0].Thaw()
	trial.ComesTo(t, s, store.Connected)
	h.Value("1") // once more
	trial.Settle(t, s, "g", rev, "2")
	h.Value("2")
}

// Silence while nothing changes does not mean that the server is dead.
func TestAnIdleStreamIsKept(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	s := open(t, cluster.Client(t), etcdstore.Options{})
	h := trial.Listen(t, s, "g")
	h.Until("nothing", func(e store.Entry) bool { return e.Revision == 0 })
	trial.StaysConnected(t, s, 7*time.Second) // longer than a stream may be silent
	trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h.Value("1")
}

// logged takes what a store logs.
type logged chan string

func (l logged) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A cluster that has lost its majority reports it by ending the stream.
func TestALostMajorityIsHeardOf(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 3)
	said := make(logged, 100)
	s := open(t, etcdlab.Client(t, cluster.URLs()[:1]), etcdstore.Options{Timeout: time.Hour, Logger: slog.New(slog.NewTextHandler(said, nil))})
	h := trial.Listen(t, s, "g")
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h.Value("1")
	cluster.Nodes[1].Kill()
	cluster.Nodes[2].Kill()
	ctx := trial.Within(t)
	for text := ""; !strings.Contains(text, "no leader"); {
		select {
		case text = <-said:
		case <-ctx.Done():
			t.Fatal("the stream did not end for want of a leader")
		}
	}
	natslab.Eventually(t, "disconnected", func(context.Context) error {
		if c := s.ConnState(); c != store.Disconnected {
			return errors.New(c.String())
		}
		return nil
	})
	natslab.Eventually(t, "a write is refused", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := s.CompareAndSwap(ctx, store.Write{Key: "other", Expected: 1})
		if store.Classify(err) != store.Transient {
			return fmt.Errorf("%v: %w", store.Classify(err), err)
		}
		return nil
	})
	cluster.Run()
	h.Value("1") // once more
	trial.Settle(t, s, "g", rev, "2")
	h.Value("2")
}

// The set of watched keys changes while the stream is open.
func TestWatchesComeAndGo(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	trial.WatchesComeAndGo(t, open(t, cluster.Client(t), etcdstore.Options{}), open(t, cluster.Client(t), etcdstore.Options{}))
}

// By itself a client waits for up to two minutes between two attempts to
// connect: to ten it comes in two minutes.
func TestAServerThatIsAwayIsAskedForOftenEnough(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody is connected
	s := open(t, etcdlab.Client(t, []string{"http://" + l.Addr().String()}), etcdstore.Options{})
	defer s.OnConnState(func(store.ConnState) {})()
	limit := time.AfterFunc(natslab.Patience, func() { _ = l.Close() })
	defer limit.Stop()
	for i := range 10 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatalf("%d attempts within %v", i, natslab.Patience)
		}
		_ = conn.Close()
	}
}
