package leadergrpc_test

import (
	"context"
	"fmt"
	"iter"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// patience bounds what happens in milliseconds on a machine with time to spare.
const patience = time.Minute

// The methods of the service in these tests.
const (
	who    = "/lab.Lab/Who"    // who answers
	listen = "/lab.Lab/Listen" // the same, on a stream
	local  = "/lab.Lab/Local"  // the same, on every instance
)

// A handler serves a method.
type handler func(ctx context.Context) (string, error)

// An instance is a candidate with a server on TCP.
type instance struct {
	leader.Election

	id, address string
	runs        atomic.Int32 // of handlers
	serve       handler      // replaces the usual handler, which returns its name
	refusals    atomic.Int32
	refused     chan string // the methods of calls that were refused, as far as there is room
}

// stand starts an instance. Its server refuses calls if it does not lead,
// unless options change this.
func stand(t *testing.T, st store.Store, cfg leader.ElectionConfig, serve handler, opts ...grpc.ServerOption) *instance {
	t.Helper()
	x := &instance{id: cfg.InstanceID, serve: serve, refused: make(chan string, 1)}
	l := listenTCP(t)
	x.address = l.Addr().String()
	cfg.Group, cfg.Address, cfg.TTL, cfg.HeartbeatInterval, cfg.DeleteOnStop = "reports", x.address, time.Minute, time.Second, true
	var err error
	if x.Election, err = leader.NewElectionWithStore(st, cfg); err != nil {
		t.Fatal(err)
	}
	if opts == nil {
		only := leadergrpc.ServerOptions{Local: func(method string) bool { return method == local }}
		opts = []grpc.ServerOption{
			grpc.ChainUnaryInterceptor(x.note, leadergrpc.UnaryServer(x, only)), grpc.StreamInterceptor(leadergrpc.StreamServer(x, only)),
		}
	}
	serveOn(t, l, x, opts...)
	if err := x.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Stop() })
	return x
}

// note notes the refusals that a client sees.
func (x *instance) note(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	if _, refused := leadergrpc.RefusalOf(err); refused {
		x.refusals.Add(1)
		select {
		case x.refused <- info.FullMethod:
		default:
		}
	}
	return resp, err
}

// leads waits until the instance leads.
func leads(t *testing.T, x *instance) *instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for info := range x.Observe(ctx) {
		if info.ID == x.id {
			return x
		}
	}
	t.Fatalf("%s does not lead", x.id)
	return nil
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func serveOn(t *testing.T, l net.Listener, x *instance, opts ...grpc.ServerOption) {
	t.Helper()
	s := grpc.NewServer(opts...)
	unary := func(_ any, ctx context.Context, decode func(any) error, between grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		h := func(ctx context.Context, _ any) (any, error) {
			answer, err := x.answer(ctx)
			return wrapperspb.String(answer), err
		}
		method, _ := grpc.Method(ctx)
		if between == nil {
			return h(ctx, in)
		}
		return between(ctx, in, &grpc.UnaryServerInfo{FullMethod: method}, h)
	}
	stream := func(_ any, ss grpc.ServerStream) error {
		answer, err := x.answer(ss.Context())
		if err != nil {
			return err
		}
		return ss.SendMsg(wrapperspb.String(answer))
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "lab.Lab", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Who", Handler: unary}, {MethodName: "Local", Handler: unary}},
		Streams: []grpc.StreamDesc{{StreamName: "Listen", Handler: stream, ServerStreams: true}},
	}, x)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
}

func (x *instance) answer(ctx context.Context) (string, error) {
	x.runs.Add(1)
	if x.serve != nil {
		return x.serve(ctx)
	}
	return x.id, nil
}

// dial opens a channel.
func dial(t *testing.T, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// reach opens a channel that follows the leader.
func reach(t *testing.T, observe leadergrpc.Observe, opts leadergrpc.BuilderOptions) *grpc.ClientConn {
	t.Helper()
	return dial(t, "leader:///reports", leadergrpc.NewBuilder(observe, opts).DialOptions()...)
}

// ask calls a method.
func ask(t *testing.T, conn *grpc.ClientConn, method string, opts ...grpc.CallOption) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return askIn(ctx, conn, method, opts...)
}

func askIn(ctx context.Context, conn *grpc.ClientConn, method string, opts ...grpc.CallOption) (string, error) {
	out := new(wrapperspb.StringValue)
	if method != listen {
		err := conn.Invoke(ctx, method, wrapperspb.String(""), out, opts...)
		return out.GetValue(), err
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method, opts...)
	if err != nil {
		return "", err
	}
	if err := s.SendMsg(wrapperspb.String("")); err != nil {
		return "", err
	}
	if err := s.CloseSend(); err != nil {
		return "", err
	}
	err = s.RecvMsg(out)
	return out.GetValue(), err
}

// calling calls in the background. It delivers the answer, or the error's text.
func calling(t *testing.T, conn *grpc.ClientConn, opts ...grpc.CallOption) <-chan string {
	t.Helper()
	answer := make(chan string, 1)
	go func() {
		got, err := ask(t, conn, who, opts...)
		if err != nil {
			got = err.Error()
		}
		answer <- got
	}()
	return answer
}

// answeredBy demands that a call that waits is answered by the instance.
func answeredBy(t *testing.T, conn *grpc.ClientConn, x *instance) {
	t.Helper()
	if got, err := ask(t, conn, who, grpc.WaitForReady(true)); err != nil || got != x.id {
		t.Fatalf("%q, %v; want %q", got, err, x.id)
	}
}

// told yields the reports that a test sends.
type told chan leader.LeaderInfo

func (c told) observe(ctx context.Context, _ string) iter.Seq2[leader.LeaderInfo, error] {
	return func(yield func(leader.LeaderInfo, error) bool) {
		for {
			select {
			case info := <-c:
				if !yield(info, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// is returns an observer's report that the instance leads in a term.
func (x *instance) is(term uint64) leader.LeaderInfo {
	return leader.LeaderInfo{Group: "reports", ID: x.id, Term: term, Address: x.address}
}

func newStore() *memstore.Store { return memstore.New() }

func config(id string) leader.ElectionConfig { return leader.ElectionConfig{InstanceID: id} }

func says(format string, args ...any) handler {
	return func(context.Context) (string, error) { return fmt.Sprintf(format, args...), nil }
}
