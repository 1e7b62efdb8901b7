package etcdstore

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// errTwice ends an attempt that would send a write again.
var errTwice = errors.New("the write was sent already")

// An attempt watches one write on its way out, and lets it leave once. The
// client repeats a write by itself when an attempt ends with the status
// DeadlineExceeded or Canceled before the caller's context is done
// (client/v3/retry_interceptor.go, unaryClientInterceptor). That happens when
// the server sees the deadline pass first: the write may be applied, and the
// repetition would be refused for it, with a false conflict. gRPC's own
// retries, which a caller may have configured, are held back as well.
//
// gRPC asks for a call's credentials for each stream on a connection, right
// before its headers are sent (internal/transport/http2_client.go,
// createHeaderFields). A call that never asked has never left.
type attempt struct {
	mu    sync.Mutex
	sent  bool
	last  error // of the stream that was sent, nil while it is under way
	ended bool
	held  bool // a repetition
}

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (a *attempt) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent && (!a.ended || !refused(a.last)) {
		a.held = true
		return nil, errTwice
	}
	a.sent, a.ended = true, false
	return nil, nil //nolint:nilnil // absent metadata is not an error
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials]: there is
// nothing to protect.
func (*attempt) RequireTransportSecurity() bool { return false }

// finish hears how a stream ended.
func (a *attempt) finish(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.held && a.sent {
		a.last, a.ended = err, true
	}
}

// A sendError describes how a write failed.
type sendError struct {
	sent    bool  // it may have left
	refused bool  // etcd looked at it and refused it
	err     error // of etcd or gRPC
}

// once sends a transaction that writes.
func (c *client) once(ctx context.Context, request *pb.TxnRequest) (*pb.TxnResponse, *sendError) {
	var a attempt
	// A server that knows of no leader refuses at once, instead of keeping the
	// write for one that may come.
	answer, err := c.kv.Txn(clientv3.WithRequireLeader(ctx), request, grpc.PerRPCCredentials(&a), grpc.OnFinish(a.finish))
	if err == nil {
		return answer, nil
	}
	c.hurry(err)
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &sendError{sent: a.sent, refused: a.ended && refused(a.last), err: err}
	if a.held && a.last != nil {
		e.err = a.last
	}
	return nil, e
}
