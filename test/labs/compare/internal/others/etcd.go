package others

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// etcd is go.etcd.io/etcd/client/v3/concurrency: a session, whose lease is kept
// alive, and an election on it.
type etcd struct{}

func (etcd) Name() string      { return "etcd" }
func (etcd) Module() string    { return "go.etcd.io/etcd/client/v3" }
func (etcd) Store() peer.Store { return etcdServer{} }

// Answers: Election.Leader asks the server.
func (etcd) Answers() bool { return false }

// LeaseFor: leases last whole seconds, and the client keeps them alive three
// times in a TTL, which no setting changes.
func (etcd) LeaseFor(ttl time.Duration) (peer.Lease, bool) {
	return peer.Lease{TTL: ttl, Heartbeat: ttl / 3}, ttl%time.Second == 0
}

// BeatFor rounds the lease up to whole seconds.
func (etcd) BeatFor(heartbeat time.Duration) peer.Lease {
	return peer.Lease{TTL: (3*heartbeat + time.Second - 1).Truncate(time.Second), Heartbeat: heartbeat}
}

func (etcd) Connect(address string, opts peer.Options) (peer.Client, error) {
	c := &etcdClient{renewed: map[int64]func(time.Time){}}
	dial := []grpc.DialOption{grpc.WithStatsHandler(c)}
	if opts.Dial != nil {
		dial = append(dial, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return opts.Dial(ctx, address)
		}))
	}
	var err error
	c.Client, err = clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop(), DialOptions: dial})
	return c, err
}

// An etcdClient is also the stats.Handler of its connection, which knows when
// keepalives leave.
type etcdClient struct {
	*clientv3.Client

	mu      sync.Mutex
	renewed map[int64]func(sent time.Time) // by lease
	sent    map[int64]time.Time            // when the latest keepalive of a lease left
}

// Close ends the connection.
func (c *etcdClient) Close() { _ = c.Client.Close() } // it returns an error because it was cancelled

func (c *etcdClient) Join(ctx context.Context, as peer.Candidacy) (peer.Candidate, error) {
	// The candidate outlives the call.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e := &etcdCandidate{as: as, client: c, cancel: cancel, gone: make(chan struct{})}
	go func() {
		defer close(e.gone)
		e.campaign(run)
	}()
	return e, nil
}

type etcdCandidate struct {
	as     peer.Candidacy
	client *etcdClient
	cancel context.CancelFunc
	gone   chan struct{} // closed when nothing is left

	term   atomic.Pointer[concurrency.Session] // of the present term, nil without one
	queued atomic.Bool                         // its key is written
	claims atomic.Int64
}

// campaign campaigns until ctx is done, with a new session whenever one has
// ended, as the documentation of Session.Done asks for.
func (e *etcdCandidate) campaign(ctx context.Context) {
	for ctx.Err() == nil {
		if e.serve(ctx) != nil {
			select {
			case <-time.After(50 * time.Millisecond): // as the others' connections
			case <-ctx.Done():
			}
		}
	}
}

// serve takes part with one session.
func (e *etcdCandidate) serve(ctx context.Context) error {
	// The session is not ctx's: it ends after the election was left. The client
	// ends it in any case.
	session, err := concurrency.NewSession(e.counted(), concurrency.WithTTL(int(e.as.Lease.TTL/time.Second)))
	if err != nil {
		return err
	}
	defer e.client.watch(int64(session.Lease()), e.as.Renewed)()
	defer e.leave(session)
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(session.Ctx(), cancel)()
	election := concurrency.NewElection(session, "/"+e.as.Group)
	if err := election.Campaign(live, e.as.ID); err != nil {
		return err
	}
	e.term.Store(session)
	if e.as.Promoted != nil {
		e.as.Promoted()
	}
	<-live.Done()
	e.term.Store(nil)
	if ctx.Err() == nil {
		return nil // the session ended
	}
	return election.Resign(context.WithoutCancel(ctx))
}

// counted returns the connection's client, but for the transactions, which it
// counts.
func (e *etcdCandidate) counted() *clientv3.Client {
	c := clientv3.NewCtxClient(e.client.Ctx())
	c.KV, c.Lease, c.Watcher = countedKV{e.client.KV, e}, e.client.Lease, e.client.Watcher
	return c
}

// leave ends the session.
func (e *etcdCandidate) leave(session *concurrency.Session) {
	e.queued.Store(false)
	_ = session.Close() // where the server cannot be reached the lease runs out
}

func (e *etcdCandidate) IsLeader() bool { return e.Works() }

func (e *etcdCandidate) Works() bool {
	session := e.term.Load()
	if session == nil {
		return false
	}
	select {
	case <-session.Done():
		return false
	default:
		return true
	}
}

// Follows reports whether this candidate is queued. It knows nothing of the
// leader.
func (e *etcdCandidate) Follows(string) bool { return e.queued.Load() && !e.Works() }

func (e *etcdCandidate) Claims() int { return int(e.claims.Load()) }

func (e *etcdCandidate) Stop(ctx context.Context) error {
	e.cancel()
	select {
	case <-e.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A countedKV counts the transactions of an election, all of which are writes.
type countedKV struct {
	clientv3.KV
	e *etcdCandidate
}

func (k countedKV) Txn(ctx context.Context) clientv3.Txn {
	k.e.claims.Add(1)
	return k.KV.Txn(ctx)
}

// Get is what Campaign does first when its key is written.
func (k countedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := k.KV.Get(ctx, key, opts...)
	k.e.queued.Store(err == nil)
	return resp, err
}

// watch has renewed called for the keepalives of a lease, until the function
// that it returns is called.
func (c *etcdClient) watch(lease int64, renewed func(time.Time)) (end func()) {
	if renewed == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewed[lease] = renewed
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.renewed, lease)
	}
}

// HandleRPC implements stats.Handler.
func (c *etcdClient) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.OutPayload:
		if r, ok := s.Payload.(*pb.LeaseKeepAliveRequest); ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.renewed[r.ID] != nil {
				if c.sent == nil {
					c.sent = map[int64]time.Time{}
				}
				c.sent[r.ID] = s.SentTime
			}
		}
	case *stats.InPayload:
		if r, ok := s.Payload.(*pb.LeaseKeepAliveResponse); ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			if f := c.renewed[r.ID]; f != nil && r.TTL > 0 && !c.sent[r.ID].IsZero() {
				f(c.sent[r.ID])
			}
		}
	}
}

// TagRPC implements stats.Handler.
func (c *etcdClient) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (c *etcdClient) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (c *etcdClient) HandleConn(context.Context, stats.ConnStats) {}
