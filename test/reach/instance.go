package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leadergrpc"
)

const (
	bucket = "reach"
	group  = "reach"
	method = "/reach.Reach/Who"
)

// serviceConfig is what the record tells clients: calls wait for a leader.
const serviceConfig = `{"methodConfig": [{"name": [{"service": "reach.Reach"}], "waitForReady": true}]}`

// An event is what an instance tells its parent, a line each.
type event struct {
	ID string `json:"id"`
	// Ready: it knows who leads. Otherwise it has begun to lead.
	Ready bool      `json:"ready,omitempty"`
	At    time.Time `json:"at"`
}

// beInstance is the process of an instance. It stops as a program does that is
// asked to.
func beInstance(ctx context.Context, id, url string, stdin io.Reader, stdout io.Writer) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(stdout)
	say := func(e event) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(e) //nolint:errchkjson // a parent that is gone ends us
	}
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 5, DeleteOnStop: true,
		Address: l.Addr().String(), ConnectionParams: []byte(serviceConfig), AcquireGrace: leader.GraceOff,
		Hooks: leader.Hooks{Transition: func(t leader.Transition) {
			if t.To == leader.StateLeader {
				say(event{ID: id, At: t.At})
			}
		}},
	})
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(leadergrpc.UnaryServer(e, leadergrpc.ServerOptions{})))
	s.RegisterService(service(id), nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	if err := e.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	for info := range e.Observe(ctx) {
		if info.ID != "" {
			break
		}
	}
	say(event{ID: id, Ready: true, At: time.Now()})
	_, err = io.Copy(io.Discard, stdin)
	err = errors.Join(err, e.Stop())
	s.GracefulStop()
	return errors.Join(err, <-served)
}

// service tells who serves.
func service(id string) *grpc.ServiceDesc {
	who := func(_ any, ctx context.Context, decode func(any) error, between grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		h := func(context.Context, any) (any, error) { return wrapperspb.String(id), nil }
		if between == nil {
			return h(ctx, in)
		}
		return between(ctx, in, &grpc.UnaryServerInfo{FullMethod: method}, h)
	}
	return &grpc.ServiceDesc{
		ServiceName: "reach.Reach", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Who", Handler: who}},
	}
}
