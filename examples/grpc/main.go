// Command grpc is a gRPC service of which one copy answers, its leader, and a
// client that is always answered.
//
//	go run ./examples/grpc -dev -id a -listen 127.0.0.1:9081
//
// The first copy runs a NATS server. In other terminals:
//
//	go run ./examples/grpc -id b -listen 127.0.0.1:9082
//	go run ./examples/grpc -id client -call
//
// Then end the copy that counts, and see the client go on with the other. The
// leader's record contains how clients call (whether they wait, and for how
// long).
//
// The service has one method. Its messages are well-known ones, and its
// description is written by hand, so that there is no generated code to read
// past.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

const (
	group  = "counter"
	method = "/counter.Counter/Count"
)

// serviceConfig is how clients are to call. They wait while nobody leads. A
// count is not repeated if its connection breaks, since it may have been made.
const serviceConfig = `{"methodConfig": [{"name": [{"service": "counter.Counter"}], "waitForReady": true, "timeout": "2s"}]}`

func main() { os.Exit(app.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f app.Flags
	var listen string
	var call bool
	err := f.Parse("grpc", args, stderr, func(fs *flag.FlagSet) {
		fs.StringVar(&listen, "listen", app.Env("LISTEN", "127.0.0.1:9080"), "the `address` to listen on ($LISTEN), at which clients reach this copy")
		fs.BoolVar(&call, "call", false, "be a client: call the leader five times a second")
	})
	if err != nil {
		return err
	}
	nc, closeAll, err := f.Connect()
	if err != nil {
		return err
	}
	defer closeAll()
	if call {
		return client(ctx, nc, f.ID, stdout)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: app.Bucket, BucketAutoCreate: true, Group: group, InstanceID: f.ID, TTL: f.TTL, Logger: f.Logger(), AcquireGrace: f.Grace(),
		Address: l.Addr().String(), ConnectionParams: []byte(serviceConfig), DeleteOnStop: true,
	}.WithProfile(f.Profile))
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return serve(ctx, e, l, &counter{id: f.ID, out: stdout})
}

// serve serves until ctx is done, and then leaves in order: the leadership
// first, so that the next leader is there when clients are sent away.
func serve(ctx context.Context, e leader.Election, l net.Listener, c *counter) error {
	s := grpc.NewServer(grpc.UnaryInterceptor(leadergrpc.UnaryServer(e, leadergrpc.ServerOptions{})))
	s.RegisterService(c.describe(), nil)
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	// Not ctx: its end begins our own stop.
	err := e.Start(context.WithoutCancel(ctx))
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		case <-e.Done(): // by itself; Stop returns why
		}
	}
	err = errors.Join(err, e.Stop())
	s.GracefulStop()
	return err
}

// A counter counts, from 1 on in each term.
type counter struct {
	id  string
	out io.Writer

	mu   sync.Mutex
	term leader.Term
	n    int
}

// count runs on the leader only. Its context is the term's.
func (c *counter) count(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Once more, right before the act: the call may have waited since it was
	// let in.
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if term, _ := leader.TermFromContext(ctx); term != c.term {
		c.term, c.n = term, 0
	}
	c.n++
	app.Say(c.out, c.id, c.term, "counts n=%d", c.n)
	return fmt.Sprintf("%s counts %d in term %d", c.id, c.n, c.term.Number), nil
}

// describe is what the compiler of protocol buffers would generate.
func (c *counter) describe() *grpc.ServiceDesc {
	handler := func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(emptypb.Empty)
		if err := decode(in); err != nil {
			return nil, err
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
			answer, err := c.count(ctx)
			return wrapperspb.String(answer), err
		})
	}
	return &grpc.ServiceDesc{
		ServiceName: "counter.Counter", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Count", Handler: handler}},
	}
}

// client calls the leader.
func client(ctx context.Context, nc *nats.Conn, id string, stdout io.Writer) error {
	builder := leadergrpc.NewBuilder(func(ctx context.Context, group string) iter.Seq2[leader.LeaderInfo, error] {
		return leader.Observe(ctx, nc, app.Bucket, group)
	}, leadergrpc.BuilderOptions{})
	conn, err := grpc.NewClient("leader:///"+group, append(builder.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for app.Sleep(ctx, 200*time.Millisecond) {
		answer := new(wrapperspb.StringValue)
		if err := conn.Invoke(ctx, method, new(emptypb.Empty), answer); err != nil {
			app.Say(stdout, id, leader.Term{}, "failed: %v", err)
			continue
		}
		app.Say(stdout, id, leader.Term{}, "was answered: %s", answer.GetValue())
	}
	return nil
}
